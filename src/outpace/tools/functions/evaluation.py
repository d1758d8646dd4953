# SPDX-License-Identifier: Apache-2.0
"""Functions without gradients that steps call besides the training function: an evaluation, a
sampler, a policy or a callback.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.facts.python_lines import find_function_call_line
from outpace.metrics.facts.step_function import function_call_rows
from outpace.metrics.facts.workload import Framework, Workload
from outpace.metrics.savings.budget import build_saving
from outpace.metrics.spans import Spans, intersect_spans, merge_spans
from outpace.metrics.views.host_copies import device_compute_rows
from outpace.metrics.views.jit_calls import is_op_by_op
from outpace.model import Category, Certainty, Effort, Evidence, Finding, Severity, Threshold, Unit
from outpace.model.arrays import Indices
from outpace.model.units import ordinal
from outpace.timeline import Run, Timeline
from outpace.timeline.function_names import normalize_function_name, parse_jitted_function
from outpace.timeline.gradients import is_prediction, training_mask
from outpace.trace import dialect
from outpace.trace.algorithms import distinct, intersect_indices, isin

_MUCH = Threshold(
    "functions without gradients, of the step", 0.15, Unit.FRACTION, "our choice: a seventh of the training's time"
)
_INSTEAD = "If it makes what the step trains on, call it once"
# Minimum number of calls per call of the training functions, or in a step that makes any.
_MORE = 2.0


@dataclass(frozen=True)
class _SideFunction:
    """A function that computes no gradients.

    name: name of the function
    calls: number of calls in a step that makes any
    every: average distance between steps with such calls; 1 where every step makes them
    share: time of the function as a share of all steady steps
    """

    name: str
    calls: float
    every: int
    share: float


def iter_findings(run: Run, program: Workload) -> Iterator[Finding]:
    """Yield a finding for each host whose steps spend much of their time in functions without
    gradients.
    """
    for timeline in run.hosts:
        single = is_op_by_op(run, timeline.host)  # op by op, the optimizer's primitives look like functions, too
        functions = [] if program.is_inference or single else sorted(_side_functions(timeline, program), key=lambda f: -f.share)
        share = min(1.0, sum(other.share for other in functions))
        # The program cannot change what `fit` calls by itself.
        named = not program.is_keras or find_function_call_line(run, timeline.host)[0]
        if share >= _MUCH.value and named:
            yield _finding(run, timeline.host, functions[0], share, program)


def _side_functions(timeline: Timeline, program: Workload) -> Iterator[_SideFunction]:
    """Yield the functions without gradients that steady steps call.

    A function qualifies where steps call it at least `_MORE` times as often as the training
    functions, since a function called equally often may be the one that updates the weights; where
    it is called several times in only some of the steps; or where it is called equally often and
    its name is that of a prediction, or the program is Keras', whose `fit` updates the weights in
    the training function.

    The time of a function is that of its calls or, if longer (where the host waits for results),
    the time in which devices compute for it plus the part of its calls in which no device works.
    Where only some steps call it, it is at least the time from the first to the last of these calls
    in a step, because what the program does with each result before the next call belongs to it.
    """
    trace, steps = timeline.trace, timeline.steps
    rows = function_call_rows(timeline)
    rows = rows[isin(timeline.step_index[rows], steps.steady_rows)] if len(steps) else rows[:0]
    training = training_mask(trace, rows)
    if not training.any():
        return
    usual = max(int((trace.name[rows[training]] == name).sum()) for name in distinct(trace.name[rows[training]]).tolist())
    total = float(steps.duration[steps.steady_rows].sum())
    works, idle = _devices(timeline)
    for name in distinct(trace.name[rows]).tolist():
        mask = trace.name[rows] == name
        predicts = program.is_keras or is_prediction(trace.names[name])
        if training[mask].any() or not _has_products(timeline, parse_jitted_function(trace.names[name])):
            continue
        calls, every = _rhythm(timeline, rows[mask])
        # A function that only some steps call updates no weights: the other steps do without it.
        in_bursts = 1 < every < len(steps.steady_rows) and calls >= _MORE
        if in_bursts or mask.sum() >= (1.0 if predicts else _MORE) * usual:
            called = parse_jitted_function(trace.names[name]) or trace.names[name]
            start, end = merge_spans(trace.start[rows[mask]], trace.end[rows[mask]])
            _, begin, stop = intersect_spans(start, end, idle)
            computed = works.get(normalize_function_name(called), 0.0)
            time = max(float((end - start).sum()), computed + float((stop - begin).sum()))
            if every > 1:
                time = max(time, _burst_time(timeline, rows[mask], rows[training]))
            yield _SideFunction(called, calls, every, time / total)


def _burst_time(timeline: Timeline, calls: Indices, training: Indices) -> float:
    """Return the summed time from the first to the last call of each burst, ps.

    A burst is the calls within one step and between two training calls.
    """
    trace = timeline.trace
    trained = np.searchsorted(np.sort(trace.start[training]), trace.start[calls])
    burst = np.stack((timeline.step_index[calls], trained))
    order = np.lexsort((trace.start[calls], *burst[::-1]))
    first = np.flatnonzero(np.diff(burst[:, order], axis=1, prepend=-1).any(axis=0))
    begin, end = trace.start[calls][order][first], np.maximum.reduceat(trace.end[calls][order], first)
    return float((end - begin).sum())


def _rhythm(timeline: Timeline, calls: Indices) -> tuple[float, int]:
    """Return (mean number of calls in a step that makes any, average distance between such steps).

    A mean over all steps would hide both: 120 calls in every 25th step are 5 in each.
    """
    whole = timeline.steps.steady_rows
    count = np.bincount(timeline.step_index[calls], minlength=len(timeline.steps))[whole]
    at = np.flatnonzero(count)
    every = round(float(np.diff(at).mean())) if len(at) > 1 else len(whole)
    return float(count[at].mean()), max(every, 1)


def _devices(timeline: Timeline) -> tuple[dict[str, float], Spans]:
    """Return (device time by jitted function, spans in which no device computes).

    The first is the time in ps in which any device computes for the function in the steady steps,
    by the function's plain name.
    """
    trace, module, rows = timeline.trace, timeline.trace.stat(dialect.HLO_MODULE), device_compute_rows(timeline)
    start, end = merge_spans(trace.start[rows], trace.end[rows])
    edges = np.iinfo(np.int64)
    idle = np.concatenate(([edges.min], end)), np.concatenate((start, [edges.max]))
    rows = rows[isin(timeline.step_index[rows], timeline.steps.steady_rows)]
    at, place = intersect_indices(rows, module.rows)
    code, texts = module.encode_texts(place)
    names = [normalize_function_name(parse_jitted_function(text)) for text in texts]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    function = np.array([numbers[name] for name in names], np.int64)[code]
    order = np.argsort(function, kind="stable")
    rows_by_function = np.split(rows[at][order], np.searchsorted(function[order], np.arange(1, len(numbers))))
    times = (
        np.subtract(*merge_spans(trace.start[function_rows], trace.end[function_rows])[::-1]).sum()
        for function_rows in rows_by_function
    )
    return dict(zip(numbers, map(float, times), strict=False)), idle


def _has_products(timeline: Timeline, function: str) -> bool:
    """Whether a jitted function multiplies matrices or convolves, as every model does; True where
    the profile holds none of its programs.
    """
    programs = timeline.hlo_modules.modules_of(function)
    return not programs or any(program.has_products for program in programs)


def _finding(run: Run, host: str, top: _SideFunction, share: float, program: Workload) -> Finding:
    """Return the finding for the functions without gradients of one host; `top` is the longest of
    them.
    """
    # For Keras' own loop the caller is `fit`, which does not identify a callback.
    line, caller = find_function_call_line(run, host)
    where = "".join((f", at {line}" * bool(line), f", called at {caller}" * bool(caller and not program.is_keras)))
    times = "once" if round(top.calls) == 1 else f"{top.calls:.0f} times"
    step, of = ("Each step", "it") if top.every == 1 else (f"Every {ordinal(top.every)} step", "the mean step")
    jax = program.framework is Framework.JAX
    table = "jit_calls" if jax else "function_calls"
    rather = "on a larger batch (jax.vmap), or in jax.lax.scan." if jax else "on a larger batch, or in the step's tf.function."
    evaluation = f"Evaluate every few hundred steps, or on fewer batches, where this is an evaluation. {_INSTEAD} {rather}"
    return Finding(
        id="evaluates_in_steps",
        severity=Severity.HIGH,
        sentence=f"{step} also calls '{top.name}' {times}{where}, and computes no gradients there: {share:.0%} of {of}.",
        action=program.select_text(
            keras=f"Evaluate every few hundred batches, or in on_epoch_end: {line or 'the callback'} does so in each.",
            tensorflow=evaluation,
            jax=evaluation,
        ),
        evidence=(
            Evidence("share of the steps in functions without gradients", share, Unit.FRACTION, table),
            Evidence(f"calls of '{top.name}' in a step that makes any", top.calls, Unit.RATIO, table),
        ),
        threshold=_MUCH,
        saving=build_saving(
            share,
            *(Category.HOST_COMPUTE, Category.ALL_OTHERS),
            *((Category.DEVICE_COMPUTE_16, Category.DEVICE_COMPUTE_32) if run.has_device else ()),
            assumes="if no step called them",
        ),
        location=line,
        host=host,
        certainty=Certainty.CERTAIN
        if program.is_keras and line
        else Certainty.LIKELY,  # in the program's own loop the call may be part of the training method
        effort=Effort.SMALL,
        explains=("python_overhead",),
    )
