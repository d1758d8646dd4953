# SPDX-License-Identifier: Apache-2.0
"""The model's time by kind of work: a row per kind of op and part, so that what repeats in many
layers adds up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from outpace._caching import memoize
from outpace.metrics.facts.hlo_instructions import DEVICE_SIDE as ON_DEVICE
from outpace.metrics.facts.hlo_instructions import attention_ops, hlo_source_lines, short_op_name
from outpace.metrics.facts.model_ops import COMPILED, ModelOps
from outpace.metrics.facts.op_locations import LAYER
from outpace.metrics.facts.op_metrics import DEVICE, HOST
from outpace.metrics.facts.roofs import NO_ROOF_BOUNDS
from outpace.metrics.facts.workload import find_workload
from outpace.metrics.views.model_parts import LocatedOp, TimeAboveRoof, located_ops, op_locators, work_kind
from outpace.model import Row, Table, TableType
from outpace.timeline import Run
from outpace.timeline.work_kinds import WorkKind

MODEL_WORK = TableType("model_work", "Kinds of work").columns("""
      host    | text     | host that ran the model
      side    | text     | Host (threads) or Device (accelerators)
      work    | text     | kind of op: convolutions, matrix products, casts, ...
      part    | text     | layer, line or scope, as in the table of parts
      source  | text     | file and line that made it
    + self_ps | ps       | time per step in such ops of the part, with the executor's around them | Per step
    + share   | fraction | share of the step time | Of step
      top_op  | text     | op that takes the largest part of it
      top_op_ps | ps     | time per step of that op | Top op time
    + count   | ratio    | op executions per step | Ops per step
      half    | bool     | whether most of it computes in 16 bits, as far as is known | 16 bits
      above_ps | ps      | time per step above the roofs of its ops; empty where they are not known for most of its time | Above roof
""")
_HALF = 16  # bits
WAITING_OPCODES = ("-done", "-start", "send", "recv", "infeed", "outfeed")
"""Ends of HLO opcodes that wait and compute nothing."""


@memoize
def model_work(run: Run) -> Table:
    """Return a table with one row per host, side, kind of work and part, the largest share
    first.
    """
    rows = list(_compiled_rows(run)) if find_workload(run).is_jax else []
    rows = rows or [row for ops, ran in located_ops(run) for row in _rows(ops, ran)]
    return MODEL_WORK.build(rows).sort_by("share")


def _rows(ops: ModelOps, ran: tuple[LocatedOp, ...]) -> Iterator[Row]:
    sums: dict[tuple[WorkKind, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    top: dict[tuple[WorkKind, str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    above: dict[tuple[WorkKind, str, str], TimeAboveRoof] = defaultdict(TimeAboveRoof)
    for op in ran:
        if op.type != COMPILED:
            key = (work_kind(op.location, op.type, op.name), op.location.part, op.location.source)
            sums[key][0] += op.wall_ps + op.overhead_ps
            sums[key][1] += op.count
            above[key].add(op)
            # An opcode such as `fusion` says nothing about the work.
            top[key][op.name.rpartition("/")[2] if op.type.islower() else op.type] += op.wall_ps
    for key, (time, executions) in sums.items():
        work, part, source = key
        longest = max(top[key], key=top[key].__getitem__)
        yield MODEL_WORK.row(
            host=ops.host,
            side=ops.side,
            work=work.value,
            part=part,
            source=source,
            self_ps=round(time / ops.step_count),
            share=ops.step_share(time),
            top_op=longest,
            top_op_ps=round(top[key][longest] / ops.step_count),
            count=executions / ops.step_count,
            half=False,
            above_ps=above[key].per_step(ops),
        )


def _compiled_rows(run: Run) -> Iterator[Row]:
    """Yield the rows of a JAX program, whose compiled ops have lines and layers of their own.

    Shares of ops that ran concurrently are scaled to the step.
    """
    for host, places in op_locators(run).items():
        if not len(run.by_host[host].steps):  # without steps there is nothing to take a share of
            continue
        rows = [
            row
            for row in hlo_source_lines(run).filter_by("host", host).records()
            if not row["opcode"].endswith(WAITING_OPCODES)
        ]
        whole = max(1.0, sum(row["share"] for row in rows))
        steps = max(len(run.by_host[host].steps.steady_rows), 1)
        for row in rows:
            place = places.locate(row["op"], row["opcode"], row["source"])
            attends = (host, row["op"], row["source"]) in attention_ops(run)
            work = WorkKind.ATTENTION if attends else work_kind(place, row["product"] or row["opcode"], row["op"])
            yield MODEL_WORK.row(
                host=host,
                side=DEVICE if row["side"] == ON_DEVICE else HOST,
                work=work.value,
                part=place.part if place.kind == LAYER else row["source"] or row["op"],
                source=place.source if place.kind == LAYER else row["source"],
                self_ps=row["time_ps"],
                share=row["share"] / whole,
                top_op=short_op_name(row["op"], row["product"]),
                top_op_ps=row["time_ps"],
                count=row["count"] / steps,
                half=row["bits"] == _HALF,
                above_ps=row["above_ps"] if row["bound"] not in NO_ROOF_BOUNDS else float("nan"),
            )
