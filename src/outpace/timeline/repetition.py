"""Is what a program repeats the step of its training? Set-up repeats calls too: one for each layer's first weights, one for each array.

A training that has begun goes on until the capture is over: from its first step on, steps fill most of what was captured. A function that
computes gradients is the training's, whatever comes behind it; one whose name says so predicts. What fills less than half and computes none
is a call that happened to come more than once. And of a call or two, and of primitives that ran by themselves, only
that they fill the capture says that they are the training's.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from outpace.model import Unit, humanize
from outpace.model.arrays import Indices
from outpace.model.units import counted
from outpace.timeline.builds import first_builds, jax_builds, open_build
from outpace.timeline.gradients import training_functions, trains
from outpace.timeline.names import Is, jitted_function, names
from outpace.timeline.overlap import time_within
from outpace.timeline.steady import Aside
from outpace.timeline.steps import Confidence, Steps, no_steps
from outpace.trace import Trace, dialect

_MOST = 0.5  # of the time from the first step to the end of the capture
_FEWEST = 3  # whole steps: of fewer nothing shows that they come again
_UNIX = 10**17  # ns: 1973; times since the start of a capture are far below
_PS_PER_NS = 1000


def judge(trace: Trace, calls: Indices, steps: Steps, function: str) -> Steps:
    """The steps, and how sure it is that they are the training's; none where they are a repetition of something else.

    `calls`: the repeated calls (event rows), if the capture holds any, of `function`.
    """
    trained = bool(trains(trace, calls).any()) or jitted_function(function) in training_functions(trace)
    if why := _no_training(trace, calls, steps, function, trained):
        return no_steps(why)
    span = trace.span[1] - int(steps.start[0])
    sure = len(steps) >= _FEWEST and int(steps.duration.sum()) >= _MOST * span
    return replace(steps, confidence=Confidence.HIGH if sure and not _build_each(trace, calls) else Confidence.LOW)


def _no_training(trace: Trace, calls: Indices, steps: Steps, function: str, trained: bool) -> str:
    """Why the steps are none of a training; "" where nothing says so."""
    few = int(steps.complete.sum()) < _FEWEST
    if (trained or steps.kind == "prediction") and not few:
        return ""
    primitives = len(calls) > 0 and bool(names(trace).are(Is.GLUE)[trace.name[calls]].all())
    begin, until = _capture_span(trace)
    least = min(_MOST, len(steps) / (len(steps) + 2))  # calls that the capture's begin and end cut off left no event
    if few or primitives:
        took = int(steps.duration.sum()) - (0 if trained else _build_time(trace, steps))
        span = until - begin
    else:
        took, span = _steady(replace(steps, builds=first_builds(trace)), until)
    if took >= least * span:
        return ""
    if (cut := open_build(trace)) is not None and cut.function != jitted_function(function):
        since, lasts = (humanize(time, Unit.PS) for time in (cut.start - trace.span[0], until - cut.start))
        return (
            f"the capture ended while {cut.function} was being compiled (from {since} on, {lasts}): it holds none of its steps"
        )
    told, captured = (humanize(int(time), Unit.PS) for time in (steps.duration.sum(), until - begin))
    return (
        f"{counted(len(steps), 'call')} of {function or 'a program'} took {told} of the {captured} captured"
        f"{'' if trained else ', and computed no gradients'}: the training had not begun, or was over"
    )


def _steady(steps: Steps, until: int) -> tuple[int, int]:
    """(how long steps take, of how long a time), ps: from the first that is no warm-up, without first builds and steps that hold them."""
    usual = np.array([why not in (Aside.WARM_UP, Aside.FIRST_BUILD) for why in steps.aside], bool)
    begin = int(steps.start[usual].min()) if usual.any() else int(steps.start[0])
    built = time_within(steps.builds, np.array([begin]), np.array([until]))
    return int(steps.duration[usual].sum()), until - begin - int(built[0])


def _build_time(trace: Trace, steps: Steps) -> int:
    """How long functions were built within steps, ps, the first time or again."""
    spans = sorted((build.start, build.end) for build in jax_builds(trace))
    start, end = np.array(spans, np.int64).reshape(-1, 2).T
    return int(time_within((start, end), steps.start, steps.end).sum())


def _capture_span(trace: Trace) -> tuple[int, int]:
    """When the capture began and was over, ps: it may record nothing for long."""
    environment = trace.plane(dialect.ENVIRONMENT)
    stats = environment.stats if environment else {}
    began, ended = stats.get(dialect.PROFILE_START_TIME), stats.get(dialect.PROFILE_STOP_TIME)
    first, last = trace.span
    if not isinstance(began, int) or not isinstance(ended, int):
        return first, last
    origin = trace.origin_ns if trace.origin_ns > _UNIX else began + trace.origin_ns
    return min(first, (began - origin) * _PS_PER_NS), max(last, (ended - origin) * _PS_PER_NS)


def _build_each(trace: Trace, calls: Indices) -> bool:
    """Whether most of the calls build what they call: no step is then like the next one."""
    built = np.isin(calls, [build.row for build in jax_builds(trace)])
    return bool(built.sum() > _MOST * len(calls))
