# SPDX-License-Identifier: Apache-2.0
"""Compares what runs of two texts left behind."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from outpace._dataclass import dataclass
from outpace.model.units import format_count
from outpace.tune.same.passes import END
from outpace.tune.same.record import CUT_SHORT, Record
from outpace.tune.same.state import BEYOND, State

ONE_STEP = 1e-5  # of the largest number of an array: what another order of additions makes of a step in float32
LATER = 5e-6  # likewise after several, beside what roundings of each pass have grown to
SPREADS = 16.0  # times that: the sample is one
COMPUTED = (
    1e-4  # of what training has changed at most so far: a number of Python's (0.9 ** step) is narrower in a compiled step
)
OF_CHANGE = 1e-3  # of what training has changed: more is not what rounding makes of it
AGREED = 1e-3  # of what training has changed: two runs of one text that differ by more tell nothing
TELLS = 0.1  # of what training has changed: a tolerance above it hides what it should find
TURNED = (
    1e-3  # of the whole numbers of an array: what is made whole of numbers that are off by a rounding turns over now and then
)
STEPPED = 0.02  # of them, by one: a picture of 8 bits, made of numbers between 0 and 1
NOISE = 0.4  # of the arrays that training changes: what one rounding moves as far as training does is of no consequence if all else agrees
PRINTED = 2e-3  # of a number that is printed: by as much two runs of one text may differ for it to be compared
DIGITS = 2e-5  # of it, likewise of the edited text, beside what the two differ by
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_PROGRESS = re.compile(r"\x08|━|[mµn]?s/(?:step|epoch|it)\b|\bit/s\b|\d+%\|")
_PACE = re.compile(r"\x08+|(?:\d+:)?\d+:\d+|[\d.?]+\s*(?:[mµun]?s|min|h)\b(?:/\w+)?|[\d.?]+\s*\w+/s\b|[━=>.╺╸ ]{2,}")
_WHEN = re.compile(r"(\d{4}-\d\d-\d\d)[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?|([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d) \d\d:\d\d:\d\d")
_DAY = 86_400.0  # seconds
_SHOWN = 3


class Standing(str, Enum):
    """What is known of an edited text that may be kept. Proven: its training was compared as a
    whole. Compared: some passes were, of a training that was cut. Allowed: it is another program,
    and the user allows that.
    """

    PROVEN = "proven"
    COMPARED = "compared"
    ALLOWED = "allowed"


@dataclass(frozen=True)
class Judgement:
    """same: whether the edited text is the same program; None where that is not proven. why: in a
    sentence without its subject's name. compared: values. missed: lines of branches that did not
    run. faults: places that differ, or that could not be compared. runs: whether the edited text
    came through its passes at all. whole: whether the scripts were compared to their own end; else
    only the first passes were. sampled: arrays of which a sample and sums stand for the rest.
    allowed: it is not the same, and the user allows that. shown: the passes that were compared of a
    training that was cut, in words. noise: arrays that training changes and that runs of the
    original do not agree on. remarks: of a training that was cut, what to read of the passes that
    were not compared, in sentences. parts: the pass behind which one rounding
    moves most of what training changes as far as training does, so that nothing is known; 0 for
    none. made: passes that were compared, of a training of `length` passes; 0 where that is not
    known.
    """

    same: bool | None
    why: str
    compared: int = 0
    passes: int = 0
    missed: tuple[int, ...] = ()
    faults: tuple[str, ...] = ()
    runs: bool = True
    whole: bool = True
    sampled: int = 0
    allowed: bool = False
    shown: str = ""
    noise: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    parts: int = 0
    made: int = 0
    length: int = 0

    @property
    def standing(self) -> Standing | None:
        """What is known of it; None where it may not be kept."""
        if self.same is not True:
            return None
        if self.allowed:
            return Standing.ALLOWED
        return Standing.PROVEN if self.whole and not self.parts else Standing.COMPARED

    @property
    def share(self) -> float | None:
        """The share of the training's passes that were compared; None where nobody knows."""
        if self.standing is Standing.PROVEN:
            return 1.0
        return min(1.0, self.made / self.length) if self.made and self.length else None

    @property
    def extent(self) -> str:
        """How many passes were compared of how many, in words: "68 of 1,000,000 passes"."""
        if not self.made:
            return "passes"
        if self.length:
            return f"{self.made:,} of {self.length:,} passes"
        return f"{format_count(self.made, 'pass', 'passes')} of a training of unknown length"

    @property
    def scope(self) -> str:
        """What was compared, as the object of a sentence: "the 68 of 1,000,000 passes that were
        compared".
        """
        return f"the {self.extent} that {'was' if self.made == 1 and not self.length else 'were'} compared"

    @property
    def sentence(self) -> str:
        """What was compared, or why it is not kept."""
        if self.same:
            missed = f"; {format_count(len(self.missed), 'branch', 'branches')} did not run (line {', '.join(map(str, self.missed))})"
            later = f"; these were {self.shown}" if self.shown else "" if self.whole else "; the script goes on for longer"
            if not self.whole and not self.parts:
                later += ", and what only shows in others was not compared"
            if self.parts:
                later += f"; behind step {self.parts} one rounding changes as much as training does, and nothing could be compared there"
            part = f"; of {format_count(self.sampled, 'large array')} a sample and sums" if self.sampled else ""
            noise = f"; {', '.join(self.noise)} could not be compared, since chance or rounding makes it" if self.noise else ""
            compared = format_count(self.compared, "value")
            extent = f"compared to step {self.passes}" if self.whole or not self.made else f"compared in {self.extent}"
            return f"{extent}, {compared}{part}{noise}{missed if self.missed else ''}{later}"
        return self.why


