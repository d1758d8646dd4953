# SPDX-License-Identifier: Apache-2.0
"""Calls of `tf.function`s: how often each was called, traced (built anew) and executed, and its
time.

The stat `tf_function_call` of a call event is `traced-nonXla`, `notTraced-xla`, `eager`, ...;
`tracing_count` is the number of graphs that the function has by then. The meaning is that of
`xplane_to_tf_functions.cc` of openxla/xprof: time is self time among function calls on the same
thread.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._caching import memoize
from outpace.model import Row, Table, TableType
from outpace.timeline import Run, Timeline
from outpace.trace import dialect
from outpace.trace.algorithms import distinct

FUNCTION_CALLS = TableType("function_calls", "tf.function calls").columns("""
    * host         | text  | host of the calls
    * function     | text  | name of the tf.function
    + calls        | count | calls in the capture
    + traced       | count | calls that built a new graph (tracing) before they ran
    + eager        | count | calls that ran op by op, without a graph
    + xla          | count | calls compiled by XLA
      graphs       | count | graphs that the function had at its last call
    + total_ps     | ps    | time in the calls, inner function calls left out
    + traced_ps    | ps    | of it, in calls that built a graph | Tracing time
    + expensive_ps | ps    | of it, in calls that built a graph or ran op by op | Traced or eager
""")


@memoize
def tf_functions(run: Run) -> Table:
    """Return a table with one row per host and function, longest first (`FUNCTION_CALLS`)."""
    return FUNCTION_CALLS.build(row for timeline in run.hosts for row in _rows(timeline)).sort_by("total_ps")


def _rows(timeline: Timeline) -> Iterator[Row]:
    trace = timeline.trace
    stat = trace.stat(dialect.TF_FUNCTION_CALL)
    if len(stat) == 0:
        return
    _, time = trace.compute_nesting(stat.rows)
    mode, modes = stat.encode_texts(np.arange(len(stat)))
    traced, eager, xla = (
        np.array(kind, bool)[mode]
        for kind in zip(*((text.startswith("traced"), text == "eager", text.endswith("-xla")) for text in modes), strict=True)
    )
    graphs = trace.stat(dialect.TRACING_COUNT).take_ints(stat.rows, 0)
    names = trace.name[stat.rows]
    for name in distinct(names):
        mask = names == name
        calls = {"calls": mask, "traced": mask & traced, "eager": mask & eager, "xla": mask & xla}
        times = {"total_ps": mask, "traced_ps": mask & traced, "expensive_ps": mask & (traced | eager)}
        yield FUNCTION_CALLS.row(
            {column: int(rows.sum()) for column, rows in calls.items()}
            | {column: int(time[rows].sum()) for column, rows in times.items()},
            host=timeline.host,
            function=trace.names[name],
            graphs=int(graphs[mask].max()),
        )
