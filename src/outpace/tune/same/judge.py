# SPDX-License-Identifier: Apache-2.0
"""Compares what runs of two texts left behind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from outpace.model.units import format_count
from outpace.tune.same.files import NUMBERS
from outpace.tune.same.judgement import Judgement
from outpace.tune.same.lines import last_digit, masked, numbers_in, shown_lines, timeless, words_of
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
AGREED = 1e-3  # of what training has changed: a single number that runs of one text differ in by more tells nothing
TELLS = 0.1  # of what training has changed: a tolerance above it hides what it should find
TURNED = (
    1e-3  # of the whole numbers of an array: what is made whole of numbers that are off by a rounding turns over now and then
)
STEPPED = 0.02  # of them, by one: a picture of 8 bits, made of numbers between 0 and 1
NOISE = 0.4  # of the arrays that training changes: what one rounding moves as far as training does is of no consequence if all else agrees
PRINTED = 2e-3  # of a number that is printed: by as much two runs of one text may differ for it to be compared
DIGITS = 2e-5  # of it, likewise of the edited text, beside what the two differ by
FEW = 0.01  # of the numbers of an array: those that a rounding moves by much beside what each is, since they are near to 0
_SHOWN = 3
_POSITIONS = ("random[", "numpy.random[")  # begins of paths: of generators that all code shares
_INDEX = re.compile(r"\[\d+\]")  # of a list, in a path
# Why something is not compared.
_DIFFERS = "chance or rounding makes it"
_ROUGH = "it differs by more than rounding beside its own size"
_TURNED = "some whole numbers differ"


def judge(
    originals: Sequence[Record], edited: Record, dead: frozenset[str] = frozenset(), missed: Sequence[int] = ()
) -> Judgement:
    """Judge an edited text by its run and two of the original, all in the same surroundings.

    originals: a plain one, and a nudged one
    dead: names of the loop's function, or of the script (`__main__.name`), that the original sets
        anew before it reads them, so that an edit may leave them out
    """
    one, nudged = originals
    if one.ended not in ("", CUT_SHORT):
        return Judgement(None, f"The script as it is ends with {one.ended}, so nothing can be compared.", runs=False)
    if nudged.ended not in ("", CUT_SHORT):
        why = f"One rounding at its start, and the script as it is ends with {nudged.ended}, so nothing can be compared."
        return Judgement(None, why, runs=False)
    if edited.ended != one.ended and edited.ended == CUT_SHORT:
        return Judgement(None, "The edited script does not come to its end in the time that the original has.", runs=False)
    if edited.ended != one.ended and edited.ended:
        return Judgement(False, f"The edited script ends with {edited.ended}.", faults=(edited.ended,), runs=False)
    seen = _Comparison(one, nudged, edited, dead)
    return seen.judgement(tuple(missed))


def judge_equal(
    one: Record, edited: Record, dead: frozenset[str] = frozenset(), missed: Sequence[int] = ()
) -> Judgement | None:
    """Judge by one run of the original, where the edited text holds the same to the bit; None where
    it does not: then it takes more runs to tell rounding from another program.
    """
    if one.ended not in ("", CUT_SHORT) or edited.ended != one.ended:
        return None
    seen = _Comparison(one, one, edited, dead)
    found = seen.judgement(tuple(missed))
    return found if found.same and not seen.differs else None


class _Comparison:
    """Of an edited run with one of the original, as closely as a nudged one allows: by how much it
    differs, the edited one may.
    """

    def __init__(self, one: Record, nudged: Record, edited: Record, dead: frozenset[str]) -> None:
        self.one, self.nudged, self.edited, self.dead = one, nudged, edited, dead
        self.omissions: dict[str, str] = {}  # reasons
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
        self.spreads: dict[str | tuple[str, int], float] = {}
        self.noisy: set[tuple[str, int]] = set()  # numbers of lines that the runs do not agree on

    def judgement(self, missed: tuple[int, ...]) -> Judgement:
        keys = [key for key in self.one.marks if key in self.nudged.marks]
        common = [key for key in keys if key in self.edited.marks]
        last = 0
        for key in keys:
            if key in self.edited.marks:
                self._mark(key)
                last = self._tells(key, last)
            elif key[2] == END and self.edited.ended == self.one.ended:
                self.faults.append(f"{_said(key)} is not reached")
        self._passes()
        if self.edited.threads > max(self.one.threads, self.nudged.threads):
            self.faults.append("a thread of it goes on, and keeps the process from ending")
        self.faults += [
            f"random numbers of {each} are the same"
            for each in sorted(self.edited.coupled - self.one.coupled - self.nudged.coupled)
        ]
        self._printed()
        for each in sorted(self.edited.hidden - self.one.hidden):
            self.omissions.setdefault(each, "it does not show here")
        self._unread(common)
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
        omissions = tuple(f"{name} ({why})" for name, why in self.omissions.items())
        return Judgement(True, "the same program", self.compared, passes, missed, sampled=sampled, omissions=omissions,
            whole=not self.parts, parts=self.parts,
        )  # fmt: skip

    def _unread(self, common: Sequence[tuple[str, int, int]]) -> None:
        """Note what no reading leads to: objects that came up in training, or behind it, and tell
        nothing of what they hold, and what goes on when nobody waits any longer.
        """
        before = self.one.begin.unread if self.one.begin is not None else {}
        for key in common:
            for path, kind in self.one.marks[key].unread.items():
                if path != BEYOND and before.get(path) != kind and self._lives(path):
                    self.omissions.setdefault(path, f"nothing can be read of a {kind}")
        for what in (*self.one.lasting, *self.edited.lasting):
            self.omissions.setdefault(what, "it is in no record")

    def _passes(self) -> None:
        for loop, passes in self.one.passes.items():
            if CUT_SHORT not in (self.one.ended, self.nudged.ended) and passes != self.nudged.passes.get(loop):
                self.omissions["how many passes a loop makes"] = _DIFFERS
            elif self._ended_alike() and passes != self.edited.passes.get(loop):
                self.faults.append(f"{passes} passes of a loop became {self.edited.passes.get(loop, 0)}")

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
        if not self.one.ended and last not in self.edited.marks:
            return "Its end could not be compared."
        if not self.one.ended and last not in self.nudged.marks:
            if self.nudged.ended != CUT_SHORT:
                return "Its end could not be compared."
            self.omissions["its end"] = "there was no time to run it twice"
        for path, why in self.missing.items():
            return f"It could not be compared in all that it holds: {path} {why}."
        if more := next((state.unread[BEYOND] for state in self.edited.marks.values() if BEYOND in state.unread), ""):
            return f"It holds {more}, so that not all of them could be compared."
        if not self.changed:
            return "Nothing that training changes was found, so nothing can be compared."
        untold = self._noise()
        if len(untold) > NOISE * len(self.changed):
            return f"With one rounding more the script as it is differs as well, in {untold[0]}, so that it cannot be compared."
        return None

    def _mark(self, key: tuple[str, int, int]) -> None:
        one, nudged, edited = (each.marks[key] for each in (self.one, self.nudged, self.edited))
        self.changed_here, self.told_here = set(), set()
        for path, value in one.values.items():
            other = nudged.find(path)
            if isinstance(value, str):
                self._text(key, path, value, other, edited)
            elif isinstance(other, np.ndarray) and other.shape == value.shape:
                self._number(key, path, value, other, edited)
            else:
                self._change(path, _wide(value))
                self._omit(path, _DIFFERS)
        for path, target in one.aliases.items():
            if edited.aliases.get(path) != target and self._lives(path):
                self._alias(key, path, target, one, edited)

    def _alias(self, key: Any, path: str, target: str, one: State, edited: State) -> None:
        """What was one object under two names need not be, but it must hold the same."""
        nudged = self.nudged.marks[key]
        for at, value in one.values.items():
            if at.startswith(target) and at[len(target) : len(target) + 1] in ("", ".", "[", "<", "{"):
                other = nudged.find(path + at[len(target) :])
                if isinstance(value, np.ndarray) and isinstance(other, np.ndarray) and other.shape == value.shape:
                    self._number(key, path + at[len(target) :], value, other, edited)

    def _omit(self, name: str, why: str) -> None:
        """Note what cannot be compared, or not closely."""
        if self._lives(name):
            self.omissions.setdefault(name, why)

    def _text(self, key: Any, path: str, value: str, nudged: Any, edited: State) -> None:
        if value != nudged:
            self._omit(path, _DIFFERS)
            return
        found = edited.find(path)
        if found is None:
            self._absent(path, edited)
        elif not isinstance(found, str) or found != value:
            self.faults.append(f"{_said(key)}: {path} {value[:40]} is {str(found)[:40]}")
        else:
            self.compared += 1

    def _number(self, key: Any, path: str, value: Any, nudged: Any, edited: State) -> None:
        found = edited.find(path)
        if not self.spreads.get(path) and _is_equal(value, nudged) and _is_equal(value, found):  # as most are
            self.most[path] = max(self.most.get(path, 0.0), self._change(path, value))
            self._tell(path)
            self.compared += 1
            return
        if path.startswith(_POSITIONS):  # what is drawn shows in what it makes
            self.omissions.setdefault(
                "how far Python's and NumPy's random numbers are", "a thread of a pipeline may draw ahead"
            )
            return
        plain, value = value, _wide(value)
        change = self._change(path, value)
        self.most[path] = most = max(self.most.get(path, 0.0), change)
        scale = _largest(value)
        spread = self.spreads[path] = max(self.spreads.get(path, 0.0), _distance(value, _wide(nudged)))
        floor = (ONE_STEP if key[2] == 1 else LATER) * scale if value.dtype.kind != "i" else 0.0
        floor = max(floor, COMPUTED * self._series(key, path, value))
        if key[2] != 1 and change:
            floor = max(min(floor, OF_CHANGE * change), COMPUTED * most if value.dtype.kind == "f" else 0.0)
        is_noise = value.size == 1 and spread > max(AGREED * max(most, scale * 1e-3), floor)
        if is_noise or not np.isfinite(spread):
            self._omit(path, _DIFFERS)
            return
        if found is None:
            self._absent(path, edited)
        elif not isinstance(found, np.ndarray) or found.shape != value.shape:
            self.faults.append(f"{_said(key)}: {path} has another shape or type")
        elif _narrower(found, plain):
            self.faults.append(f"{_said(key)}: {path} is of {found.dtype} instead of {plain.dtype}")
        else:
            self._compare(key, path, value, _wide(found), floor + SPREADS * spread, change, bool(spread))

    def _series(self, key: Any, path: str, value: Any) -> float:
        """How far a number of a list that grows in training, as of losses, is from the list's first
        one: each is a reading of the same quantity.
        """
        before = self.one.begin
        if value.size != 1 or value.dtype.kind != "f" or before is None or before.find(path) is not None:
            return 0.0
        first = self.one.marks[key].values.get(_INDEX.sub("[0]", path, count=1))
        return _distance(value, _wide(first)) if isinstance(first, np.ndarray) and first.shape == value.shape else 0.0

    def _compare(self, key: Any, path: str, value: Any, found: Any, tolerance: float, change: float, has_spread: bool) -> None:
        """Compare the numbers of two arrays of one shape. change: how far training moved them."""
        if tolerance <= TELLS * change or not has_spread:
            self._tell(path)
        elif tolerance > TELLS * max(self.most[path], _largest(value) if value.size == 1 or not change else 0.0):
            self._omit(path, _DIFFERS)
        self.compared += 1
        away = _distance(value, found)
        if not away:
            return
        self.differs = True
        turned = False
        if value.dtype.kind == "i":
            turned = np.count_nonzero(value != found) <= (STEPPED if away <= 1 else TURNED) * value.size
        if not (away <= tolerance or turned):
            self.faults.append(f"{_said(key)}: {path} is off by {away:.3g}, of {_largest(value):.3g}")
        elif turned:
            self._omit(path, _TURNED)
        elif self._rough(path, value, found) > (0.0 if path.endswith(NUMBERS) else FEW):
            self._omit(path, _ROUGH)

    def _tell(self, path: str) -> None:
        """Note that a value tells, where it is compared."""
        self.told.add(path)
        self.told_here.add(path)

    def _rough(self, path: str, value: Any, found: Any) -> float:
        """The share of numbers that differ by much, beside what training has made of each, or
        beside their own size where they are new.
        """
        with np.errstate(invalid="ignore"):
            start = self.first[path]
            known = isinstance(start, np.ndarray) and start.shape == value.shape and value.size > 1
            own = np.abs(value - _wide(start)) if known else np.abs(value)
            own = own if np.any(own) else np.abs(value)
            return float(np.mean(np.abs(found - value) > TELLS * own))

    def _change(self, path: str, value: Any) -> float:
        """How far the value is from what it was first."""
        if path not in self.first:
            before = (self.one.begin, next(iter(self.one.marks.values())))
            self.first[path] = next(
                (found for each in before if each is not None and (found := each.find(path)) is not None), value
            )
        start = self.first[path]
        if not isinstance(start, np.ndarray) or start.shape != value.shape or _is_equal(start, value):
            return 0.0
        away = _distance(_wide(value), _wide(start))
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
        runs = (self.one, self.nudged, self.edited)
        self._lines("prints", [shown_lines(each.printed, each.own, each.drawn) for each in runs])
        self._lines("tells on stderr", [timeless(each.said) for each in runs])
        self._lines("leaves on stderr", [shown_lines(each.errors, drawn=each.drawn) for each in runs], is_own=False)
        self._lines("gives to programs that it starts", [timeless(each.started) for each in runs])
        common = self.one.files.keys() & self.nudged.files.keys()
        for path in sorted(common):
            if path not in self.edited.files and self._ended_alike():
                self.faults.append(f"it does not write {path}")
            elif path in self.edited.files:
                self._lines(f"writes in {path}", [timeless(each.files[path]) for each in runs])
        for path in sorted(set[str]().union(*(each.files for each in runs)) - common):
            self.omissions.setdefault(path, "not every run writes it")

    def _ended_alike(self) -> bool:
        """Whether both came to an end of their own, and to the same one."""
        return self.edited.ended == self.one.ended != CUT_SHORT

    def _lines(self, does: str, lines: list[list[str]], is_own: bool = True) -> None:
        """Lines that runs of the original agree on, of the edited script. is_own: whether all of
        them are the script's own; else the libraries of another text may write others.
        """
        one, nudged, edited = lines
        faults = self.faults if is_own else []
        steady = len(one) == len(nudged)
        if not steady:
            self.omissions.setdefault(f"how many lines it {does}", _DIFFERS)
        elif len(nudged) != len(edited) and self._ended_alike():
            faults.append(f"it {does} {format_count(len(edited), 'line')} instead of {len(one)}")
        count = min(map(len, lines))
        # from both ends: where there are more lines in between, the others are shifted
        from_end = range(-count, 0) if self._ended_alike() and self.nudged.ended != CUT_SHORT else ()
        for at in (*range(count), *from_end):
            if not self._alike(one[at], nudged[at], edited[at], steady):
                faults.append(f"it {does} {edited[at][:60]!r} for {one[at][:60]!r}")
        if faults and not is_own:
            self.omissions.setdefault(f"what it {does}", "another text may leave other lines there")

    def _alike(self, one: str, nudged: str, edited: str, steady: bool) -> bool:
        """Whether a line of the edited script has the original's words, and the numbers that its
        runs agree on. steady: whether these have as many lines as each other; of others it may be
        another line.
        """
        words = words_of(one)
        if words != words_of(nudged):
            if steady:
                self.omissions.setdefault(f"the line {one[:60]!r}", _DIFFERS)
            return True
        if words != words_of(edited):
            return not steady
        if one == nudged and numbers_in(one) == numbers_in(edited):  # with other blanks it is another picture
            return one == edited
        numbers = enumerate(zip(*map(numbers_in, (one, nudged, edited)), strict=True))
        agree = [self._agrees((masked(one), at), *each) for at, each in numbers]  # each is told what runs make of it
        return all(agree)

    def _agrees(self, place: tuple[str, int], one: str, nudged: str, edited: str) -> bool:
        """Whether a printed number of the edited script is what runs of the original make it; so is
        what these do not agree on. place: the words of the line, and which of its numbers it is;
        the runs may agree in one of several by chance.
        """
        a, c, d = map(float, (one, nudged, edited))
        whole = one.lstrip("+-").isdigit()
        self.differs = self.differs or a != d
        spread, digit, scale = abs(a - c), last_digit(one), abs(a)
        most = 0.0 if whole else PRINTED * scale + digit
        if spread > most or place in self.noisy:
            self.noisy.add(place)  # in lines behind it, it may agree by chance
            self.omissions.setdefault(f"a number in {place[0][:60]!r}", _DIFFERS)
            return True
        if whole:
            return edited == one
        self.spreads[place] = max(self.spreads.get(place, 0.0), (spread - digit) / scale if scale else 0.0)
        if a != d and digit > PRINTED * scale:
            self.omissions.setdefault(f"a number in {place[0][:60]!r}", "its last digit differs, of a few")
        return abs(a - d) <= 1.001 * digit + DIGITS * scale + SPREADS * max(spread, scale * self.spreads[place])


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


def _is_equal(one: Any, two: Any) -> bool:
    """Whether two arrays are of one type and hold the same numbers; False where one is no
    number.
    """
    alike = isinstance(two, np.ndarray) and one.dtype == two.dtype and one.shape == two.shape
    return alike and bool(np.array_equal(one, two))


def _wide(value: Any) -> Any:
    if value.dtype.kind in "bui":
        return value.astype(np.int64)
    if value.dtype.kind in "fc":
        return value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)
    return value


def _largest(value: Any) -> float:
    if value.dtype.kind not in "ifc" or not value.size:
        return 0.0
    if np.isfinite(most := np.abs(value).max()):  # as nearly all are
        return float(most)
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
    if np.isfinite(most := away.max()):  # as nearly all are
        return float(most)
    alike = (one == two) | (np.isnan(one) & np.isnan(two))
    away = np.where(alike, 0.0, away)
    return float("inf") if np.isnan(away).any() else float(away.max())