def judge(
    originals: Sequence[Record], edited: Record, dead: frozenset[str] = frozenset(), missed: Sequence[int] = ()
) -> Judgement:
    """originals: two runs of the original, and one that was nudged. dead: names of the loop's
    function, or of the script (`__main__.name`), that the original sets anew before it reads them,
    so that an edit may leave them out.
    """
    one, two, nudged = originals
    if one.ended not in ("", CUT_SHORT):
        return Judgement(None, f"The script as it is ends with {one.ended}, so nothing can be compared.", runs=False)
    if nudged.ended not in ("", CUT_SHORT):
        why = f"One rounding at its start, and the script as it is ends with {nudged.ended}, so nothing can be compared."
        return Judgement(None, why, runs=False)
    if edited.ended != one.ended and edited.ended == CUT_SHORT:
        return Judgement(None, "The edited script does not come to its end in the time that the original has.", runs=False)
    if edited.ended != one.ended and edited.ended:
        return Judgement(False, f"The edited script ends with {edited.ended}.", faults=(edited.ended,), runs=False)
    seen = _Comparison(one, two, nudged, edited, dead)
    return seen.judgement(tuple(missed))


def judge_equal(
    one: Record, edited: Record, dead: frozenset[str] = frozenset(), missed: Sequence[int] = ()
) -> Judgement | None:
    """Judge by one run of the original, where the edited text holds the same to the bit; None where
    it does not: then it takes more runs to tell rounding from another program.
    """
    if one.ended not in ("", CUT_SHORT) or edited.ended != one.ended:
        return None
    seen = _Comparison(one, one, one, edited, dead)
    found = seen.judgement(tuple(missed))
    return found if found.same and not seen.differs else None


