"""Is what a program repeats the step of its training? Set-up repeats calls too: one for each layer's first weights, one for each array.

A training that has begun goes on until the capture is over: from its first step on, steps fill most of what was captured. A function that
computes gradients is the training's, whatever comes behind it. What fills less than half and computes none is a call that happened to come
more than once. And of a call or two, and of primitives that ran by themselves, only that they fill the capture says that they are the
training's.
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
from outpace.timeline.steps import Confidence, Steps, no_steps
from outpace.trace import Trace, dialect

_MOST = 0.5  # of the time from the first step to the end of the capture
_FEWEST = 3  # whole steps: of fewer nothing shows that they come again
_UNIX = 10**17  # ns: 1973; times since the start of a capture are far below
_PS_PER_NS = 1000


def judged(trace: Trace, calls: Indices, steps: Steps, function: str) -> Steps:
    """The steps, and how sure it is that they are the training's; none where they are a repetition of something else.

    `calls`: the repeated calls (event rows), if the capture holds any, of `function`.
    """
    trained = jitted_function(function) in training_functions(trace) or bool(trains(trace, calls).any())
    if why := _no_training(trace, calls, steps, function, trained):
        return no_steps(why)
    sure = len(steps) >= _FEWEST and _filled(steps, int(steps.start[0]), trace.span[1]) >= _MOST
    return replace(steps, confidence=Confidence.HIGH if sure and not _build_each(trace, calls) else Confidence.LOW)


def _no_training(trace: Trace, calls: Indices, steps: Steps, function: str, trained: bool) -> str:
    """Why the steps are none of a training; "" where nothing says so."""
    few = int(steps.complete.sum()) < _FEWEST
    if trained and not few:
        return ""
    begin, until = _captured(trace)
    cut = open_build(trace)
    if cut is not None and not trained and cut.function != jitted_function(function):
        steady = replace(steps, builds=first_builds(trace))
        usual = steady.duration[steady.whole].sum() / max(until - int(steps.start[0]), 1)
        if usual < _MOST:
            since, took = (humanize(time, Unit.PS) for time in (cut.start - trace.span[0], until - cut.start))
            return f"the capture ended while {cut.function} was being compiled (from {since} on, {took}): it holds none of its steps"
    primitives = len(calls) > 0 and bool(names(trace).are(Is.GLUE)[trace.name[calls]].all())
    if _filled(steps, _begun(trace, begin, steps) if few or primitives else int(steps.start[0]), until) >= _MOST:
        return ""
    took, all_of_it = (humanize(int(time), Unit.PS) for time in (steps.duration.sum(), until - begin))
    what = counted(len(steps), "call")
    return (
        f"{what} of {function or 'a program'} took {took} of the {all_of_it} captured{'' if trained else ', and computed no gradients'}: "
        "the training had not begun, or was over"
    )


def _filled(steps: Steps, begin: int, until: int) -> float:
    """Share of a time, ps, that steps take."""
    return int(steps.duration.sum()) / (until - begin) if until > begin else 1.0


def _begun(trace: Trace, begin: int, steps: Steps) -> int:
    """When the program could have begun to train, ps: the begin of the capture, later by what was built before the first step."""
    built = sum(max(min(b.end, int(steps.start[0])) - max(b.start, begin), 0) for b in jax_builds(trace))
    return min(begin + built, int(steps.start[0]))


def _captured(trace: Trace) -> tuple[int, int]:
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
