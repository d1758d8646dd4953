# SPDX-License-Identifier: Apache-2.0
"""The process that one text of a script runs in: `python -m outpace.tune.same.child PLAN`; its
record is in the plan's `result` afterwards.
"""

from __future__ import annotations

import atexit
import contextlib
import linecache
import os
import resource
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from outpace.capture.frames import is_user_file
from outpace.capture.imports import ImportHooks
from outpace.capture.process_exit import end_process, flush_files
from outpace.capture.script import run_as_main
from outpace.tune import guard
from outpace.tune.guard.kernel import adopt_orphans
from outpace.tune.same.chance import Chance
from outpace.tune.same.clock import Clock
from outpace.tune.same.files import held_in, lines_of
from outpace.tune.same.fits import Fits
from outpace.tune.same.frozen import Frozen
from outpace.tune.same.lasting import Sending, find_lasting, find_processes, lasting_threads
from outpace.tune.same.nudge import Nudge
from outpace.tune.same.passes import END, Passes
from outpace.tune.same.plan import Plan
from outpace.tune.same.record import CUT_SHORT, Record
from outpace.tune.same.rest import Rest
from outpace.tune.same.said import Said
from outpace.tune.same.shown import numbers_of
from outpace.tune.same.state import Reader, State, frames_of, modules_of
from outpace.tune.starts.imports import script_begins
from outpace.tune.texts.edition import Edition
from outpace.tune.texts.load import Marking, substitute
from outpace.tune.texts.parsed import parsed

AGAIN = 1.0  # seconds between looks how far it has come
LEAVING = 10.0  # seconds for what a script does at its exit
TRIES = 20  # to write what a training that goes on adds to: Python refuses to read a dictionary that grows meanwhile


