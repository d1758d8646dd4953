"""The process that one text of a script runs in: `python -m outpace.tune.same.child PLAN`; its record is in the plan's `result` afterwards."""

from __future__ import annotations

import atexit
import json
import os
import resource
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from outpace.capture.ending import end_here, flush_files
from outpace.capture.frames import users
from outpace.capture.imports import ImportHooks
from outpace.capture.script import run_as_main
from outpace.tune import guard
from outpace.tune.same.chance import Chance
from outpace.tune.same.fits import Fits
from outpace.tune.same.nudge import Nudge
from outpace.tune.same.passes import END, Passes
from outpace.tune.same.record import CUT_SHORT, Record, files_of
from outpace.tune.same.said import Said
from outpace.tune.same.state import Reader, State
from outpace.tune.texts.edition import Loaded
from outpace.tune.texts.load import Marking, substitute

LEAVING = 10.0  # seconds for what a script does at its exit


class TextRun:
    """One run, as a plan says: `edition` (a file), `script`, `argv`, `module`, `cut` and `every` (passes), `nudge` (a seed, or null), `limit`
    (seconds), `training` (seconds after its begin, or null), `result` (where the record goes)."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.loaded = loaded = Loaded.read(plan["edition"])
        self.marking = Marking(loaded.place, loaded.header)
        self.marks = Passes(
            plan["cut"], plan["every"], loaded.grouped, self._began, self._passed, ".".join(map(str, loaded.place.path))
        )
        self.fits = Fits(loaded.fit, plan["cut"], plan["every"], self._began, self._passed)
        self.read: dict[tuple[str, int, int], State] = {}
        self._reader = Reader(users)
        self._written = threading.Lock()
        self.guard: guard.Guard | None = None
        self.said = Said(users)

    def _began(self, frame: FrameType, model: Any = None) -> None:
        """The loop begins for the first time, or the `fit` of a model."""
        self.marks.ran.clear()  # what ran before is no part of training
        if self.plan["training"] is not None:
            self._watch(self.plan["training"])
        if self.plan["nudge"] is not None:
            Nudge(users, self.plan["nudge"]).frame(frame, (model,))

    def _passed(self, key: str, entry: int, passes: int, frame: FrameType | None, held: dict[str, Any] | None = None) -> None:
        """The state is to be read; `held`: by name, what a frame does not lead to."""
        self.read[key, entry, passes] = self._reader.read(frame, held)

    def finish(self, ended: str) -> None:
        """Write the record; once."""
        if not self._written.acquire(blocking=False):
            return
        passes = dict(self.marks.passes)  # of a fit the last call may be told with more steps than it made
        ran = {file: frozenset(lines) for file, lines in self.marks.ran.items()}
        if self.read or ended:
            final = self._reader.read(None)
            self.read["script", 1, END] = final
        memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        flush_files()
        ours = (threading.main_thread(), threading.current_thread())
        threads = sum(not each.daemon and each not in ours for each in threading.enumerate())
        files = files_of(self.guard.changed()) if self.guard is not None else {}
        found = Record(
            self.read, passes, (), ended, ran, self.marking.branches, files, memory, threads, self.said.lines
        )  # fmt: skip
        found.write(self.plan["result"])

    def run(self) -> int:
        """The whole script, or as much as there is time for."""
        self._watch(self.plan["limit"])
        try:
            run_as_main(self.plan["script"], self.plan["argv"], self.plan["module"], self.marking.compiled)
        except SystemExit as error:
            self.finish("" if error.code in (None, 0) else f"SystemExit: {error.code}")
        except BaseException as error:
            sys.stderr.write(f"\n{type(error).__name__}: {error}\n")
            self.finish(f"{type(error).__name__}: {error}")
        self.finish(self._exit())
        return 0

    def _exit(self) -> str:
        """Run what is left to do at the script's end; the exception that comes of it, or nothing."""
        failed: list[str] = []
        sys.unraisablehook = lambda found: failed.append(f"{found.exc_type.__name__}: {found.exc_value}")
        leaving = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
        leaving.start()
        leaving.join(LEAVING)  # some wait for processes of the script's, which are ended with it
        return failed[0] if failed else ""

    def _watch(self, seconds: float) -> None:
        """End the run after that time."""
        watch = threading.Timer(seconds, self._late)
        watch.daemon = True
        watch.start()

    def _late(self) -> None:
        self.finish(CUT_SHORT)
        end_here(0)


def main() -> None:
    """Run the script; the record is written in any case."""
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    run = TextRun(plan)  # which reads its texts
    run.guard = guard.begin([os.path.dirname(plan["result"])])
    chance = Chance(users, run.loaded.lines)
    chance.begin()
    chance.on_numpy(sys.modules["numpy"])
    substitute(run.loaded.texts)
    run.marking.install()
    run.marks.install()
    run.said.begin()
    hooks: Any = {"tensorflow": chance.on_tensorflow, "keras": run.fits.install, "tf_keras": run.fits.install}
    ImportHooks(hooks, lambda name, error: sys.exit(f"{name} could not be hooked: {error!r}")).install()
    run.run()
    end_here(0)  # threads of a pipeline that never ends would keep the interpreter


if __name__ == "__main__":
    main()
