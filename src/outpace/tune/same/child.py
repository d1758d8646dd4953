"""The process that one text of a script runs in: `python -m outpace.tune.same.child PLAN`; its record is in the plan's `result` afterwards."""

from __future__ import annotations

import ast
import json
import os
import sys
import threading
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from outpace.capture.ending import end_here
from outpace.capture.frames import users
from outpace.capture.imports import ImportHooks
from outpace.capture.script import run_as_main
from outpace.tune.same.chance import Chance
from outpace.tune.same.fits import Fits
from outpace.tune.same.marks import Marks, branches_of, instrumented
from outpace.tune.same.nudge import Nudge
from outpace.tune.same.record import FIT, Place, Record
from outpace.tune.same.state import Reader, State
from outpace.tune.same.texts import substitute


class Run:
    """One run, as a plan says: `texts` (paths of what stands in for files), `script`, `argv`, `module`, `place` (file, function, path; of a fit
    its number), `header`, `grouped`, `cut`, `nudge` (a seed, or null), `limit` (seconds), `lines` (of edited texts, by file), `result`."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        place = plan["place"]
        self.place = Place(place["file"], place["function"], tuple(place["path"]))
        self.marks = Marks(plan["cut"], plan["grouped"], self._began, self._passed, ".".join(map(str, self.place.path)))
        self.fits = Fits(plan["fit"], plan["cut"], self._fit_began, self._fit_passed)
        self.read: dict[tuple[str, int, int], State] = {}
        self.branches: dict[str, frozenset[int]] = {}
        self._reader = Reader(users)
        self._start = self._last = time.monotonic()
        self._written = threading.Lock()

    def _began(self, frame: FrameType) -> None:
        self._start = time.monotonic()
        self.marks.ran.clear()  # what ran before is no part of training
        if self.plan["nudge"] is not None:
            Nudge(users, self.plan["nudge"]).frame(frame)

    def _passed(self, key: str, entry: int, passes: int, frame: FrameType) -> None:
        self.read[key, entry, passes] = self._reader.read(frame)
        self._last = time.monotonic()

    def _fit_began(self, frame: FrameType, model: Any) -> None:
        self._start = time.monotonic()
        self.marks.ran.clear()  # what ran before is no part of training
        if self.plan["nudge"] is not None:
            Nudge(users, self.plan["nudge"]).frame(frame, (model,))

    def _fit_passed(self, key: str, entry: int, passes: int, frame: FrameType | None, held: dict[str, Any]) -> None:
        self.read[key, entry, passes] = self._reader.read(frame, held)
        self._last = time.monotonic()

    def instrument(self) -> None:
        """Let the user's files be compiled with marks."""
        plain_compile, plain_stats, run = SourceFileLoader.source_to_code, SourceFileLoader.path_stats, self

        def source_to_code(self: Any, data: Any, path: Any, **options: Any) -> CodeType:
            file = os.fsdecode(path)
            return run.compiled(data, file) if users(os.path.realpath(file)) else plain_compile(self, data, path, **options)

        def path_stats(self: Any, path: Any) -> Any:
            if users(os.path.realpath(path)):
                raise OSError  # no times: the loader then neither reads nor writes a compiled copy
            return plain_stats(self, path)

        SourceFileLoader.source_to_code = source_to_code  # type: ignore[method-assign]  # this process does nothing else
        SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign]  # likewise

    def compiled(self, data: Any, path: str) -> CodeType:
        """The code of a user's file."""
        tree, file = compile(data, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True), os.path.realpath(path)
        self.branches[file] = branches_of(tree)
        place = self.place if self.place.function != FIT else None
        made: CodeType = compile(instrumented(tree, file, place, self.plan["header"]), path, "exec", dont_inherit=True)
        return made

    def finish(self, ended: str) -> None:
        """Write the record; once."""
        if not self._written.acquire(blocking=False):
            return
        passes = dict(self.marks.passes)  # of a fit the last call may be told with more steps than it made
        ran = {file: frozenset(lines) for file, lines in self.marks.ran.items()}
        if self.read or ended:
            final = self._reader.read(None)
            self.read["script", 1, -1] = final
        Record(self.read, passes, (), ended, ran, self.branches, self._last - self._start).write(self.plan["result"])

    def run(self) -> int:
        """The whole script, or as much as there is time for."""
        watch = threading.Timer(self.plan["limit"], self._late)
        watch.daemon = True
        watch.start()
        try:
            run_as_main(self.plan["script"], self.plan["argv"], self.plan["module"], self.compiled)
        except SystemExit as error:
            self.finish("" if error.code in (None, 0) else f"SystemExit: {error.code}")
        except BaseException as error:
            sys.stderr.write(f"\n{type(error).__name__}: {error}\n")
            self.finish(f"{type(error).__name__}: {error}")
        self.finish("")
        return 0

    def _late(self) -> None:
        self.finish("cut")
        end_here(0)


def main() -> None:
    """Run the script; the record is written in any case."""
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    run = Run(plan)
    chance = Chance(users, {file: {int(at): line for at, line in lines.items()} for file, lines in plan["lines"].items()})
    chance.begin()
    chance.on_numpy(sys.modules["numpy"])
    substitute({os.path.realpath(path): Path(text).read_bytes() for path, text in plan["texts"].items()})
    run.instrument()
    run.marks.install()
    hooks: Any = {"tensorflow": chance.on_tensorflow, "keras": run.fits.install, "tf_keras": run.fits.install}
    ImportHooks(hooks, lambda name, error: sys.exit(f"{name} could not be hooked: {error!r}")).install()
    run.run()
    end_here(0)  # threads of a pipeline that never ends would keep the interpreter


if __name__ == "__main__":
    main()
