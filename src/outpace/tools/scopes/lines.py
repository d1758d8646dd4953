"""Time by source line: compiled ops by the line that they were built from, and Python calls where
they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._lazy import compile_lazily
from outpace.metrics.facts.hlo_instructions import CPU_SIDE, DEVICE_SIDE, iter_hlo_events
from outpace.model import Table
from outpace.model.arrays import Indices
from outpace.timeline import Run, Timeline
from outpace.tools.scopes.schema import LINES
from outpace.trace.algorithms import aggregate_by_key

_FRAME = compile_lazily(r"^\$(?P<place>.+?\.py:\d+) (?P<function>.*)$")  # `$train.py:12 step`, as the Python tracer writes it
_WHAT, _PYTHON = {DEVICE_SIDE: "device ops", CPU_SIDE: "compiled ops on the CPU"}, "Python calls"


def compute_source_lines(run: Run) -> Table:
    """Return table `LINES`: a row per source line and kind, longest self time first; empty when the
    profile names no lines.
    """
    sums: dict[tuple[str, str], list[int]] = {}
    for timeline in run.hosts:
        for place, kind, count, total, own in (*_compiled(timeline), *_python(timeline)):
            known = sums.setdefault((place, kind), [0, 0, 0])
            known[0], known[1], known[2] = known[0] + count, known[1] + total, known[2] + own
    rows = [(place, kind, *numbers) for (place, kind), numbers in sums.items()]
    return Table.from_rows("lines", "Time by source line", LINES, rows).sort_by("self_ps")


def _compiled(timeline: Timeline) -> Iterator[tuple[str, str, int, int, int]]:
    """Yield (source, kind, count, total ps, self ps) of the HLO ops on devices and on XLA's threads
    of a CPU.
    """
    trace = timeline.trace
    for side, rows, index, ops, begun in iter_hlo_events(timeline):
        _, own = trace.compute_nesting(rows)
        _, total, self_total, _, _ = aggregate_by_key(index, len(ops), trace.duration[rows], own)
        count = np.bincount(index, begun, len(ops))
        for i, op in enumerate(ops):
            if op.source and count[i]:
                yield op.source, _WHAT[side], int(count[i]), int(total[i]), int(self_total[i])


def _python(timeline: Timeline) -> list[tuple[str, str, int, int, int]]:
    trace = timeline.trace
    frames = {i: f"{m['place']} {m['function']}" for i, name in enumerate(trace.names) if (m := _FRAME.match(name))}
    if not frames:
        return []
    wanted = np.zeros(len(trace.names), bool)
    wanted[list(frames)] = True
    return [(frames[name], _PYTHON, *numbers) for name, numbers in _sums(timeline, trace.find_rows_by_mask(wanted))]


def _sums(timeline: Timeline, rows: Indices) -> list[tuple[int, tuple[int, int, int]]]:
    """Return (index of the name, (count, total ps, self ps)) of the events at `rows`, nested in
    each other.
    """
    trace = timeline.trace
    rows = np.sort(rows)
    _, own = trace.compute_nesting(rows)
    count, total, self_total, _, _ = aggregate_by_key(trace.name[rows], len(trace.names), trace.duration[rows], own)
    return [(int(n), (int(count[n]), int(total[n]), int(self_total[n]))) for n in np.flatnonzero(count)]
