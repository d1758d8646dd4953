"""Ops that compute in float64: by the types of a compiled program, or of the arrays that TensorFlow allocated for an op."""

from __future__ import annotations

from collections.abc import Iterator

from outpace._once import derived
from outpace.metrics.model.hlo_lines import hlo_lines, last_name
from outpace.metrics.model.model_parts import placed_ops
from outpace.metrics.model.op_metrics import DEVICE
from outpace.model import Table, schema
from outpace.timeline import Run, Timeline
from outpace.timeline.hlo_meaning import DOUBLE
from outpace.timeline.names import Is, Work, work_of
from outpace.trace import dialect
from outpace.trace.algorithms import common

_DENSE = (Work.MATMUL, Work.CONVOLUTION, Work.ATTENTION)
_DT_DOUBLE = 2  # of `DataType` in tensorflow/core/framework/types.proto

FIELDS = schema("""
      host    | text     | host that ran the op
      part    | text     | layer or line that it belongs to
      source  | text     | file and line that made it
      op      | text     | type of op
      product | bool     | whether it is a matrix product, a convolution or an attention | Product
    + time_ps | ps       | time per step | Per step
    + share   | fraction | share of the step time | Of step
""")


@derived
def double_ops(run: Run) -> Table:
    """One row per host, part and op, the largest first."""
    rows = [*_compiled(run), *_framework(run)]
    return Table.from_rows("double_ops", "Ops in float64", FIELDS, rows).sorted_by("share")


def _compiled(run: Run) -> Iterator[tuple[object, ...]]:
    for row in hlo_lines(run).records():
        if row["bits"] == DOUBLE:
            name, product = last_name(row["op"], row["product"]), bool(row["product"])
            yield row["host"], row["source"] or row["op"], row["source"], name, product, row["time_ps"], row["share"]


def _framework(run: Run) -> Iterator[tuple[object, ...]]:
    on_device = {ops.host for ops, _ in placed_ops(run) if ops.side == DEVICE}
    for ops, ran in placed_ops(run):
        names = _of_double(run.by_host[ops.host]) if (ops.side == DEVICE) == (ops.host in on_device) else set()
        for place, name, op_type, _, wall, overhead, _ in ran:
            if name in names and not op_type.islower() and ops.step_ps:
                time, product = wall + overhead, work_of(op_type, name) in _DENSE
                yield ops.host, place.part, place.source, op_type, product, round(time / ops.steps), ops.of_step(time)


def _of_double(timeline: Timeline) -> set[str]:
    """Names of the ops for whose results float64 was allocated."""
    trace = timeline.trace
    kind, op = trace.stat(dialect.DATA_TYPE), trace.stat(dialect.TF_OP)
    allocated = timeline.names.are(Is.ALLOCATION)[trace.name[kind.row]]
    at, _ = common(op.row, kind.row[allocated & (kind.ints == _DT_DOUBLE)])
    return set(op.codes(at)[1])
