"""What was compiled, and which ops autograph made of Python's control flow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace.metrics.model.op_metrics import op_metrics
from outpace.model import Table
from outpace.timeline import Run, Timeline
from outpace.timeline.builds import jax_builds
from outpace.timeline.names import Is
from outpace.tools.functions.jitted import built, numbered
from outpace.tools.functions.schema import COMPILATIONS, CONTROL_FLOW

_CONTROL = ("If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase")


def compilations(run: Run) -> Table:
    """`COMPILATIONS`: graph building and compiling by kind of event, longest first."""
    rows = [row for t in run.hosts for row in (*_compiled(t), *built(t, run.record(t.host).get("compilations") or ()))]
    return Table.from_rows("compilations", "Graph building and compilation", COMPILATIONS, rows).sorted_by("total_ps")


def _compiled(timeline: Timeline) -> Iterator[tuple[object, ...]]:
    """TensorFlow's builds, by kind of event; and XLA's that no call of JAX holds."""
    trace = timeline.trace
    rows = timeline.names.rows(Is.BUILDS)
    parent, _ = trace.nested(rows)
    rows = rows[parent < 0]
    for build in jax_builds(timeline.trace):  # whatever thread did a part of it
        rows = rows[(trace.start[rows] < build.start) | (trace.start[rows] >= build.end)]
    for name in dict.fromkeys(trace.name[rows].tolist()):
        mine = rows[trace.name[rows] == name]
        duration, step = trace.duration[mine], timeline.step_of[mine]
        numbers = (len(mine), int(duration.sum()), int(duration[step >= 0].sum()), int(duration.max()))
        yield timeline.host, trace.names[name], "", "", *numbers, numbered(timeline, step)


def control_flow(run: Run) -> Table:
    """`CONTROL_FLOW`: conditions and loops inside graphs, longest first."""
    ops = op_metrics(run)
    wanted = np.array([t in _CONTROL for t in ops["type"].tolist()], bool)
    mine = ops.take(wanted)
    data = {"op": mine["name"], **{name: mine[name] for name in ("host", "type", "count", "total_ps")}}
    return Table.build("control_flow", "Conditions and loops in graphs", CONTROL_FLOW, data).sorted_by("total_ps")
