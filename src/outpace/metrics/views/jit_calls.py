# SPDX-License-Identifier: Apache-2.0
"""How many jitted functions a step of a JAX program calls.

In a program that runs op by op, every primitive is a jitted function of its own.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace.metrics.views.eager_ops import MAX_DISPATCH_PS
from outpace.model import Row, Table, TableType, median
from outpace.model.arrays import Indices
from outpace.timeline import Run, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.timeline.gradients import find_training_functions
from outpace.timeline.jitted_calls import find_jitted_calls
from outpace.trace.algorithms import distinct, isin

MIN_CALLS_OP_BY_OP = 20  # calls per step; one jitted step, the conversion of a batch and some glue are fewer

JIT_CALLS = TableType("jit_calls", "Calls of jitted functions").columns("""
    * host           | text     | host of the calls
    + calls          | ratio    | calls of jitted functions in the usual step (median over the steady state), nested ones left \
                                  out | Calls per step
      kinds          | count    | different functions among them | Functions
    + picks          | ratio    | of these calls, those that take a part out of an array (`x[i]`) | Indexing calls
    + call_ps        | ps       | time per step from call to return | Call time
      fetch_share    | fraction | of the step, fetches of values to the host; the longest of each step, which waits for it, left \
                                  out | Fetches, of step
      dispatch_share | fraction | of the step, at most what dispatching them one by one costs | Dispatch, of step
""")


@memoize
def jit_calls(run: Run) -> Table:
    """Return a table with one row per host whose steps call jitted functions."""
    return JIT_CALLS.build(row for timeline in run.hosts if (row := _row(timeline)) is not None)


def is_op_by_op(run: Run, host: str) -> bool:
    """Whether a step of this host makes so many calls that its work is not in one jitted
    function.
    """
    return any(row["host"] == host and row["calls"] >= MIN_CALLS_OP_BY_OP for row in jit_calls(run).records())


@memoize
def compiled_training_hosts(run: Run) -> frozenset[str]:
    """Return the hosts that called a compiled function which computes gradients.

    The step of such a host does not run op by op, whatever else it calls.
    """
    return frozenset(timeline.host for timeline in run.hosts if find_training_functions(timeline.trace))


def _row(timeline: Timeline) -> Row | None:
    trace, steps = timeline.trace, timeline.steps
    rows = trace.find_outermost(find_jitted_calls(trace))
    if len(rows) == 0 or len(steps) == 0:
        return None
    rows = rows[isin(timeline.step_index[rows], steps.steady_rows)]
    count = len(steps.steady_rows)
    total = float(steps.duration[steps.steady_rows].sum())
    if len(rows) == 0 or total <= 0:
        return None
    dispatch = float(np.minimum(trace.duration[rows], MAX_DISPATCH_PS).sum())
    picks = timeline.event_names.mask(EventFlag.INDEXING_PRIMITIVE)[trace.name[rows]]
    return JIT_CALLS.row(
        host=timeline.host,
        calls=_median_count(timeline, rows),
        kinds=len(distinct(trace.name[rows])),
        picks=_median_count(timeline, rows[picks]),
        call_ps=round(int(trace.duration[rows].sum()) / count),
        fetch_share=min(1.0, _fetch_times(timeline) / total),
        dispatch_share=min(1.0, dispatch / total),
    )


def _fetch_times(timeline: Timeline) -> float:
    """Return the time in the steady steps in which values were fetched, ps, without each step's
    longest fetch.
    """
    trace, steps = timeline.trace, timeline.steps
    rows = timeline.event_names.rows(EventFlag.ARRAY_FETCH)
    rows = rows[isin(timeline.step_index[rows], steps.steady_rows)]
    longest = np.zeros(len(steps), np.int64)
    np.maximum.at(longest, timeline.step_index[rows], trace.duration[rows])
    return float(trace.duration[rows].sum() - longest.sum())


def _median_count(timeline: Timeline, rows: Indices) -> float:
    """Return the median number of these events per steady step.

    The median leaves out what few steps do, such as a checkpoint of many leaves.
    """
    steps = timeline.steps
    return median(np.bincount(timeline.step_index[rows], minlength=len(steps))[steps.steady_rows])
