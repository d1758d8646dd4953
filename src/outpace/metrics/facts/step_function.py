# SPDX-License-Identifier: Apache-2.0
"""The functions that form a step: tf.functions or jitted functions that are called in every
step.
"""

from __future__ import annotations

from outpace.model.arrays import Indices
from outpace.timeline import Timeline
from outpace.timeline.event_names import EventFlag
from outpace.timeline.gradients import training_mask
from outpace.timeline.jitted_calls import find_jitted_calls
from outpace.trace import dialect
from outpace.trace.algorithms import distinct, isin, union_rows

_MOST_STEPS = 0.5  # minimum share of the steps in which a function of the step runs


def function_call_rows(timeline: Timeline) -> Indices:
    """Return the rows of all calls of tf.functions and of functions that JAX jitted, sorted.

    JAX's own primitives are left out.
    """
    trace = timeline.trace
    jitted = find_jitted_calls(trace)
    jitted = jitted[~timeline.event_names.mask(EventFlag.JAX_PRIMITIVE)[trace.name[jitted]]]
    return union_rows(trace.stat(dialect.TF_FUNCTION_CALL).rows, jitted)


def step_function_rows(timeline: Timeline) -> Indices:
    """Return the rows of the calls of the functions that form the step.

    These are tf.functions or jitted functions that run in most steps and take at least half as long
    as the longest of them. Where some are known to compute gradients, only those count.
    """
    trace, steps = timeline.trace, timeline.steps
    rows = union_rows(trace.stat(dialect.TF_FUNCTION_CALL).rows, find_jitted_calls(trace))
    rows = rows[isin(timeline.step_index[rows], steps.steady_rows)]
    time: dict[int, int] = {}
    for name in distinct(trace.name[rows]).tolist():
        calls = rows[trace.name[rows] == name]
        if len(distinct(timeline.step_index[calls])) >= _MOST_STEPS * len(steps.steady_rows):
            time[name] = int(trace.duration[calls].sum())
    glue = timeline.event_names.mask(EventFlag.JAX_PRIMITIVE)
    functions = {name: took for name, took in time.items() if not glue[name]}
    time = _training(timeline, rows, functions or time)
    longest = max(time.values(), default=0)
    chosen = [name for name, took in time.items() if took >= longest / 2]
    result: Indices = rows[isin(trace.name[rows], chosen)]
    return result


def _training(timeline: Timeline, rows: Indices, time: dict[int, int]) -> dict[int, int]:
    """Return the functions that compute gradients, or all where none of them is known to.

    time: time of each function by name, ps

    An evaluation, which computes no gradients, may take longer than the training's function.
    """
    if len(time) < 2:
        return time
    training = set(timeline.trace.name[rows[training_mask(timeline.trace, rows)]].tolist())
    return {name: took for name, took in time.items() if name in training} or time
