# SPDX-License-Identifier: Apache-2.0
"""Runs texts of a script in processes of their own, and judges the edited ones by the original."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np

from outpace._dataclass import dataclass
from outpace.capture.process_tree import register_folder
from outpace.model.errors import TuneError
from outpace.model.text import join_names
from outpace.model.units import format_count
from outpace.tune.deadline import Deadline
from outpace.tune.same.changes import Ran, TraceRead, iter_changes
from outpace.tune.same.clock import ClockSetting
from outpace.tune.same.fits import BATCH, EPOCH, cut_of
from outpace.tune.same.judge import judge, judge_equal
from outpace.tune.same.judgement import Judgement, Standing
from outpace.tune.same.lines import error_lines, lines_drawn
from outpace.tune.same.names import dead_names
from outpace.tune.same.passes import END
from outpace.tune.same.plan import Plan, Surroundings, any_order
from outpace.tune.same.record import CUT_SHORT, Record
from outpace.tune.same.shown import FULL, Shown, Span, said
from outpace.tune.same.unrun import unrun
from outpace.tune.starts import Forks
from outpace.tune.texts.edition import Edition
from outpace.tune.texts.load import lines_between, source_of
from outpace.tune.texts.parsed import parsed
from outpace.tune.texts.place import FIT, MODULE, Place, loops_of, may_be_left

CUT = 64  # passes
LIMIT = 300.0  # seconds of a run
WHOLE = 15.0  # seconds of training: a script that ends within them is compared as a whole,
MORE = 6.0  # and so is one that takes up to so many times as long, another process beside it
UNKNOWN = 2.0  # or so many, where nobody knows how long it is
BEHIND = 30.0  # seconds that a run gets behind its training; of what takes longer there nothing is compared
QUIET = 5.0  # seconds that one gets behind the last thing that is compared there
SLOWER, START = 3.0, 60.0  # times, and seconds, that an edited text may take longer than the original: it is compiled first
NUDGE = 7
LOOKING = 0.05  # seconds between looks whether a run is over
TOGETHER = 2  # processes
_ROUNDS = 2.5  # times the longest run so far: two side by side, and a nudged one
_SURVEYED = 8  # passes of a loop of which one only wants to know how many there are
_LOOK = 3.0  # times a run, that have to be left for one that only counts passes
_ELSEWHERE = "other random numbers and another clock"
_DRAWS = "with two draws of the random numbers that it does not seed"
_TIMES = "but for the times that it reads"
_CLOCK_SHARE = 2.0  # seconds of the other clock for each second of a run, at least
_MOST_READS = 3  # names of what a function keeps
Texts = Mapping[str, str]  # by absolute path


@dataclass(eq=False)
class Original:
    """A script as it is, and the loop or the `fit` that trains; it runs when it is first asked for.
    folder: where it runs. cut: passes of the loop that are compared, where it would not come to its
    own end within MORE times `whole` seconds. behind: seconds that it gets when that is over.
    forks: what starts its processes. every: passes of a group, where the edited text makes several
    at once. Ends with the context.
    """

    script: str
    argv: Sequence[str] = ()
    module: bool = False
    place: Place = Place()
    fit: int = 1
    folder: str | None = None
    cut: int = CUT
    every: int = 1
    limit: float = LIMIT
    deadline: Deadline = Deadline(math.inf)
    whole: float = WHOLE
    behind: float = BEHIND
    forks: Forks = field(default_factory=Forks)
    _surroundings: Surroundings = field(default_factory=lambda: Surroundings(ClockSetting(time.time()), order=any_order()))
    _others: Surroundings | None = None
    _took: float = 0.0
    _was_equal: bool = False  # whether what was compared last is equal to the bit
    _seen: Record | None = None  # items and numbers
    _last: tuple[Any, Judgement] | None = None  # what was compared, with what came of it
    _private: tempfile.TemporaryDirectory[str] | None = None
    _left: threading.Event = field(default_factory=threading.Event)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(TOGETHER))
    _runs: dict[tuple[Surroundings, bool], Future[Record]] = field(default_factory=dict)  # of the original; whether nudged

    def __enter__(self) -> Original:
        self._private = tempfile.TemporaryDirectory(prefix="outpace-same-")
        register_folder(self._private.name)
        return self

    def __exit__(self, *details: object) -> None:
        assert self._private is not None
        self._left.set()
        self._pool.shutdown(cancel_futures=True)
        self._private.cleanup()

    def _original(self, around: Surroundings, longest: float, nudged: bool = False) -> Future[Record]:
        """A run of the script as it is, which is begun once; its result raises TuneError where it
        does not come to its training.
        """
        self._begin()
        if (around, nudged) not in self._runs:
            nudge = NUDGE if nudged else None
            self._runs[around, nudged] = self._pool.submit(self._run, {}, nudge=nudge, longest=longest, around=around)
        return self._runs[around, nudged]

    def _begin(self) -> None:
        """Let an original run, and know whether the training has to be cut."""
        if self._runs:
            return
        known = threading.Event()
        first = self._pool.submit(self._run, {}, cut=0, training=self.whole, over=known)
        few = max(self.every, min(self.cut, _SURVEYED))
        survey = self._pool.submit(self._run, {}, cut=few, surveyed=True)  # beside it, as if it had to be cut
        wait((first, survey), return_when=FIRST_COMPLETED)
        long = not first.done() and survey.exception() is None and self._surely_long(survey.result())
        known.set() if long else wait((first,))
        if ended := not long and _trained(first.result()):
            self.cut = 0
        else:
            self._seen = survey.result()
            passes, most = self._passes(), MORE * self.whole
            if math.isinf(passes) and self.deadline.left > _LOOK * self._took:  # they have to be made to be counted
                first = self._pool.submit(self._run, {}, cut=0, training=UNKNOWN * self.whole)
                ended = _trained(first.result())
            if ended or (not long and passes * first.result().pace <= most):
                self.cut, self._seen = 0, None
                self._took += most
        self._runs[self._surroundings, False] = first if ended else self._pool.submit(self._run, {})

    def _surely_long(self, survey: Record) -> bool:
        """Whether the training takes longer than one that is compared as a whole may, were each
        pass as the fastest that was seen.
        """
        self._seen = survey
        passes = self._passes()
        self._seen = None
        return not math.isinf(passes) and passes * survey.fastest > MORE * self.whole

    def _passes(self) -> float:
        """How many passes the training has in all; infinite where that is not known."""
        path = self.place.path
        fit = self.place.function == FIT
        keys = (EPOCH, BATCH) if fit else [".".join(map(str, path[:length])) for length in range(1, len(path) + 1)]
        return math.prod(math.inf if (end := self.shown.end(key, 1)) is None else end for key in keys)

    @property
    def _elsewhere(self) -> Surroundings:
        """Surroundings of which all is another, with times longer than the script's own ones."""
        self._others = self._others or self._surroundings.other(_CLOCK_SHARE * self._took)
        return self._others

    @property
    def _longest(self) -> float:
        """Seconds that a run gets which may take longer than the first: it is compiled first, or
        trains for longer by another clock.
        """
        return SLOWER * self._took + START

    @property
    def shown(self) -> Shown:
        """Which passes are made where the loop is cut, as far as that is known."""
        seen = self._seen
        return Shown(self.cut, self.every, seen.numbers if seen is not None else (), seen.items if seen is not None else {})

    @property
    def memory(self) -> int:
        """Bytes that a process of the script takes at most."""
        self._begin()
        return max(each.result().memory for each in self._runs.values() if each.done() and each.exception() is None)

    def against(self, texts: Texts, grouped: bool = False, is_exact: bool = False) -> Judgement:
        """Whether the script with edited texts is the same program, as far as one draw and one
        clock show, which is looked up once for the same texts. grouped: see `Edition`. is_exact:
        whether it should be equal to the bit, so that no nudged run is begun beside it.
        """
        asked = sorted(texts.items()), grouped
        if self._last is None or self._last[0] != asked:
            try:
                self._begin()
                found = self._comparison(texts, grouped, self._surroundings, is_exact)
            except TuneError as error:
                return Judgement(None, str(error), runs=False)
            self._last = asked, found
        return self._last[1]

    def confirmed(self, texts: Texts, grouped: bool = False, is_exact: bool = False, seconds: float = math.inf) -> Judgement:
        """Like `against`, and what is proven there is looked at in other surroundings. seconds:
        from now until something else has to begin.
        """
        until = time.monotonic() + seconds
        found = self.against(texts, grouped, is_exact)
        if found.standing is not Standing.PROVEN:
            return found
        seconds = until - time.monotonic()
        if _ROUNDS * self._took > seconds:
            return replace(found, omissions=(f"{_ELSEWHERE} (there was no time for it)",))
        try:
            again = self._comparison(texts, grouped, self._elsewhere, self._was_equal, seconds / 2)
            here, there = (self._original(around, self._longest).result() for around in (self._surroundings, self._elsewhere))
        except TuneError as error:
            return replace(found, omissions=(f"{_ELSEWHERE} ({error})",))
        if again.same is False:
            return replace(again, why=f"With {_ELSEWHERE}, {again.why[:1].lower()}{again.why[1:]}")
        omissions = again.omissions
        if again.same is None or not again.whole:
            omissions += (f"{_ELSEWHERE} ({again.why if again.same is None else 'not all of it could be compared'})",)
        if here.passes != there.passes or here.made != there.made:
            omissions += ("how many passes its loops make (chance or the clock decides)",)
        if _differ(here, there):
            omissions += found.changeable
            if missed := sorted({*found.missed} & {*again.missed}):
                omissions += (
                    f"line {', '.join(map(str, missed))} (it did not run, and chance or the clock may decide about it)",
                )
            if here.readings and self._hangs_on_clock(here, seconds / 2):
                omissions += ("what training makes of the time (an edited script is faster)",)
        provisos = (_DRAWS,) if here.drew or _differ(here, there) else ()
        return replace(found, omissions=omissions, provisos=(*provisos, *([_TIMES] if here.readings else [])))

    def _hangs_on_clock(self, here: Record, seconds: float) -> bool:
        """Whether training makes other numbers by another clock alone, or does not come to its end
        in its time.
        """
        around = replace(self._surroundings, clock=self._elsewhere.clock)
        try:
            other = self._original(around, min(self._longest, seconds)).result()
        except TuneError:
            return True
        return other.ended == CUT_SHORT or _differ(here, other)

    def _comparison(
        self, texts: Texts, grouped: bool, around: Surroundings, is_exact: bool, seconds: float = math.inf
    ) -> Judgement:
        """Compare one run of each, side by side; where numbers differ, with a nudged run of the
        original, which tells a rounding from another program. seconds: of a run in surroundings in
        which it has to come to its end.
        """
        longest = min(self._longest, seconds)
        run = self._pool.submit(self._run, texts, grouped, longest=longest, around=around)
        original = self._original(around, longest)
        if not is_exact:
            self._original(around, longest, nudged=True)
        one, edited = original.result(), run.result()
        if around != self._surroundings and one.ended == CUT_SHORT:
            raise TuneError("it is not over in its time")
        found, end, made = judge_equal(one, edited, self._dead(), self._missed(one)), "", one.made
        self._was_equal = found is not None
        if found is None:
            records = [one, self._original(around, longest, nudged=True).result(), edited]
            if fails := self._fails_where_cut(records):
                records, end = [replace(each, ended=CUT_SHORT) for each in records], f"; behind them it ends with {fails}"
            found, made = judge(records[:2], records[2], self._dead(), self._missed(one)), min(one.made, records[1].made)
        return self._describe(found, texts, one, edited, end, made)

    def _describe(self, found: Judgement, texts: Texts, original: Record, edited: Record, end: str, made: int) -> Judgement:
        """A judgement with what was compared of the training, and what should be read of the rest.
        end: what is said of its end. made: passes that all runs of the original made.
        """
        if original.skipped:
            found = replace(found, whole=False, shown=self._shown() + end)
        elif original.ended == CUT_SHORT or made < original.made:
            found = replace(found, whole=False)
        found = self._measured(found, original, made)
        if not found.same:
            return found
        kept = self._lines_by_read(original, edited, texts)
        if not found.whole:
            return replace(found, remarks=(*_iter_remarks(kept), *_unrun(texts, edited)))
        changeable = [
            f"{each.read}, which {each.function} keeps and {join_names(sorted(set(lines)))} may change"
            for each, lines in kept.items()
            if lines
        ]
        return replace(found, changeable=tuple(sorted(changeable)))

    def _measured(self, found: Judgement, original: Record, made: int) -> Judgement:
        """With how many passes were compared, of how many: of a training that is not over in its
        time nobody knows, nor of one that is cut each time that its loop is entered, nor of one
        that grows while it runs.
        """
        passes = math.inf
        if not original.skipped:
            passes = float(original.made) if original.over else math.inf
        elif not any(key == str(self.place.path[0]) and entry > 1 for key, entry, _ in original.marks if self.place.path):
            passes = seen if (seen := self._passes()) > original.made else math.inf
        length = 0 if math.isinf(passes) else max(original.made, int(passes))
        made = min(found.parts or made, made)
        at_most = original.skipped and self._may_be_left()
        return replace(found, made=made, length=length, at_most=at_most, whole=found.whole and length > 0)

    def _may_be_left(self) -> bool:
        """Whether a loop of the training may end before its last pass."""
        if self.place.function == FIT:
            return False
        around = {self.place.path[:depth] for depth in range(1, len(self.place.path) + 1)}
        loops = loops_of(parsed(source_of(self.place.file)))
        return any(may_be_left(node) for name, path, node in loops if name == self.place.function and path in around)

    def _lines_by_read(self, original: Record, edited: Record, texts: Texts) -> dict[TraceRead, list[str]]:
        """Return what the functions that an edited script compiles keep, each with the lines that
        may change it; without what the original keeps likewise.
        """
        kept: dict[TraceRead, list[str]] = {
            each: [] for each, count in edited.traces.items() if not 0 < original.traces.get(each, 0) <= count
        }
        real = {os.path.realpath(path): text for path, text in texts.items()}
        for file in edited.branches if kept else ():
            with contextlib.suppress(FileNotFoundError):  # which the script took away
                tree = parsed(real.get(file) or source_of(file))
                place = (self.place.function, self.place.path[:1]) if file == self.place.file else None
                loop = next((node for name, path, node in loops_of(tree) if (name, path) == place), None)
                ran = Ran(edited.before.get(file, frozenset()), edited.ran.get(file, frozenset()))
                for each, line in iter_changes(tree, loop, ran, kept):
                    kept[each].append(f"{os.path.basename(file)}:{line}")
        return kept

    def _fails_where_cut(self, records: Sequence[Record]) -> str:
        """The exception that all runs of a training that is cut end with behind it, as what counts
        on its length does; else nothing.
        """
        ended = {each.ended for each in records}
        key = "fit" if self.place.function == FIT else str(self.place.path[0])
        through = all(any((loop, at) == (key, END) for loop, _, at in each.marks) for each in records)
        return ended.pop() if self.cut and through and len(ended) == 1 and not ended & {"", CUT_SHORT} else ""

    def _shown(self) -> str:
        """The passes that were compared, in words."""
        if self.place.function == FIT:
            made = cut_of(self.shown)
            batches = said(made.batches, self.shown.end(BATCH, 1))
            epochs = said(made.epochs, self.shown.end(EPOCH, 1))
            return f"epochs {epochs}, of each the batches {batches}{self._beyond([made.epochs, made.batches])}"
        path = self.place.path
        keys = [".".join(map(str, path[:length])) for length in range(1, len(path) + 1)]
        spans = {key: self.shown.run(key, 1, key == keys[-1]) for key in reversed(keys)}
        parts = [said(those, self.shown.end(key, 1)) for key, those in spans.items()]
        if len(keys) > 1:
            entries = {"the second time": FULL, "from the third time on": FULL + 1}
            others = [(when, self.shown.run(keys[-1], entry, True)) for when, entry in entries.items()]
            told = [f"{said(each, None)} {when}" for when, each in others if each != spans[keys[-1]]]
            parts[0] += f" ({', '.join(told)})" if told else ""
        return f"steps {', of passes '.join(parts)}{self._beyond(spans.values())}"

    def _beyond(self, spans: Iterable[Sequence[Span]]) -> str:
        """Numbers that the texts name and no pass that was made has."""
        made = [span for those in spans for span in those]
        beyond = [each for each in self.shown.numbers if not any(start <= each <= end for start, end in made)]
        return f" (none at {', '.join(map(str, beyond))}, which its text names)" if beyond else ""

    def _behind(self, surveyed: bool) -> float:
        """Seconds that a run gets behind its training: no more than until the first one said
        something last, if that did not come to its end; of one that only shows how many passes
        there are, none is compared.
        """
        first = self._runs.get((self._surroundings, False))
        told = 0.0 if surveyed else self.behind
        if first is not None and first.done() and first.exception() is None:
            one = first.result()
            told = one.told if one.over and one.ended == CUT_SHORT else told
        return min(self.behind, told + QUIET)

    def _dead(self) -> frozenset[str]:
        if self.place.function == FIT:
            return frozenset()
        found = dead_names(source_of(self.place.file), self.place)
        return frozenset(f"__main__.{name}" for name in found) if self.place.function == MODULE else found

    def _missed(self, one: Record) -> list[int]:
        """Lines of branches of the loop that did not run."""
        if self.place.function == FIT:
            return []
        tree = parsed(source_of(self.place.file))
        loop = next(node for name, path, node in loops_of(tree) if (name, path) == (self.place.function, self.place.path))
        ran = one.ran.get(self.place.file, frozenset())
        return sorted(
            line
            for line in one.branches.get(self.place.file, ())
            if loop.lineno <= line <= (loop.end_lineno or 0) and line not in ran
        )

    def _run(
        self,
        texts: Texts,
        grouped: bool = False,
        nudge: int | None = None,
        cut: int | None = None,
        training: float | None = None,
        surveyed: bool = False,
        longest: float = LIMIT,
        over: threading.Event | None = None,
        around: Surroundings | None = None,
    ) -> Record:
        assert self._private is not None, "it runs inside of its context"
        folder = Path(tempfile.mkdtemp(dir=self._private.name))
        edition = Edition(texts, self.place, self.fit, grouped).write(folder)
        plan = Plan(
            self.script, self.argv, self.module, str(edition), str(folder / "record"), self.shown,
            min(longest, self.limit, max(self.deadline.left, 1.0)),
            self._behind(surveyed) * (SLOWER if texts else 1.0), training, surveyed, nudge,
            around or self._surroundings,
        )  # fmt: skip
        if cut is not None:
            plan = replace(plan, shown=replace(plan.shown, first=cut))
        (folder / "plan").write_text(plan.to_json(), encoding="utf-8")
        began = time.monotonic()
        found = self._finished(folder, over or self._left, plan.surroundings.order)
        self._took = max(self._took, time.monotonic() - began)
        return found

    def _finished(self, folder: Path, over: threading.Event, order: int) -> Record:
        """over: set when nobody waits for it any more. order: seed of Python's hashes of texts."""
        environment = {
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            **os.environ,
            "PYTHONHASHSEED": str(order),
        }
        with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
            process = self.forks.start("outpace.tune.same.child", [str(folder / "plan")], out, err, environment, self.folder)
            late = time.monotonic() + self.limit + 60
            try:
                while process.poll() is None and not over.wait(LOOKING):
                    if time.monotonic() > late:
                        raise TuneError(f"A run to compare with was not over after {self.limit + 60:.0f} s.")
            finally:
                process.kill()
                process.wait()
        if not (folder / "record").exists():
            said = (folder / "err").read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise TuneError(f"A run to compare with ended without a result: {said[-1] if said else 'it said nothing'}")
        with open(folder / "out", encoding="utf-8", errors="replace", newline="") as file:
            printed = lines_drawn(file.read())
        with open(folder / "err", encoding="utf-8", errors="replace", newline="") as file:
            errors = error_lines(file.read())
        return replace(Record.read(folder / "record"), printed=tuple(printed), errors=errors)