class _Comparison:
    def __init__(self, one: Record, two: Record, nudged: Record, edited: Record, dead: frozenset[str]) -> None:
        self.one, self.two, self.nudged, self.edited, self.dead = one, two, nudged, edited, dead
        self.faults: list[str] = []
        self.differs = False  # whether a number is another, be it by a rounding
        self.missing: dict[str, str] = {}  # why
        self.compared = 0
        self.first: dict[str, Any] = {}  # each value where training began, or as it was met first
        self.most: dict[str, float] = {}  # how far each came from there
        self.changed: set[str] = set()
        self.told: set[str] = set()
        self.changed_here: set[str] = set()  # at the mark that is looked at
        self.told_here: set[str] = set()
        self.parts = 0  # the last pass where most of what training changes tells, if that is no longer so at the last mark
        self.spreads: dict[str, float] = {}

    def judgement(self, missed: tuple[int, ...]) -> Judgement:
        keys = [key for key in self.one.marks if key in self.two.marks and key in self.nudged.marks]
        common = [key for key in keys if key in self.edited.marks]
        last = 0
        for key in keys:
            if key in self.edited.marks:
                self._mark(key)
                last = self._tells(key, last)
            elif key[2] == END and self.edited.ended == self.one.ended:
                self.faults.append(f"{_said(key)} is not reached")
        for loop, passes in self.one.passes.items():
            if self.edited.passes.get(loop) != passes == self.two.passes.get(loop):
                self.faults.append(f"{passes} passes of a loop became {self.edited.passes.get(loop, 0)}")
        if self.edited.threads > max(self.one.threads, self.two.threads):
            self.faults.append("a thread of it goes on, and keeps the process from ending")
        self.faults += [
            f"random numbers of {each} are the same"
            for each in sorted(self.edited.coupled - self.one.coupled - self.two.coupled)
        ]
        self._printed()
        passes = max((key[2] for key in common), default=0)
        if passes < 1 and any(key[0] not in ("files", "script") for key in common):  # read where the loop was over alone
            passes = max((*(key[2] for key in keys), *self.one.passes.values(), self.one.made))
        if self.faults:
            said = "; ".join(self.faults[:_SHOWN]) + (
                f" and {len(self.faults) - _SHOWN} more" if len(self.faults) > _SHOWN else ""
            )
            return Judgement(False, f"It is another program: {said}.", self.compared, passes, missed, tuple(self.faults))
        why = self._unproven(passes)
        if why is not None:
            return Judgement(None, why, self.compared, passes, missed, tuple(self.missing))
        sampled = len({path for key in common for path in self.one.marks[key].sampled})
        return Judgement(True, "the same program", self.compared, passes, missed, sampled=sampled, noise=tuple(self._noise()),
            whole=not self.parts, parts=self.parts,
        )  # fmt: skip

    def _tells(self, key: tuple[str, int, int], last: int) -> int:
        """The last pass where runs of the original agree on most of what training changes."""
        if self.changed_here:
            tell = len(self.told_here & self.changed_here) >= (1 - NOISE) * len(self.changed_here)
            last = max(last, key[2]) if tell else last
            self.parts = 0 if tell else last
        return last

    def _noise(self) -> list[str]:
        return sorted(self.changed - self.told)

    def _unproven(self, passes: int) -> str | None:
        if passes < 1:
            return "No pass of its loop could be compared."
        last = next(reversed(list(self.one.marks)), None)
        if not self.one.ended and not all(last in each.marks for each in (self.nudged, self.edited)):
            return "Its end could not be compared."
        for path, why in self.missing.items():
            return f"It could not be compared in all that it holds: {path} {why}."
        if more := next((state.unread[BEYOND] for state in self.edited.marks.values() if BEYOND in state.unread), ""):
            return f"It holds {more}, so that not all of them could be compared."
        if not self.changed:
            return "Nothing that training changes was found, so nothing can be compared."
        untold = self._noise()
        if len(untold) > NOISE * len(self.changed):
            return f"Two runs of the script as it is differ as well, in {untold[0]}, so that it cannot be compared."
        return None

    def _mark(self, key: tuple[str, int, int]) -> None:
        one, two, nudged, edited = (each.marks[key] for each in (self.one, self.two, self.nudged, self.edited))
        self.changed_here, self.told_here = set(), set()
        for path, value in one.values.items():
            other = two.find(path)
            if isinstance(value, str):
                self._text(key, path, value, other, nudged.find(path), edited)
            elif isinstance(other, np.ndarray) and other.shape == value.shape:
                self._number(key, path, value, other, nudged.find(path), edited)
            else:
                self._change(path, _wide(value))  # which nothing can be compared with
        for path, target in one.aliases.items():
            if edited.aliases.get(path) != target and self._lives(path):
                self._alias(key, path, target, one, edited)

    def _alias(self, key: Any, path: str, target: str, one: State, edited: State) -> None:
        """What was one object under two names need not be, but it must hold the same."""
        runs = (self.two.marks[key], self.nudged.marks[key])
        for at, value in one.values.items():
            if at.startswith(target) and at[len(target) : len(target) + 1] in ("", ".", "[", "<", "{"):
                other, nudged = (each.find(path + at[len(target) :]) for each in runs)
                if isinstance(value, np.ndarray) and isinstance(other, np.ndarray) and other.shape == value.shape:
                    self._number(key, path + at[len(target) :], value, other, nudged, edited)

    def _text(self, key: Any, path: str, value: str, other: Any, nudged: Any, edited: State) -> None:
        if not (isinstance(other, str) and isinstance(nudged, str)) or not value == other == nudged:
            return
        found = edited.find(path)
        if found is None:
            self._absent(path, edited)
        elif not isinstance(found, str) or found != value:
            self.faults.append(f"{_said(key)}: {path} {value[:40]} is {str(found)[:40]}")
        else:
            self.compared += 1

    def _number(self, key: Any, path: str, value: Any, other: Any, nudged: Any, edited: State) -> None:
        plain = value
        value, other = _wide(value), _wide(other)
        change = self._change(path, value)
        self.most[path] = most = max(self.most.get(path, 0.0), change)
        scale = _largest(value)
        between = _distance(value, other)
        if isinstance(nudged, np.ndarray) and nudged.shape == value.shape:
            self.spreads[path] = max(self.spreads.get(path, 0.0), _distance(value, _wide(nudged)))
        spread = max(self.spreads.get(path, 0.0), between)
        floor = (ONE_STEP if key[2] == 1 else LATER) * scale if value.dtype.kind != "i" else 0.0
        if key[2] != 1 and change:
            floor = max(min(floor, OF_CHANGE * change), COMPUTED * most if value.dtype.kind == "f" else 0.0)
        if not np.isfinite(spread) or between > max(AGREED * max(change, scale * 1e-3), floor):
            return
        found = edited.find(path)
        if found is None:
            self._absent(path, edited)
            return
        if not isinstance(found, np.ndarray) or found.shape != value.shape:
            self.faults.append(f"{_said(key)}: {path} has another shape or type")
            return
        if _narrower(found, plain):
            self.faults.append(f"{_said(key)}: {path} is of {found.dtype} instead of {plain.dtype}")
            return
        tolerance = floor + SPREADS * spread
        if tolerance <= TELLS * change or not spread:
            self.told.add(path)
            self.told_here.add(path)
        self.compared += 1
        away = _distance(value, _wide(found))
        self.differs = self.differs or away > 0
        others = np.count_nonzero(value != _wide(found)) if value.dtype.kind == "i" else value.size
        turned = others <= (STEPPED if away <= 1 else TURNED) * value.size
        if not (away <= tolerance or turned):
            self.faults.append(f"{_said(key)}: {path} is off by {away:.3g}, of {scale:.3g}")

    def _change(self, path: str, value: Any) -> float:
        """How far the value is from what it was first."""
        if path not in self.first:
            before = (self.one.begin, next(iter(self.one.marks.values())))
            self.first[path] = next(
                (found for each in before if each is not None and (found := each.find(path)) is not None), value
            )
        start = self.first[path]
        if not isinstance(start, np.ndarray) or start.shape != value.shape:
            return 0.0
        away = _distance(value, _wide(start))
        if away and value.size > 1 and value.dtype.kind == "f" and self._lives(path):
            self.changed.add(path)
            self.changed_here.add(path)
        return away

    def _lives(self, path: str) -> bool:
        return _root(path) not in self.dead

    def _absent(self, path: str, edited: State) -> None:
        if not self._lives(path):
            return
        opaque = next((kind for at, kind in edited.unread.items() if path.startswith(at)), None)
        self.missing.setdefault(path, f"is inside of a {opaque}" if opaque else "is not there")

    def _printed(self) -> None:
        runs = (self.one, self.two, self.nudged, self.edited)
        self._lines("prints", [_lines(each.printed) for each in runs])
        self._lines("tells on stderr", [_lines(each.said) for each in runs])
        for path in self.one.files.keys() & self.two.files.keys() & self.nudged.files.keys():
            if path not in self.edited.files and self._ended_alike():
                self.faults.append(f"it does not write {path}")
            elif path in self.edited.files:
                self._lines(f"writes in {path}", [_timeless(each.files[path]) for each in runs])

    def _ended_alike(self) -> bool:
        """Whether both came to an end of their own, and to the same one."""
        return self.edited.ended == self.one.ended != CUT_SHORT

    def _lines(self, does: str, lines: list[list[str]]) -> None:
        """Lines that two originals agree on, of the edited script."""
        one, two, nudged, edited = lines
        steady = len(one) == len(two) == len(nudged)
        if steady and len(nudged) != len(edited) and self.one.ended == self.edited.ended == "":
            self.faults.append(f"it {does} {format_count(len(edited), 'line')} instead of {len(one)}")
        count = min(map(len, lines))
        # from both ends: lines that come by the clock shift the others
        for at in (*range(count), *(range(-count, 0) if self._ended_alike() else ())):
            if not self._alike(one[at], two[at], nudged[at], edited[at], steady):
                self.faults.append(f"it {does} {edited[at][:60]!r} for {one[at][:60]!r}")

    def _alike(self, one: str, two: str, nudged: str, edited: str, steady: bool) -> bool:
        """Whether a line of the edited script has the original's words, and the numbers that its
        runs agree on. steady: whether these have as many lines as each other; of others it may be
        another line.
        """
        lines = (one, two, nudged, edited)
        words = _words(one)
        if len(set(map(_words, lines[:3]))) > 1:
            return True
        if words != _words(edited):
            return not steady
        numbers = enumerate(zip(*(_NUMBER.findall(line) for line in lines), strict=True))
        agree = [self._agrees(f"{words} {at}", *each) for at, each in numbers]  # all of them: each is told what runs make of it
        return all(agree)

    def _agrees(self, place: str, one: str, two: str, nudged: str, edited: str) -> bool:
        """Whether a printed number of the edited script is what runs of the original make it; so is
        what these do not agree on. place: one for all numbers that lines of the same words print
        there, of which the runs may agree in one by chance.
        """
        if one.lstrip("+-").isdigit():
            return not one == two == nudged or edited == one
        a, b, c, d = map(float, (one, two, nudged, edited))
        self.differs = self.differs or a != d
        spread, digit, scale = max(abs(a - b), abs(a - c)), _last_digit(one), abs(a)
        if not spread <= PRINTED * scale + digit:
            return True
        self.spreads[place] = max(self.spreads.get(place, 0.0), (spread - digit) / scale if scale else 0.0)
        return abs(a - d) <= 2 * digit + DIGITS * scale + SPREADS * max(spread, scale * self.spreads[place])


