"""Is what a program repeats the step of its training? Set-up repeats calls too: one for each
layer's first weights, one for each array.

A training that has begun goes on until the capture is over: from its first step on, steps fill most
of what was captured. A function that computes gradients is the training's, whatever comes behind
it; one whose name says so predicts. What fills less than half and computes none is a call that
happened to come more than once. And of a call or two, and of primitives that ran by themselves,
only that they fill the capture says that they are the training's.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from outpace.model import Unit, humanize
from outpace.model.arrays import Indices
from outpace.model.units import format_count
from outpace.timeline.builds import find_first_builds, find_jax_builds, find_unfinished_build
from outpace.timeline.event_names import EventFlag, event_names, parse_jitted_function
from outpace.timeline.gradients import find_training_functions, training_mask
from outpace.timeline.span_coverage import covered_time
from outpace.timeline.steady_state import Exclusion
from outpace.timeline.steps import Confidence, Steps, empty_steps
from outpace.trace import Trace, dialect

_MOST = 0.5  # of the time from the first step to the end of the capture
_FEWEST = 3  # whole steps: of fewer nothing shows that they come again
_UNIX = 10**17  # ns: 1973; times since the start of a capture are far below
_PS_PER_NS = 1000


def verify_training(trace: Trace, calls: Indices, steps: Steps, function: str) -> Steps:
    """The steps, and how sure it is that they are the training's; none where they are a repetition
    of something else.

    `calls`: the repeated calls (event rows), if the capture holds any, of `function`.
    """
    trained = bool(training_mask(trace, calls).any()) or parse_jitted_function(function) in find_training_functions(trace)
    if why := _no_training(trace, calls, steps, function, trained):
        return empty_steps(why)
    span = trace.span_ps[1] - int(steps.start[0])
    sure = len(steps) >= _FEWEST and int(steps.duration.sum()) >= _MOST * span
    return replace(steps, confidence=Confidence.HIGH if sure and not _build_each(trace, calls) else Confidence.LOW)


def _no_training(trace: Trace, calls: Indices, steps: Steps, function: str, trained: bool) -> str:
    """Why the steps are none of a training; "" where nothing says so."""
    few = int(steps.complete.sum()) < _FEWEST
    if (trained or steps.kind == "prediction") and not few:
        return ""
    primitives = len(calls) > 0 and bool(event_names(trace).mask(EventFlag.JAX_PRIMITIVE)[trace.name[calls]].all())
    begin, until = _capture_span(trace)
    least = min(_MOST, len(steps) / (len(steps) + 2))  # calls that the capture's begin and end cut off left no event
    if few or primitives:
        took = int(steps.duration.sum()) - (0 if trained else _build_time(trace, steps))
        span = until - begin
    else:
        took, span = _steady(replace(steps, first_builds=find_first_builds(trace)), until)
    if took >= least * span:
        return ""
    if (cut := find_unfinished_build(trace)) is not None and cut.function != parse_jitted_function(function):
        since, lasts = (humanize(time, Unit.PS) for time in (cut.start - trace.span_ps[0], until - cut.start))
        return (
            f"the capture ended while {cut.function} was being compiled (from {since} on, {lasts}): it holds none of its steps"
        )
    told, captured = (humanize(int(time), Unit.PS) for time in (steps.duration.sum(), until - begin))
    return (
        f"{format_count(len(steps), 'call')} of {function or 'a program'} took {told} of the {captured} captured"
        f"{'' if trained else ', and computed no gradients'}: the training had not begun, or was over"
    )


def _steady(steps: Steps, until: int) -> tuple[int, int]:
    """(how long steps take, of how long a time), ps: from the first that is no warm-up, without
    first builds and steps that hold them.
    """
    usual = np.array([why not in (Exclusion.WARM_UP, Exclusion.FIRST_BUILD) for why in steps.exclusions], bool)
    begin = int(steps.start[usual].min()) if usual.any() else int(steps.start[0])
    built = covered_time(steps.first_builds, np.array([begin]), np.array([until]))
    return int(steps.duration[usual].sum()), until - begin - int(built[0])


def _build_time(trace: Trace, steps: Steps) -> int:
    """How long functions were built within steps, ps, the first time or again."""
    spans = sorted((build.start, build.end) for build in find_jax_builds(trace))
    start, end = np.array(spans, np.int64).reshape(-1, 2).T
    return int(covered_time((start, end), steps.start, steps.end).sum())


def _capture_span(trace: Trace) -> tuple[int, int]:
    """When the capture began and was over, ps: it may record nothing for long."""
    environment = trace.find_plane(dialect.ENVIRONMENT_PLANE)
    stats = environment.stats if environment else {}
    began, ended = stats.get(dialect.PROFILE_START_TIME), stats.get(dialect.PROFILE_STOP_TIME)
    first, last = trace.span_ps
    if not isinstance(began, int) or not isinstance(ended, int):
        return first, last
    origin = trace.origin_ns if trace.origin_ns > _UNIX else began + trace.origin_ns
    return min(first, (began - origin) * _PS_PER_NS), max(last, (ended - origin) * _PS_PER_NS)


def _build_each(trace: Trace, calls: Indices) -> bool:
    """Whether most of the calls build what they call: no step is then like the next one."""
    built = np.isin(calls, [build.row for build in find_jax_builds(trace)])
    return bool(built.sum() > _MOST * len(calls))
