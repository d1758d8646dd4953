# SPDX-License-Identifier: Apache-2.0
"""Number and size of the ops in a step: whether it consists of very many short ops, which a
compiler (`jit_compile=True`) would fuse.

The table has counts and shares, but no verdict.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace.metrics.facts.model_ops import ModelOps, model_ops
from outpace.metrics.facts.op_metrics import HOST
from outpace.metrics.facts.tf_functions import tf_functions
from outpace.model import Row, Table, TableType
from outpace.model.arrays import Picoseconds
from outpace.timeline import Run, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.timeline.work_kinds import WorkKind, classify_work
from outpace.trace import dialect

_UPDATES = ("Assign",)
_READS_AND_WRITES = 2 / 3  # share of an update's memory traffic: it reads and writes its variable, and reads the addend once
FUSIBLE_WORK = (WorkKind.ELEMENTWISE, WorkKind.CAST)  # kinds of work that compilers fuse with neighbouring ops

SMALL_OPS = TableType("small_ops", "Number and size of ops").columns("""
    * host              | text     | host of the steps
    + ops               | ratio    | ops per step that took long enough to have an event | Ops per step
    + dispatches        | ratio    | rounds of the executor per step: in each it runs one op, or several that are ready \
                                     | Executor rounds
      mean_ps           | ps       | mean length of an op | Mean op
      half_ps           | ps       | half of the time in ops is spent in ops of this length and longer | Half in ops from
      ops_share         | fraction | share of the step time inside ops | In ops, of step
      elementwise_share | fraction | share of the step time in element-wise ops, which a compiler fuses | Element-wise, of step
      written_share     | fraction | part of it that is left however they are fused: variables that they update are read, and written | \
                                     Updates, of step
      overhead_share    | fraction | share of the step time in the executor, outside ops or in ops too cheap for an event \
                                     | Executor, of step
      xla               | bool     | whether XLA compiles functions of this program already
""")


@memoize
def small_ops(run: Run) -> Table:
    """Return a table with one row per host that runs ops."""
    timelines = {t.host: t for t in run.hosts}
    rows = [_row(run, timelines[ops.host], ops) for ops in model_ops(run) if ops.side == HOST and len(ops.op_index)]
    return SMALL_OPS.build(rows)


def _row(run: Run, timeline: Timeline, ops: ModelOps) -> Row:
    durations = ops.duration[:]
    elementwise = np.fromiter((classify_work(kind) in FUSIBLE_WORK for _, kind, _ in ops.ops), bool, len(ops.ops))
    updates = np.fromiter((kind.startswith(_UPDATES) for _, kind, _ in ops.ops), bool, len(ops.ops)) & elementwise
    written = _READS_AND_WRITES * float(ops.attributed_ps[updates[ops.op_index]].sum())
    return SMALL_OPS.row(
        host=ops.host,
        ops=len(ops.op_index) / ops.step_count,
        dispatches=_dispatches(timeline) / ops.step_count,
        mean_ps=float(durations.mean()),
        half_ps=_half(durations),
        ops_share=ops.step_share(float(ops.attributed_ps.sum())),
        elementwise_share=ops.step_share(float(ops.attributed_ps[elementwise[ops.op_index]].sum())),
        written_share=ops.step_share(written),
        overhead_share=ops.step_share(ops.overhead_ps * ops.step_count),
        xla=uses_xla(run, timeline),
    )


def _half(durations: Picoseconds) -> float:
    """Return the length of op above which half of the time in ops is spent, ps.

    This is the median of ops weighted by their time, since one long op is more of a step than a
    hundred short ones.
    """
    ordered = np.sort(durations)
    before = np.cumsum(ordered.astype(np.float64))
    return float(ordered[np.searchsorted(before, before[-1] / 2)])


def _dispatches(timeline: Timeline) -> int:
    rows = timeline.event_names.rows(EventFlag.EXECUTOR)
    return int((timeline.step_index[rows] >= 0).sum())


def uses_xla(run: Run, timeline: Timeline) -> bool:
    """Whether XLA compiles functions of the host's program: its calls say so, or compiled ops
    ran.
    """
    calls = tf_functions(run)
    of_host = calls["host"] == timeline.host
    return bool(calls["xla"][of_host].sum() > 0) or len(timeline.trace.stat(dialect.HLO_OP)) > 0