def _trained(found: Record) -> bool:
    """Whether a run came through its training."""
    return found.over or found.ended != CUT_SHORT


def _differ(here: Record, there: Record) -> bool:
    """Whether arrays of two runs hold other bits."""
    pairs = (
        (value, there.marks[key].values.get(path))
        for key in here.marks.keys() & there.marks.keys()
        for path, value in here.marks[key].values.items()
        if isinstance(value, np.ndarray) and value.size > 1
    )
    return any(not isinstance(other, np.ndarray) or other.tobytes() != value.tobytes() for value, other in pairs)


def _unrun(texts: Texts, edited: Record) -> Iterator[str]:
    """Yield which edited lines did not run, as a sentence."""
    for path, text in texts.items():
        file, old = os.path.realpath(path), lines_between(text, source_of(path))
        changed = {line for line in range(1, text.count("\n") + 2) if line not in old}
        ran = edited.ran.get(file, frozenset()) | edited.before.get(file, frozenset())
        if lines := unrun(parsed(text), changed, ran):
            yield f"What it changes in line {', '.join(map(str, lines))} of {os.path.basename(path)} did not run where it was compared."


def _iter_remarks(kept: Mapping[TraceRead, Sequence[str]]) -> Iterator[str]:
    """Yield what compiled functions keep, and the lines that may change it, a sentence for each."""
    for function in sorted({each.function for each in kept}):
        yield _format_kept(function, {each.read: lines for each, lines in kept.items() if each.function == function})


def _format_kept(function: str, reads: Mapping[str, Sequence[str]]) -> str:
    """Return what a compiled function keeps as a sentence. reads: its texts, each with the lines
    that may change it.
    """
    names = sorted(reads, key=lambda name: (not reads[name], name))
    more = [format_count(len(names) - _MOST_READS, "other")] if len(names) > _MOST_READS else []
    lines = sorted({line for each in reads.values() for line in each})
    changed = f", and {join_names(lines)} may change that" if lines else ""
    return f"It compiles {function}, which keeps {join_names([*names[:_MOST_READS], *more])} as it was then{changed}."
