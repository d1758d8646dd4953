# SPDX-License-Identifier: Apache-2.0
"""The lines of a script whose loop it is that a step's time goes to, by samples of its thread's
stack.
"""

from __future__ import annotations

import linecache
import os
from collections import defaultdict
from collections.abc import Callable, Sequence

from outpace.metrics.facts.python_lines import wilson_interval
from outpace.metrics.facts.python_samples import OUTPACE, YOURS, attribute_stacks
from outpace.metrics.source_line import format_source_line
from outpace.model import Table, TableType
from outpace.store.record import PythonSamples
from outpace.tune.loop.loop import Loop

LINES = TableType("lines", "Where a step's time goes").columns("""
    * line     | text     | line of your own code: the innermost one of the training thread's stack
    * function | text     | function that holds it
      text     | text     | its source | Code
    + share    | fraction | the line's share of the step time, with what libraries do below it; what is computed while Python goes on is \
                            the time of the line that waits for it, and of the step itself where none does | Of step
      low      | fraction | lower end of the share's 95% CI | From
      high     | fraction | upper end of it | To
""")
_LEAST_SHARE = 0.01


def header_share(lines: Table, loop: Loop) -> float:
    """Return the share of a step that the line takes which draws the innermost loop's items: the
    wait for input, where that line makes them.
    """
    body = loop.taken.body if loop.taken is not None else None
    header = format_source_line(os.path.abspath(body.file), body.loop.lineno) if body is not None else ""
    return float(sum(row["share"] for row in lines.records() if row["line"] == header))


def _within(loop: Loop) -> Callable[[PythonSamples, int], bool]:
    """Return whether a stack is inside of the innermost loop around the steps."""
    body = loop.taken.body if loop.taken is not None else None
    if body is None:
        return lambda samples, stack: True
    file, lines = os.path.abspath(body.file), range(body.loop.lineno, (body.loop.end_lineno or body.loop.lineno) + 1)
    return lambda samples, stack: any(samples.frames[at][0] == file and line in lines for at, line in samples.stacks[stack])


def share_of(samples: PythonSamples, loop: Loop, places: Sequence[str]) -> float:
    """Return the share of a step's samples that are at some places, or below them. places:
    `FILE:LINE NAME` of a line, or of where a function of that name begins.
    """
    lines, functions = set[tuple[str, int]](), set[tuple[str, int, str]]()
    for each in places:
        place, _, name = each.partition(" ")
        file, _, line = place.rpartition(":")
        lines.add((os.path.basename(file), int(line)))
        functions.add((os.path.basename(file), int(line), name))
    inside, total, met = _within(loop), 0, 0
    for _, weight, stack in samples.samples:
        if inside(samples, stack):
            total += weight
            frames = ((*samples.frames[at][:3], line) for at, line in samples.stacks[stack])
            met += weight * any(
                (os.path.basename(file), line) in lines
                or (os.path.basename(file), first, function.rpartition(".")[2]) in functions
                for file, function, first, line in frames
            )
    return met / total if total else 0.0


def lines_of(samples: PythonSamples, loop: Loop) -> Table | None:
    """The largest share first; None where nothing tells. What lies outside of the innermost loop
    around the steps is no part of one.
    """
    inside = _within(loop)
    places = [place for place, _, _ in attribute_stacks({}, {"frames": samples.frames, "stacks": samples.stacks})]
    weights: dict[tuple[str, int, str], int] = defaultdict(int)
    total = met = 0
    for _, weight, stack in samples.samples:
        file, line, name, owner = places[stack]
        if owner == OUTPACE or not inside(samples, stack):
            continue
        total, met = total + weight, met + 1
        if owner == YOURS:
            weights[file, line, name] += weight
    rows = []
    for (file, line, name), weight in weights.items():
        if (share := weight / total) >= _LEAST_SHARE:
            place = {"line": format_source_line(file, line), "text": linecache.getline(file, line).strip(), "function": name}
            low, high = wilson_interval(share, met)
            rows.append(LINES.row(place, share=share, low=low, high=high))
    return LINES.build(rows).sort_by("share") if rows else None
