# SPDX-License-Identifier: Apache-2.0
"""Time by source line: compiled ops by the line that they were built from, and Python calls where
they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._lazy import compile_lazily
from outpace.metrics.facts.hlo_instructions import CPU_SIDE, DEVICE_SIDE, iter_hlo_events
from outpace.model import Row, Table
from outpace.timeline import Run, Timeline
from outpace.tools.scopes.schema import LINES
from outpace.trace.algorithms import aggregate_by_key

_FRAME = compile_lazily(r"^\$(?P<place>.+?\.py:\d+) (?P<function>.*)$")  # `$train.py:12 step`, as the Python tracer writes it
_WHAT, _PYTHON = {DEVICE_SIDE: "device ops", CPU_SIDE: "compiled ops on the CPU"}, "Python calls"


def compute_source_lines(run: Run) -> Table:
    """Return table `LINES`: a row per source line and kind, longest self time first; empty when the
    profile names no lines.
    """
    rows = (row for timeline in run.hosts for row in (*_hlo_rows(timeline), *_python_rows(timeline)))
    return LINES.build(LINES.sum_rows(rows)).sort_by("self_ps")


def _hlo_rows(timeline: Timeline) -> Iterator[Row]:
    """Yield (source, kind, count, total ps, self ps) of the HLO ops on devices and on XLA's threads
    of a CPU.
    """
    trace = timeline.trace
    for side, rows, index, ops, begun in iter_hlo_events(timeline):
        _, self_ps = trace.compute_nesting(rows)
        _, total, self_total, _, _ = aggregate_by_key(index, len(ops), trace.duration[rows], self_ps)
        count = np.bincount(index, begun, len(ops))
        for i, op in enumerate(ops):
            if op.source and count[i]:
                yield _row(op.source, _WHAT[side], count[i], total[i], self_total[i])


def _python_rows(timeline: Timeline) -> Iterator[Row]:
    trace = timeline.trace
    frames = {i: f"{match['place']} {match['function']}" for i, name in enumerate(trace.names) if (match := _FRAME.match(name))}
    if not frames:
        return
    mask = np.zeros(len(trace.names), bool)
    mask[list(frames)] = True
    rows = np.sort(trace.find_rows_by_mask(mask))
    _, self_ps = trace.compute_nesting(rows)
    count, total, self_total, _, _ = aggregate_by_key(trace.name[rows], len(trace.names), trace.duration[rows], self_ps)
    for name in np.flatnonzero(count).tolist():
        yield _row(frames[name], _PYTHON, count[name], total[name], self_total[name])


def _row(place: str, what: str, count: float, total: int, self_ps: int) -> Row:
    return LINES.row(source=place, what=what, occurrences=int(count), total_ps=int(total), self_ps=int(self_ps))
