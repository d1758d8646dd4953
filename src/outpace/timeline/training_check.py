# SPDX-License-Identifier: Apache-2.0
"""Check whether the repetition that was found is the step of a training. Set-up repeats calls too:
one for each layer's first weights, one for each array.

A training that has begun continues until the end of the capture: from its first step on, steps fill
most of the time. A function that computes gradients is the training's, whatever follows it; a
function whose name says so predicts. A call that fills less than half of the time and computes no
gradients is a chance repetition. One or two calls, and primitives that run by themselves, count as
the training's only where they fill the capture.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from outpace.model import Unit, humanize
from outpace.model.arrays import Indices
from outpace.model.units import format_count
from outpace.timeline.builds import find_first_builds, find_jax_builds, find_unfinished_build
from outpace.timeline.event_names import EventFlag, event_names
from outpace.timeline.function_names import normalize_function_name, parse_jitted_function
from outpace.timeline.gradients import find_training_functions, training_mask
from outpace.timeline.span_coverage import covered_time
from outpace.timeline.steady_state import Exclusion
from outpace.timeline.steps import Confidence, Steps, empty_steps
from outpace.trace import Trace, dialect
from outpace.trace.algorithms import isin

_MOST = 0.5  # minimum share of the time from the first step to the end of the capture that steps fill
_FEWEST = 3  # minimum number of whole steps; fewer do not show a repetition
_UNIX = 10**17  # time in ns (1973) above which a time is since 1970; times since the start of a capture are far below
_PS_PER_NS = 1000


def verify_training(trace: Trace, calls: Indices, steps: Steps, function: str) -> Steps:
    """Return the steps with the confidence that they are the training's; empty steps where they are
    a repetition of something else.

    calls: event rows of the repeated calls of `function`, if the capture has any.
    """
    name = normalize_function_name(parse_jitted_function(function))
    trained = bool(training_mask(trace, calls).any()) or name in find_training_functions(trace)
    if why := _no_training(trace, calls, steps, function, trained):
        return empty_steps(why)
    span = trace.span_ps[1] - int(steps.start[0])
    sure = len(steps) >= _FEWEST and int(steps.duration.sum()) >= _MOST * span
    return replace(steps, confidence=Confidence.HIGH if sure and not _build_each(trace, calls) else Confidence.LOW)


def _no_training(trace: Trace, calls: Indices, steps: Steps, function: str, trained: bool) -> str:
    """Return why the steps are not those of a training; "" where nothing contradicts it."""
    few = int(steps.complete.sum()) < _FEWEST
    if (trained or steps.kind == "prediction") and not few:
        return ""
    primitives = len(calls) > 0 and bool(event_names(trace).mask(EventFlag.JAX_PRIMITIVE)[trace.name[calls]].all())
    begin, until = _capture_span(trace)
    least = min(
        _MOST, len(steps) / (len(steps) + 2)
    )  # allows for two calls, cut off at the capture's edges, that left no event
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
    steps_time, captured = (humanize(int(time), Unit.PS) for time in (steps.duration.sum(), until - begin))
    return (
        f"{format_count(len(steps), 'call')} of {function or 'a program'} took {steps_time} of the {captured} captured"
        f"{'' if trained else ', and computed no gradients'}: the training had not begun, or was over"
    )


def _steady(steps: Steps, until: int) -> tuple[int, int]:
    """Return (time of steps, time that they should fill), ps, from the end of the warm-up on and
    without first builds.
    """
    warm_up, first_build = (
        np.array([why is kind for why in steps.exclusions], bool) for kind in (Exclusion.WARM_UP, Exclusion.FIRST_BUILD)
    )
    # A first step that the capture has in part is not judged, so that it can precede the warm-up.
    begin = int(steps.end[warm_up].max()) if warm_up.any() else int(steps.start[0])
    usual = (steps.start >= begin) & ~first_build
    built = covered_time(steps.first_builds, np.array([begin]), np.array([until]))
    return int(steps.duration[usual].sum()), until - begin - int(built[0])


def _build_time(trace: Trace, steps: Steps) -> int:
    """Return the time of builds within steps, first or repeated, in ps."""
    spans = sorted((build.start, build.end) for build in find_jax_builds(trace))
    start, end = np.array(spans, np.int64).reshape(-1, 2).T
    return int(covered_time((start, end), steps.start, steps.end).sum())


def _capture_span(trace: Trace) -> tuple[int, int]:
    """Return (begin, end) of the capture, ps. It may contain long times without events."""
    environment = trace.find_plane(dialect.ENVIRONMENT_PLANE)
    stats = environment.stats if environment else {}
    began, ended = stats.get(dialect.PROFILE_START_TIME), stats.get(dialect.PROFILE_STOP_TIME)
    first, last = trace.span_ps
    if not isinstance(began, int) or not isinstance(ended, int):
        return first, last
    origin = trace.origin_ns if trace.origin_ns > _UNIX else began + trace.origin_ns
    return min(first, (began - origin) * _PS_PER_NS), max(last, (ended - origin) * _PS_PER_NS)


def _build_each(trace: Trace, calls: Indices) -> bool:
    """Whether most of the calls build a program, so that no step is like the next one."""
    built = isin(calls, [build.row for build in find_jax_builds(trace)])
    return bool(built.sum() > _MOST * len(calls))