class TextRun:
    """One run, as a plan says."""

    _processes: frozenset[int] = frozenset()  # that were there before the script

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.loaded = loaded = Edition.read(plan.edition)
        self.marking = Marking(loaded.place, loaded.header, lines=loaded.lines)
        innermost = ".".join(map(str, loaded.place.path))
        self.frozen = Frozen(is_user_file)
        self.marks = Passes(plan.shown, loaded.grouped, self._began, self._passed, innermost, plan.surveyed)
        self.fits = Fits(loaded.fit, plan.shown, plan.surveyed, self._began, self._passed)
        self.marks.over = self.fits.over = self._is_over
        self.numbers: tuple[int, ...] = ()
        self.before: dict[str, frozenset[int]] = {}
        self._start = self._last = 0.0
        self._fastest = 0.0  # seconds of a pass
        self._over, self._enough = False, False  # whether its training is, and whether that had its time
        self._end = self._told = 0.0  # when its training was over, and when it said something last
        self._said = 0
        self._behind = threading.Timer(0.0, self._late)  # not begun
        self.read: dict[tuple[str, int, int], State] = {}
        self.begin: State | None = None
        self._reader, self._rest = Reader(is_user_file), Rest()
        self._writing, self._written = threading.RLock(), False
        self.guard: guard.Guard | None = None
        self._lasting: list[str] = []  # what goes on behind the script's end
        self.said, self.sending = Said(is_user_file), Sending(is_user_file)
        self.chance = Chance(is_user_file, loaded.lines, plan.surroundings.draw)
        self.clock = Clock(is_user_file, plan.surroundings.clock, self.frozen.is_tracing)

    def _began(self, frame: FrameType, model: Any = None) -> None:
        """The loop begins for the first time, or the `fit` of a model."""
        self.numbers = tuple(_named(frame)) if self.plan.surveyed else ()
        self.before = {file: frozenset(lines) for file, lines in list(self.marks.ran.items())}  # threads add to it
        self._start = self._last = time.monotonic()
        self.marks.ran.clear()  # what ran before is no part of training
        if self.plan.training is not None:
            self._watch(self.plan.training, self._trained)
        if self.plan.surveyed:
            self.marks.between = self.fits.between = self._timed
        if self.plan.nudge is not None:
            nudge = Nudge(is_user_file, self.plan.nudge)
            nudge.frame(frame, (model,))
            self.marks.between = self.fits.between = nudge.again
        self.begin = self._reader.read(frame, {"model": model} if model is not None else None)

    def _is_over(self, over: bool) -> None:
        """The training is over, for what is seen of it, or goes on."""
        self._over = over
        self._behind.cancel()
        if over:
            first, self._end = not self._end, time.monotonic()
            self._told = self._end
            self._behind = self._watch(self.plan.behind, self._late)
            if first:  # a script may count its threads before
                self._listen()
        elif self._enough:
            self._late()

    def _listen(self) -> None:
        """Note when it says something behind its training, now and each second."""
        said = os.fstat(1).st_size + len(self.said.lines)
        if said != self._said:
            self._said, self._told = said, time.monotonic()
        self._watch(AGAIN, self._listen)

    def _trained(self) -> None:
        """It had its time."""
        self._enough = True
        if not self._over:
            self._late()

    @property
    def made(self) -> int:
        """Passes, of the innermost loop or the `fit`."""
        return self.marks.made + self.fits.made

    def _timed(self, *_: Any) -> None:
        """Told of each pass."""
        now = time.monotonic()
        self._fastest, self._last = min(self._fastest or now, now - self._last), now

    def _passed(self, key: str, entry: int, passes: int, frame: FrameType | None, held: dict[str, Any] | None = None) -> None:
        """The state is to be read; `held`: by name, what a frame does not lead to."""
        self._rest.wait()
        self.read[key, entry, passes] = self._reader.read(frame, held)

    def finish(self, ended: str) -> None:
        """Write the record, once; whoever comes later waits until it is there."""
        with self._writing:
            if not self._written:
                self._written = True
                self._write_within(TRIES, ended)

    def _write_within(self, tries: int, ended: str) -> None:
        try:
            self._write(ended)
        except RuntimeError:
            if tries == 1:
                raise
            self._write_within(tries - 1, ended)

    def _write(self, ended: str) -> None:
        passes = dict(self.marks.passes)  # of a fit the last call may be told with more steps than it made
        for code in self.frozen.rewritten:
            self.marks.ran.setdefault(os.path.realpath(code.co_filename), set()).update(_lines(code))
        ran = {file: frozenset(lines) for file, lines in list(self.marks.ran.items())}  # threads add to it
        flush_files()
        written = self.guard.all_changed() if self.guard is not None else []
        if (self.read or ended) and ended != CUT_SHORT:
            final = self._reader.read(None)
            self.read["files", 1, END] = self._reader.of(held_in(written))
            self.read["script", 1, END] = final
        memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        threads = len(lasting_threads())
        made = self.made
        found = Record(
            self.read, passes, (), ended, ran, self.marking.branches, lines_of(written), memory, threads, self.said.lines,
            self.before, dict(self.frozen.traces), self.numbers, self.marks.items | self.fits.items, made,
            ((self._end if self._over else time.monotonic()) - self._start) / max(made, 1), self._fastest, self._over,
            self.chance.coupled, self._told - self._end, self.begin,
            (*self._lasting, *sorted(self.sending.places)), self.said.printed,
            readings=self.clock.readings, hidden=self._hidden(), started=tuple(self.sending.started), drawn=self.said.drawn,
            skipped=self.marks.skipped or self.fits.skipped, drew=self.chance.drew,
        )  # fmt: skip
        found.write(self.plan.result)

    def _hidden(self) -> frozenset[str]:
        """What stands in for real numbers, times and steps does not show, in words."""
        times = ["the time that a compiled function reads"] if self.clock.traced else []
        return frozenset([*self.chance.hidden, *self.fits.hidden, *self._unchecked(), *times])

    def _unchecked(self) -> Iterator[str]:
        """Yield assertions that XLA leaves out, by their lines in the original."""
        for file, line in self.frozen.unchecked:
            at = self.loaded.lines.get(os.path.realpath(file), {}).get(line, line)
            yield f"the assertion of {os.path.basename(file)}:{at} where XLA compiles it, which leaves it out"

    def run(self) -> int:
        """The whole script, or as much as there is time for."""
        self._watch(self.plan.limit, self._late)
        if sys.platform == "linux":
            adopt_orphans()
        self._processes = find_processes()
        ended = ""
        try:
            run_as_main(self.plan.script, self.plan.argv, self.plan.module, self.marking.compiled)
        except SystemExit as error:
            ended = "" if error.code in (None, 0) else f"SystemExit: {error.code}"
        except BaseException as error:
            sys.stderr.write(f"\n{type(error).__name__}: {error}\n")
            self.finish(f"{type(error).__name__}: {error}")
        failed = self._exit()
        self.finish(ended or failed)
        return 0

    def _exit(self) -> str:
        """Wait for the script's threads, and run what is left to do at its end; the exception that
        comes of it, or nothing.
        """
        failed: list[str] = []
        sys.unraisablehook = lambda found: failed.append(f"{found.exc_type.__name__}: {found.exc_value}")
        late = time.monotonic() + LEAVING
        for each in lasting_threads():
            each.join(max(late - time.monotonic(), 0.0))
        leaving = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
        leaving.start()
        leaving.join(LEAVING)  # some wait for processes of the script's, which are ended with it
        self._lasting = [
            *find_lasting(is_user_file, self._processes),
            *(["what it does at its exit"] if leaving.is_alive() else []),
        ]
        return failed[0] if failed else ""

    def _watch(self, seconds: float, then: Callable[[], None]) -> threading.Timer:
        """Do something after that time."""
        watch = threading.Timer(seconds, then)
        watch.daemon = True
        watch.start()
        return watch

    def _late(self) -> None:
        try:
            self.finish(CUT_SHORT)
        except Exception:
            traceback.print_exc()
        end_process(0)


