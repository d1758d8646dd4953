# SPDX-License-Identifier: Apache-2.0
"""Ops that ran one by one, outside any `tf.function`.

Today's TensorFlow records no event for the kernel of such an op, only for its dispatch
(`EagerExecute` with `is_func` 0), which lasts as long as the kernel on a CPU. Ops that fetch from
an input pipeline are left out: they wait.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.model import Row, Table, TableType
from outpace.timeline import Run, Timeline
from outpace.trace import dialect

_ONE_CALL_PS = 100e6  # ps: minimum cost of one function call, which replaces all these ops
_INPUT_OPS = ("IteratorGetNext", "MakeIterator", "OptionalGetValue", "OptionalHasValue")

EAGER_OPS = TableType("eager_ops", "Ops that ran one by one").columns("""
    * host       | text  | host that ran the ops
    * op         | text  | type of op; '(function)' sums up the calls of tf.functions, for comparison
    + count      | count | executions in the capture
    + total_ps   | ps    | time from dispatch to return | Total
    + step_ps    | ps    | of it, in steps of the steady state | In steps
    + step_count | count | executions in steps of the steady state | Calls in steps
      steps      | count | steps of the steady state in which it ran
""")
# Maximum cost of dispatching an op, ps; simple ops take 20 to 50 us today, their gradients twice
# as long.
MAX_DISPATCH_PS = 200e6
_ALONE_PS = 500e6  # ps: maximum cost of running an op by itself: dispatch, new memory for its outputs, and cold caches
_USUAL = 0.5  # minimum share of the steps in which an op must run to belong to the step; a rare summary does not
_SUMS = ("count", "total_ps", "step_ps", "step_count")
FUNCTION_ROW = "(function)"


@memoize
def eager_ops(run: Run) -> Table:
    """Return a table with one row per host and op type that ran by itself, longest first.

    The row `FUNCTION_ROW` sums up all function calls.
    """
    return EAGER_OPS.build(row for timeline in run.hosts for row in _rows(timeline)).sort_by("total_ps")


def _rows(timeline: Timeline) -> list[Row]:
    trace = timeline.trace
    is_func, names = trace.stat(dialect.IS_FUNC), trace.stat(dialect.EAGER_OP)
    if len(is_func) == 0 or len(names) == 0:
        return []
    parent, _ = trace.compute_nesting(is_func.rows)
    outermost = parent < 0
    row, function = is_func.rows[outermost], is_func.ints[outermost] != 0
    op_of = dict(zip(names.rows.tolist(), names.texts(), strict=True))
    steady = set(timeline.steps.steady_rows.tolist())
    rows: dict[str, Row] = {}
    op_steps: dict[str, set[int]] = {}
    times, steps = trace.duration[row].tolist(), timeline.step_index[row].tolist()
    for event, is_function, time, step in zip(row.tolist(), function.tolist(), times, steps, strict=True):
        op = FUNCTION_ROW if is_function else op_of.get(event, "")
        if op.startswith(_INPUT_OPS):
            continue
        sums = rows.setdefault(op, dict.fromkeys(_SUMS, 0))
        sums["count"] += 1
        sums["total_ps"] += time
        if step in steady:
            sums["step_ps"] += time
            sums["step_count"] += 1
            op_steps.setdefault(op, set()).add(step)
    return [EAGER_OPS.row(row, host=timeline.host, op=op, steps=len(op_steps.get(op, ()))) for op, row in rows.items()]


@dataclass(frozen=True)
class EagerShare:
    """How much of the steady steps runs op by op.

    op_share: these ops' share of the time of ops and function calls
    step_share: these ops' share of the steps' time
    dispatch_share: upper bound of the cost of dispatching these ops one by one, as a share of the
        steps' time; the remainder is the ops' own work, which a graph does too
    standalone_share: upper bound of the cost of running these ops by themselves, as a share of the
        steps' time
    function_share: function calls' share of the steps' time
    max_share: upper bound of what a graph can save, as a share of the steps' time: all but the
        minimum cost of one call per step
    """

    op_share: float
    step_share: float
    dispatch_share: float
    standalone_share: float = 0.0
    function_share: float = 0.0
    max_share: float = 1.0


def compute_eager_share(table: Table, run: Run) -> EagerShare:
    """Return the share of ops that run one by one in most of the steps; all 0 where there are none.

    table: result of `eager_ops`
    """
    ops = functions = time = dispatch = alone = calls = 0.0
    for timeline in run.hosts:
        whole = timeline.steps.steady_rows
        rows = table.take(table["host"] == timeline.host)
        usual = (rows["steps"] >= _USUAL * len(whole)) & (rows["steps"] > 0)
        is_function = rows["op"] == FUNCTION_ROW
        ops += float(rows["step_ps"][usual & ~is_function].sum())
        one_by_one = usual & ~is_function
        dispatch, alone = (
            total + float(np.minimum(rows["step_ps"], rows["step_count"] * most)[one_by_one].sum())
            for total, most in ((dispatch, MAX_DISPATCH_PS), (alone, _ALONE_PS))
        )
        functions += float(rows["step_ps"][is_function].sum())
        time += float(timeline.steps.duration[whole].sum())
        calls += _ONE_CALL_PS * len(whole)
    if not ops or not time:
        return EagerShare(0.0, 0.0, 0.0)
    share, dispatched, alone, called = (min(1.0, part / time) for part in (ops, dispatch, alone, functions))
    return EagerShare(ops / (ops + functions), share, dispatched, alone, called, max(0.0, 1 - calls / time))
