"""Ops that ran one by one, outside any `tf.function`.

Today's TensorFlow writes no event for the kernel of such an op, only for its dispatch (`EagerExecute` with `is_func` 0), which lasts as long as
the kernel on a CPU. Fetching from an input pipeline is no such op: it waits.
"""

from __future__ import annotations

import numpy as np

from outpace.metrics.derived import derived
from outpace.model import Field, Table, Unit
from outpace.timeline import Run, Timeline
from outpace.trace.algorithms import nest_rows

_INPUT_OPS = ("IteratorGetNext", "MakeIterator", "OptionalGetValue", "OptionalHasValue")

FIELDS = (
    Field("host", Unit.TEXT, "host that ran the ops"),
    Field("op", Unit.TEXT, "type of op; '(function)' sums up the calls of tf.functions, for comparison"),
    Field("count", Unit.COUNT, "executions in the capture"),
    Field("total_ps", Unit.PS, "time from dispatch to return", "Total"),
)
FUNCTION = "(function)"


@derived
def eager_ops(run: Run) -> Table:
    """One row per host and op type that ran by itself, longest first, and one for all function calls."""
    rows = [row for timeline in run.hosts for row in _rows(timeline)]
    return Table.from_rows("eager_ops", "Ops that ran one by one", FIELDS, rows).sorted_by("total_ps")


def _rows(timeline: Timeline) -> list[tuple[object, ...]]:
    trace = timeline.trace
    is_func, names = trace.stat("is_func"), trace.stat("eager_op")
    if len(is_func) == 0 or len(names) == 0:
        return []
    parent, _ = nest_rows(trace.lines.first_event, trace.start, trace.duration, is_func.row)
    outermost = parent < 0
    row, function = is_func.row[outermost], is_func.ints[outermost] != 0
    op_of = dict(zip(names.row.tolist(), names.texts(), strict=True))
    sums: dict[str, list[int]] = {}
    for event, is_function, time in zip(row.tolist(), function.tolist(), trace.duration[row].tolist(), strict=True):
        op = FUNCTION if is_function else op_of.get(event, "")
        if not op.startswith(_INPUT_OPS):
            known = sums.setdefault(op, [0, 0])
            known[0] += 1
            known[1] += time
    return [(timeline.host, op, count, total) for op, (count, total) in sums.items()]


def eager_share(table: Table) -> float:
    """Time of ops that ran one by one, as a share of it and the time of function calls; 0 without either."""
    total = float(np.sum(table["total_ps"]))
    function = float(np.sum(table["total_ps"][table["op"] == FUNCTION]))
    return (total - function) / total if total else 0.0