def _said(key: tuple[str, int, int]) -> str:
    loop, entry, passes = key
    if loop == "script":
        return "at the end"
    if loop in ("fit", "epoch"):
        return "after fit" if loop == "fit" else f"after epoch {entry}"
    if loop == "files":
        return "in its files"
    if loop.endswith(" returned"):
        return "where its function returns"
    return (
        f"behind the loop, time {entry}" if passes == END else f"at step {passes}" + (f" of epoch {entry}" if entry > 1 else "")
    )


def _root(path: str) -> str:
    """The name that a path begins with: `loss` of `main:loss[0].x`, and of a script's own names
    `__main__.loss`.
    """
    function = re.match(r"[\w.<>]+:", path)
    names = re.split(r"[\[.<{(]", path[function.end() :] if function else path)
    return names[0] if function else ".".join(names[:2])


def _narrower(found: Any, value: Any) -> bool:
    """Whether numbers are of a type that holds less than the original's; one number of a loss may
    come from either side.
    """
    integers = found.dtype.kind in "iu" and value.dtype.kind in "iu"
    floats = found.dtype.kind == value.dtype.kind == "f" and value.size > 1
    return bool((integers or floats) and found.dtype.itemsize < value.dtype.itemsize)


def _wide(value: Any) -> Any:
    if value.dtype.kind in "bui":
        return value.astype(np.int64)
    if value.dtype.kind in "fc":
        return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)
    return value


