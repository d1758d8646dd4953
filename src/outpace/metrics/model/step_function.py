"""The functions that make a step: a tf.function, or a jitted one, called in every step."""

from __future__ import annotations

import numpy as np

from outpace.model.arrays import Indices
from outpace.timeline import Timeline
from outpace.timeline.calls import jitted_calls
from outpace.timeline.gradients import trains
from outpace.timeline.names import Is
from outpace.trace import dialect
from outpace.trace.algorithms import any_of, distinct

_MOST_STEPS = 0.5  # of the steps, in which a function must run to make them


def function_calls(timeline: Timeline) -> Indices:
    """Event rows of all calls of tf.functions and of functions that JAX jitted, its own primitives left out; sorted."""
    trace = timeline.trace
    jitted = jitted_calls(trace)
    jitted = jitted[~timeline.names.are(Is.GLUE)[trace.name[jitted]]]
    return any_of(trace.stat(dialect.TF_FUNCTION_CALL).row, jitted)


def step_function_calls(timeline: Timeline) -> Indices:
    """Event rows of the calls of the functions that make the step: tf.functions or jitted ones that run in most steps and take at least half
    as long as the longest of them. Where some are known to compute gradients, only those."""
    trace, steps = timeline.trace, timeline.steps
    rows = any_of(trace.stat(dialect.TF_FUNCTION_CALL).row, jitted_calls(trace))
    rows = rows[np.isin(timeline.step_of[rows], steps.whole)]
    time: dict[int, int] = {}
    for name in distinct(trace.name[rows]).tolist():
        mine = rows[trace.name[rows] == name]
        if len(distinct(timeline.step_of[mine])) >= _MOST_STEPS * len(steps.whole):
            time[name] = int(trace.duration[mine].sum())
    glue = timeline.names.are(Is.GLUE)
    own = {name: took for name, took in time.items() if not glue[name]}
    time = _training(timeline, rows, own or time)
    longest = max(time.values(), default=0)
    chosen = [name for name, took in time.items() if took >= longest / 2]
    found: Indices = rows[np.isin(trace.name[rows], chosen)]
    return found


def _training(timeline: Timeline, rows: Indices, time: dict[int, int]) -> dict[int, int]:
    """The functions (by name, with their time) that compute gradients, if any of several is known to: an evaluation may take longer."""
    if len(time) < 2:
        return time
    training = set(timeline.trace.name[rows[trains(timeline.trace, rows)]].tolist())
    return {name: took for name, took in time.items() if name in training} or time
