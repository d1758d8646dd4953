# SPDX-License-Identifier: Apache-2.0
"""How many cores the model keeps busy, and which ops use only one.

A profile of TensorFlow on a CPU shows the threads that run ops, but not the op to which a task of
the intra-op pool belongs: only the event `ParallelFor` tells which ops use the pool. So "alone"
means that no other op ran. Outpace's own capture measures the use of the whole process
(`used_cores`: processor time per second of the window, input pipeline and Python included). Where
that is near 1 on a machine with more cores, an op that runs alone does leave cores idle.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._caching import memoize
from outpace._lazy import compile_lazily
from outpace.metrics.facts.cpu_saturation import cpu_saturation
from outpace.metrics.facts.model_ops import ModelOps, model_ops
from outpace.metrics.facts.op_metrics import HOST
from outpace.metrics.views.model_parts import located_ops
from outpace.model import Row, Table, TableType
from outpace.timeline import Run

MULTI_THREADED, SINGLE_THREADED, UNKNOWN = "several", "one", "unknown"
# Types of TensorFlow's CPU kernels that loop in one thread, and below, of those that divide their
# work (from their sources in tensorflow/core/kernels).
_ONE_THREAD = compile_lazily(
    r"Where|Unique|ScatterNd|TensorScatter|NonMaxSuppression|PyFunc|EagerPyFunc|ListDiff|Decode|ReverseSequence|StringSplit|LookupTable|"
    r"CTCLoss|MatrixTriangularSolve|Svd|Qr"
)
MULTITHREADED_OPS = compile_lazily(r"_Mkl|_Fused|MatMul|BatchMatMul|Conv|DepthwiseConv|FusedBatchNorm|MaxPool|AvgPool|Softmax")

CORE_USE = TableType("core_use", "Cores while the model computes").columns("""
    * host         | text     | host of the steps
      cores        | text     | cores that the process could use; empty where the profile does not say
    + used_cores   | cores    | processor time of the whole process per second of the capture; empty where it was not measured
    + busy_threads | cores    | mean number of threads in ops while the model computes
    + compute_ps   | ps       | time per step in which the model computes
    + alone_ps     | ps       | of it, while exactly one thread is in an op | One thread
      alone_share  | fraction | share of the model's computing in which exactly one thread is in an op | One thread, of compute
""")
LONE_OPS = TableType("lone_ops", "Ops that run alone").columns("""
      host     | text     | host of the op
      part     | text     | part of the model that the op belongs to
      source   | text     | line that made the op or its layer
      type     | text     | type of the op
      name     | text     | name of the op
      threads  | text     | whether the op divides its work: several, one or unknown
    + alone_ps | ps       | time per step in which no other op ran | Alone
    + share    | fraction | share of the step time | Of step
""")


@memoize
def core_use(run: Run) -> Table:
    """Return a table with one row per host whose model computes on its own cores."""
    used = {row["host"]: row["used_cores"] for row in cpu_saturation(run).records()}
    return CORE_USE.build(_row(run, ops, used.get(ops.host)) for ops in _on_cores(run))


@memoize
def lone_ops(run: Run) -> Table:
    """Return a table with one row per op that ran while no other op did, longest first."""
    return LONE_OPS.build(row for ops in _on_cores(run) for row in _lone(run, ops)).sort_by("alone_ps")


def _on_cores(run: Run) -> list[ModelOps]:
    with_device = {t.host for t in run.hosts if t.device_planes}
    return [ops for ops in model_ops(run) if ops.side == HOST and ops.host not in with_device]


def _row(run: Run, ops: ModelOps, used: float | None) -> Row:
    cores = run.core_count(run.by_host[ops.host])
    return CORE_USE.row(
        host=ops.host,
        cores=str(cores or ""),
        used_cores=float("nan") if used is None else used,
        busy_threads=ops.thread_ps / ops.busy_ps if ops.busy_ps else 0.0,
        compute_ps=round(ops.busy_ps),
        alone_ps=round(ops.single_thread_ps),
        alone_share=ops.single_thread_ps / ops.busy_ps if ops.busy_ps else 0.0,
    )


def _lone(run: Run, ops: ModelOps) -> Iterator[Row]:
    pooled = np.bincount(ops.op_index[ops.uses_pool], minlength=len(ops.ops)) > 0
    ran = next(rows for of, rows in located_ops(run) if of is ops)
    divided = {ops.ops[i][:2] for i in np.flatnonzero(pooled).tolist()}
    for op in ran:
        place, name, op_type, alone = op.location, op.name, op.type, op.alone_ps
        if alone > 0:
            yield LONE_OPS.row(
                place,
                host=ops.host,
                type=op_type,
                name=name,
                threads=MULTI_THREADED if (name, op_type) in divided else _threads(op_type),
                alone_ps=round(alone / ops.step_count),
                share=alone / ops.step_count / ops.step_ps if ops.step_ps else 0.0,
            )


def _threads(op_type: str) -> str:
    if _ONE_THREAD.match(op_type):
        return SINGLE_THREADED
    return MULTI_THREADED if MULTITHREADED_OPS.match(op_type) else UNKNOWN