def _largest(value: Any) -> float:
    if value.dtype.kind not in "ifc" or not value.size:
        return 0.0
    finite = np.abs(value[np.isfinite(value)])
    return float(finite.max()) if finite.size else 0.0


def _distance(one: Any, two: Any) -> float:
    """The largest difference of two arrays of one shape; infinite where one is no number and the
    other is.
    """
    if one.dtype.kind not in "ifc" or two.dtype.kind not in "ifc":
        return 0.0 if np.array_equal(one, two) else float("inf")
    if not one.size:
        return 0.0
    with np.errstate(invalid="ignore"):
        away = np.abs(one - two)
    alike = (one == two) | (np.isnan(one) & np.isnan(two))
    away = np.where(alike, 0.0, away)
    return float("inf") if np.isnan(away).any() else float(away.max())


def _lines(printed: Sequence[str]) -> list[str]:
    """What was printed; of a progress bar the last that it showed, without times: in how many steps
    it comes there is a matter of pace.
    """
    shown = _timeless(line for line in printed if line.strip())
    bar = [bool(_PROGRESS.search(line)) for line in shown]
    ends = zip(shown, bar, [*bar[1:], False], strict=False)
    return [_PACE.sub(" ", line) if is_bar else line for line, is_bar, next_is in ends if not (is_bar and next_is)]


def _timeless(lines: Iterable[str]) -> list[str]:
    """Lines without the time at which they were written, which runs that begin together may share
    in part. Other days' are data.
    """
    now = time.time()
    days = {
        time.strftime(form, of(now - ago))
        for form in ("%Y-%m-%d", "%a %b %e")
        for of in (time.localtime, time.gmtime)
        for ago in (0.0, _DAY)
    }
    return [_WHEN.sub(lambda found: "when" if found[1] in days or found[2] in days else found[0], line) for line in lines]


def _words(line: str) -> str:
    """A line without its numbers, and without the blanks beside them, which fill up columns."""
    return _NUMBER.sub("#", " ".join(line.split())).replace(" #", "#").replace("# ", "#")


def _last_digit(number: str) -> float:
    """What the last digit of a printed number stands for; nothing of a whole one."""
    mantissa, _, power = number.lower().partition("e")
    _, point, digits = mantissa.partition(".")
    return 10.0 ** (int(power or 0) - len(digits)) if point else 0.0
