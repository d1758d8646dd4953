# SPDX-License-Identifier: Apache-2.0
"""Ops that compute in float64, or in 16 bits where a processor has no instructions for that: by the
types in a compiled program, in the graphs that a capture saw, or of the arrays that TensorFlow
allocated for an op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set

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
from outpace.trace.algorithms import intersect_indices, isin

_DENSE = (WorkKind.MATMUL, WorkKind.CONVOLUTION, WorkKind.ATTENTION)
_DT_DOUBLE, _DT_HALF, _DT_BFLOAT16 = 2, 19, 14  # of `DataType` in tensorflow/core/framework/types.proto

_IN_TEXTS = {_DT_DOUBLE: "f64", _DT_HALF: "f16", _DT_BFLOAT16: "bf16"}  # as a capture's texts of graphs have them
_COLUMNS = """
      host    | text     | host that ran the op
      part    | text     | layer or line that it belongs to
      source  | text     | file and line that made it
      op      | text     | type of op
      product | bool     | whether it is a matrix product, a convolution or an attention | Product
    + time_ps | ps       | time per step | Per step
    + share   | fraction | share of the step time | Of step
"""
DOUBLE_OPS = TableType("double_ops", "Ops in float64").columns(_COLUMNS)
HALF_OPS = TableType("half_ops", "Ops in 16 bits without instructions").columns(_COLUMNS)


@memoize
def float64_ops(run: Run) -> Table:
    """Return a table with one row per host, part and op, the largest share first."""
    rows = [*_compiled_rows(run), *_framework_rows(run, DOUBLE_OPS, lambda host: {_DT_DOUBLE})]
    return DOUBLE_OPS.build(rows).sort_by("share")


@memoize
def emulated_half_ops(run: Run) -> Table:
    """Return a table with one row per host, part and op of TensorFlow that a processor computes in
    a type of 16 bits for which it has no instructions, the largest share first.

    No processor of today has float16 in TensorFlow's kernels; whether one has bfloat16 is known
    from the capture's record alone.
    """

    def types(host: str) -> set[int]:
        record = run.record(host)
        return {_DT_HALF} | ({_DT_BFLOAT16} if "cpu_flags" in record and not record["cpu_flags"] else set())

    return HALF_OPS.build(() if run.has_device else _framework_rows(run, HALF_OPS, types)).sort_by("share")


def _compiled_rows(run: Run) -> Iterator[Row]:
    for row in hlo_source_lines(run).records():
        if row["bits"] == DOUBLE:
            name, product = short_op_name(row["op"], row["product"]), bool(row["product"])
            yield DOUBLE_OPS.row(row, part=row["source"] or row["op"], op=name, product=product)


def _framework_rows(run: Run, table: TableType, types: Callable[[str], Set[int]]) -> Iterator[Row]:
    """Yield the rows of TensorFlow's ops that take or make arrays of some types, by host."""
    on_device = {ops.host for ops, _ in located_ops(run) if ops.side == DEVICE}
    for ops, ran in located_ops(run):
        is_main = (ops.side == DEVICE) == (ops.host in on_device)
        chosen = types(ops.host) if is_main else set()
        names = _ops_with_results(run.by_host[ops.host], chosen)
        words, find_text = tuple(f" {_IN_TEXTS[number]}[" for number in chosen), _text_finder(run, ops.host)
        for op in ran:
            text = find_text(op.name)
            is_of_type = op.name in names or any(word in text for word in words)
            if is_of_type and not op.type.islower() and ops.step_ps:
                time = op.wall_ps + op.overhead_ps
                yield table.row(
                    op.location,
                    host=ops.host,
                    op=op.type,
                    product=classify_work(op.type, op.name) in _DENSE,
                    time_ps=round(time / ops.step_count),
                    share=ops.step_share(time),
                )


def _text_finder(run: Run, host: str) -> Callable[[str], str]:
    """Return a function that returns the text of an op's graph by the op's name; "" where it is not
    known.
    """
    if not (run.record(host).get("graph_shapes") or {}).get("texts"):
        return lambda name: ""
    from outpace.metrics.facts.graph_costs import graph_costs  # most profiles have no graphs

    costs = graph_costs(run).get(host)
    return costs.find_text if costs is not None else lambda name: ""


def _ops_with_results(timeline: Timeline, types: Set[int]) -> set[str]:
    """Return the names of the ops for whose results arrays of some types were allocated."""
    trace = timeline.trace
    kind, op = trace.stat(dialect.DATA_TYPE), trace.stat(dialect.TF_OP)
    allocated = timeline.event_names.mask(EventFlag.ALLOCATION)[trace.name[kind.rows]]
    at, _ = intersect_indices(op.rows, kind.rows[allocated & isin(kind.ints, sorted(types))])
    return set(op.encode_texts(at)[1])
