"""What was compiled, and which ops autograph made of Python's control flow."""

from __future__ import annotations

import numpy as np

from outpace.metrics.op_metrics import op_metrics
from outpace.metrics.step_breakdown import COMPILERS
from outpace.model import Table
from outpace.timeline import Run, Timeline
from outpace.tools.functions.schema import COMPILATIONS, CONTROL_FLOW
from outpace.trace.algorithms import nest_rows

_CONTROL = ("If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase")


def compilations(run: Run) -> Table:
    """`COMPILATIONS`: graph building and compiling by kind of event, longest first."""
    rows = [row for timeline in run.hosts for row in _compiled(timeline)]
    return Table.from_rows("compilations", "Graph building and compilation", COMPILATIONS, rows).sorted_by("total_ps")


def _compiled(timeline: Timeline) -> list[tuple[object, ...]]:
    trace = timeline.trace
    rows = trace.named(lambda name: name.startswith(COMPILERS))
    parent, _ = nest_rows(trace.lines.first_event, trace.start, trace.duration, rows)
    rows = rows[parent < 0]
    found: list[tuple[object, ...]] = []
    for name in dict.fromkeys(trace.name[rows].tolist()):
        mine = rows[trace.name[rows] == name]
        duration = trace.duration[mine]
        inside = int(duration[timeline.step_of[mine] >= 0].sum())
        found.append((timeline.host, trace.names[name], len(mine), int(duration.sum()), inside, int(duration.max())))
    return found


def control_flow(run: Run) -> Table:
    """`CONTROL_FLOW`: conditions and loops inside graphs, longest first."""
    ops = op_metrics(run)
    wanted = np.array([t in _CONTROL for t in ops["type"].tolist()], bool)
    mine = ops.take(wanted)
    data = {
        "host": mine["host"],
        "type": mine["type"],
        "op": mine["name"],
        "count": mine["count"],
        "total_ps": mine["total_ps"],
    }
    return Table.build("control_flow", "Conditions and loops in graphs", CONTROL_FLOW, data).sorted_by("total_ps")
