# SPDX-License-Identifier: Apache-2.0
"""Changes of sampled lines of Python, where both sides were sampled: how the time in which no op
ran divides among lines.

Samples show how a part of the step divides, and are too few to be parts of each step. A line is
identified by its function and its text, wherever these stand in the file. Lines that exist on one
side only show how much of the change of the time in which no op runs is the program's
(`changes.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from outpace.compare.changes import Change, ChangeKind, compute_change, mark_significant
from outpace.compare.sampled_lines import SampledLine, group_by_line, line_mean
from outpace.compare.side import PYTHON, STEP_SIDE
from outpace.compare.verdict import Comparison

PYTHON_LOCATION = "Python"
_MOST = 0.5  # minimum share of a part's change that a line must make to be named in place of the part


def compute_line_changes(comparison: Comparison) -> tuple[Change, ...]:
    """Return the change of each line, the largest first; empty where a side has no samples."""
    factor = comparison.factors.get(PYTHON)
    one, two = (group_by_line(capture.lines for capture in side.captures) for side in (comparison.before, comparison.after))
    if not one or not two or factor is None:
        return ()
    changes = []
    for key in dict.fromkeys((*one, *two)):
        lines_before, lines_after = one.get(key) or two[key], two.get(key) or one[key]
        before, after = (line_mean(side.get(key, (None,)), comparison.before.capture_log_sd) for side in (one, two))
        changes.append(
            compute_change((PYTHON_LOCATION, key[1], _name(lines_before)), _name(lines_after), PYTHON, before, after, factor)
        )
    return tuple(sorted(mark_significant(changes, comparison.step_before.value), key=lambda change: -abs(change.delta_ps)))


def find_main_line(change: Change, lines: Sequence[Change]) -> Change | None:
    """Return the line that makes most of a change of the time in which no op runs; None for a
    change of another part, and where no line is significant.
    """
    if change.part[0] != STEP_SIDE:
        return None
    causes = (line for line in lines if line.kind is not ChangeKind.MACHINE and line.delta_ps * change.delta_ps > 0)
    return next(causes, None)


def _name(lines: Sequence[SampledLine | None]) -> str:
    return next(line.name for line in lines if line is not None)


def find_suspect(comparison: Comparison, growth_ps: float) -> tuple[Change | None, Change | None]:
    """Return (part, line) that seem to make most of the step's growth of `growth_ps` (ps; negative
    for a faster step), significant or not: `line` is the line of Python that makes most of the
    change where the part is the time in which no op runs.
    """
    part = max(comparison.changes, key=lambda change: change.delta_ps * growth_ps, default=None)
    if part is None or part.delta_ps * growth_ps <= 0:
        return None, None
    if part.part[0] != STEP_SIDE:
        return part, None
    line = max(compute_line_changes(comparison), key=lambda change: change.delta_ps * growth_ps, default=None)
    return part, line if line is not None and line.delta_ps / part.delta_ps >= _MOST else None