def _named(frame: FrameType) -> list[int]:
    """Numbers that the user's modules name, by what they and the user's functions on the stack
    hold.
    """
    found: set[int] = set()
    for module in modules_of(is_user_file):
        names: dict[str, Any] = dict(vars(module))
        for each in reversed(list(frames_of(frame, is_user_file))):
            names |= each.f_locals if each.f_globals is vars(module) else {}
        with contextlib.suppress(SyntaxError):
            found |= set(numbers_of(parsed("".join(linecache.getlines(str(module.__file__)))), names))
    return sorted(found)


def _lines(code: CodeType) -> set[int]:
    """All lines of a function, and of those inside of it."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return {line for *_, line in code.co_lines() if line}.union(*map(_lines, inner))


def main(arguments: Sequence[str]) -> None:
    """Run the script; the record is written in any case."""
    plan = Plan.from_json(Path(arguments[0]).read_text(encoding="utf-8"))
    run = TextRun(plan)  # which reads its texts
    run.guard = guard.begin([os.path.dirname(plan.result)])
    chance = run.chance
    chance.begin()
    chance.on_numpy(sys.modules["numpy"])
    substitute(run.loaded.texts, run.guard.place)
    run.marking.install()
    run.marks.install()
    run.said.begin()
    run.sending.begin()
    run.clock.install()

    def on_tensorflow(tf: Any) -> None:
        chance.on_tensorflow(tf)
        run.frozen.on_tensorflow(tf)

    hooks: Any = {
        "tensorflow": on_tensorflow,
        "jax": run.frozen.on_jax,
        "keras": run.fits.install,
        "tf_keras": run.fits.install,
    }
    ImportHooks(hooks, lambda name, error: sys.exit(f"{name} could not be hooked: {error!r}")).install()
    script_begins()
    run.run()
    end_process(0)  # threads of a pipeline that never ends would keep the interpreter


if __name__ == "__main__":
    main(sys.argv[1:])
