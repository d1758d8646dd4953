"""Lines of Python on both sides, where both were sampled: what of the time in which no op ran lies in each.

Samples say how a part of the step divides, and are too few to be parts in each step. A line is the same by its function and its text, wherever
these stand. Lines that one side alone has say how much of the change of the time in which no op runs is the program's (`changes.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from outpace.compare.changes import Change, Kind, alone, believed
from outpace.compare.means import Mean, combined
from outpace.compare.sampled import Line, by_line
from outpace.compare.side import BESIDE, PYTHON
from outpace.compare.verdict import Comparison

LINE = "Python"
_MOST = 0.5  # of a part's change, that a line must make to be told in its place


def lines(found: Comparison) -> tuple[Change, ...]:
    """What became of each line, the largest change first; none where a side has no samples."""
    factor = found.factors.get(PYTHON)
    one, two = (by_line(side.captures) for side in (found.before, found.after))
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


def _name(told: Sequence[Line | None]) -> str:
    return next(line.name for line in told if line is not None)


def _mean(told: Sequence[Line | None], between: float) -> Mean:
    return combined([(line.time, line.error) if line is not None else (0.0, 0.0) for line in told], between)


def suspected(found: Comparison, more: float) -> tuple[Change | None, Change | None]:
    """The part that seems to make most of what the step takes `more` (ps; less, below 0), whether that is sure or not, and of the time in which
    no op runs the line of Python that makes most of it."""
    part = max(found.changes, key=lambda each: each.delta * more, default=None)
    if part is None or part.delta * more <= 0:
        return None, None
    if part.part[0] != BESIDE:
        return part, None
    line = max(lines(found), key=lambda each: each.delta * more, default=None)
    return part, line if line is not None and line.delta / part.delta >= _MOST else None
