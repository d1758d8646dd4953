"""Lines of Python on both sides, where both were sampled: what of the time in which no op ran lies in each.

Samples say how a part of the step divides, and are too few to be parts in each step: lines take no part in the verdict. A line is the same by
its function and its text, wherever these stand.
"""

from __future__ import annotations

from collections.abc import Sequence

from outpace.compare.means import Mean, combined
from outpace.compare.sampled import Line
from outpace.compare.side import BESIDE, PYTHON, Side
from outpace.compare.verdict import Change, Comparison, Kind, alone, believed

LINE = "Python"
_Key = tuple[str, str]  # function, text


def lines(found: Comparison) -> tuple[Change, ...]:
    """What became of each line, the largest change first; none where a side has no samples."""
    factor = found.factors.get(PYTHON)
    one, two = _lines(found.before), _lines(found.after)
    if not one or not two or factor is None:
        return ()
    changes = []
    for key in dict.fromkeys((*one, *two)):
        here, there = one.get(key) or two[key], two.get(key) or one[key]
        before, after = (_mean(side.get(key, (None,)), found.before.between) for side in (one, two))
        changes.append(alone((LINE, key[1], _name(here)), _name(there), PYTHON, before, after, factor))
    return tuple(sorted(believed(changes, found.step_before.value), key=lambda each: -abs(each.delta)))


def above_all(change: Change, lines: Sequence[Change]) -> Change | None:
    """The line that makes most of a change of the time in which no op runs; None for another change, and where no line is sure."""
    if change.part[0] != BESIDE:
        return None
    own = (line for line in lines if line.kind is not Kind.MACHINE and line.delta * change.delta > 0)
    return next(own, None)


def _lines(side: Side) -> dict[_Key, list[Line | None]]:
    """Each line in a side's sampled captures; None where one has none of it."""
    captures = [{(line.function, line.text): line for line in capture.lines} for capture in side.captures if capture.lines]
    return {key: [capture.get(key) for capture in captures] for key in dict.fromkeys(key for each in captures for key in each)}


def _name(told: Sequence[Line | None]) -> str:
    return next(line.name for line in told if line is not None)


def _mean(told: Sequence[Line | None], between: float) -> Mean:
    return combined([(line.time, line.error) if line is not None else (0.0, 0.0) for line in told], between)
