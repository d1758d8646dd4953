# SPDX-License-Identifier: Apache-2.0
"""Ops that compute in float64, by the types in a compiled program or of the arrays that TensorFlow
allocated for an op.
"""

from __future__ import annotations

from collections.abc import Iterator

from outpace._caching import memoize
from outpace.metrics.facts.hlo_instructions import hlo_source_lines, short_op_name
from outpace.metrics.facts.op_metrics import DEVICE
from outpace.metrics.views.model_parts import located_ops
from outpace.model import Row, Table, TableType
from outpace.timeline import Run, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.timeline.hlo.precision import DOUBLE
from outpace.timeline.work_kinds import WorkKind, classify_work
from outpace.trace import dialect
from outpace.trace.algorithms import intersect_indices

_DENSE = (WorkKind.MATMUL, WorkKind.CONVOLUTION, WorkKind.ATTENTION)
_DT_DOUBLE = 2  # DT_DOUBLE of `DataType` in tensorflow/core/framework/types.proto

DOUBLE_OPS = TableType("double_ops", "Ops in float64").columns("""
      host    | text     | host that ran the op
      part    | text     | layer or line that it belongs to
      source  | text     | file and line that made it
      op      | text     | type of op
      product | bool     | whether it is a matrix product, a convolution or an attention | Product
    + time_ps | ps       | time per step | Per step
    + share   | fraction | share of the step time | Of step
""")


@memoize
def float64_ops(run: Run) -> Table:
    """Return a table with one row per host, part and op, the largest share first."""
    rows = [*_compiled_rows(run), *_framework(run)]
    return DOUBLE_OPS.build(rows).sort_by("share")


def _compiled_rows(run: Run) -> Iterator[Row]:
    for row in hlo_source_lines(run).records():
        if row["bits"] == DOUBLE:
            name, product = short_op_name(row["op"], row["product"]), bool(row["product"])
            yield DOUBLE_OPS.row(row, part=row["source"] or row["op"], op=name, product=product)


def _framework(run: Run) -> Iterator[Row]:
    on_device = {ops.host for ops, _ in located_ops(run) if ops.side == DEVICE}
    for ops, ran in located_ops(run):
        names = _double_ops(run.by_host[ops.host]) if (ops.side == DEVICE) == (ops.host in on_device) else set()
        for op in ran:
            if op.name in names and not op.type.islower() and ops.step_ps:
                time = op.wall_ps + op.overhead_ps
                yield DOUBLE_OPS.row(
                    op.location,
                    host=ops.host,
                    op=op.type,
                    product=classify_work(op.type, op.name) in _DENSE,
                    time_ps=round(time / ops.step_count),
                    share=ops.step_share(time),
                )


def _double_ops(timeline: Timeline) -> set[str]:
    """Return the names of the ops for whose results float64 arrays were allocated."""
    trace = timeline.trace
    kind, op = trace.stat(dialect.DATA_TYPE), trace.stat(dialect.TF_OP)
    allocated = timeline.event_names.mask(EventFlag.ALLOCATION)[trace.name[kind.rows]]
    at, _ = intersect_indices(op.rows, kind.rows[allocated & (kind.ints == _DT_DOUBLE)])
    return set(op.encode_texts(at)[1])
