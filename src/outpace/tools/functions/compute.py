# SPDX-License-Identifier: Apache-2.0
"""Tables of compilations, and of the ops that autograph makes of Python's control flow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace.metrics.facts.op_metrics import op_metrics
from outpace.model import Row, Table
from outpace.timeline import Run, Timeline
from outpace.timeline.builds import find_jax_builds
from outpace.timeline.event_names import EventFlag
from outpace.tools.functions.jax_compilations import build_times, iter_compilation_rows
from outpace.tools.functions.schema import COMPILATIONS, CONTROL_FLOW

_CONTROL = ("If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase")


def compute_compilations(run: Run) -> Table:
    """Return `COMPILATIONS`: graph building and compiling by kind of event, longest first."""
    rows = [
        row
        for t in run.hosts
        for row in (*_compilation_rows(t), *iter_compilation_rows(t, run.record(t.host).get("compilations") or ()))
    ]
    return COMPILATIONS.build(rows).sort_by("total_ps")


def _compilation_rows(timeline: Timeline) -> Iterator[Row]:
    """Yield rows of `COMPILATIONS`, one per name of a build event: TensorFlow's builds, and XLA's
    builds outside of JAX calls.
    """
    trace = timeline.trace
    rows = timeline.event_names.rows(EventFlag.BUILD)
    rows = trace.find_outermost(rows)
    for build in find_jax_builds(timeline.trace):  # builds inside a JAX build are excluded on all threads
        rows = rows[(trace.start[rows] < build.start) | (trace.start[rows] >= build.end)]
    for name in dict.fromkeys(trace.name[rows].tolist()):
        name_rows = rows[trace.name[rows] == name]
        times = build_times(timeline, trace.duration[name_rows], timeline.step_index[name_rows])
        yield COMPILATIONS.row(times, host=timeline.host, event=trace.names[name], function="", source="", called="")


def compute_control_flow(run: Run) -> Table:
    """Return `CONTROL_FLOW`: conditions and loops inside graphs, longest first."""
    ops = op_metrics(run)
    mask = np.array([t in _CONTROL for t in ops["type"].tolist()], bool)
    rows = ops.take(mask)
    data = {"op": rows["name"], **{name: rows[name] for name in ("host", "type", "count", "total_ps")}}
    return CONTROL_FLOW.from_columns(data).sort_by("total_ps")
