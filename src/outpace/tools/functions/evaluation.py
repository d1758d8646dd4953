"""Functions that every step calls beside its own and that compute no gradients: an evaluation, a
sampler, a policy, a callback.
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
from outpace.timeline.event_names import normalize_function_name, parse_jitted_function
from outpace.timeline.gradients import training_mask
from outpace.timeline.step_inference import is_prediction
from outpace.trace import dialect
from outpace.trace.algorithms import distinct, intersect_indices

_MUCH = Threshold(
    "functions without gradients, of the step", 0.15, Unit.FRACTION, "our choice: a seventh of the training's time"
)
_INSTEAD = "If it makes what the step trains on, call it once"
_MORE = 2.0  # calls for each one of the functions that train, or in a step that calls it


@dataclass(frozen=True)
class _Other:
    """A function that computes no gradients: its name, how often a step that calls it does, in
    every which step that is, and its share of all steps.
    """

    name: str
    calls: float
    every: int
    share: float


def iter_findings(run: Run, program: Workload) -> Iterator[Finding]:
    """A finding for each host whose steps call such functions for much of their time."""
    for timeline in run.hosts:
        single = is_op_by_op(run, timeline.host)  # an optimizer's primitives are functions, too
        found = [] if program.is_inference or single else sorted(_others(timeline, program), key=lambda f: -f.share)
        share = min(1.0, sum(other.share for other in found))
        named = (
            not program.is_keras or find_function_call_line(run, timeline.host)[0]
        )  # what `fit` calls by itself is not the program's to save
        if share >= _MUCH.value and named:
            yield _finding(run, timeline.host, found[0], share, program)


def _others(timeline: Timeline, program: Workload) -> Iterator[_Other]:
    """Functions that steady steps call and that compute no gradients: more often than those that
    train, for what is called as often may update the weights, or several times in some of the
    steps; or as often, where their names say that they predict, or beside Keras' `fit`, which
    updates them where it trains.

    A step spends on them their calls, or, where the host waits for results, what devices compute
    for them, and the calls that run beside no other work of devices. Where only some steps make
    them, it is all from a step's first of these calls to its last: what the program does with each
    result before the next one belongs to it.
    """
    trace, steps = timeline.trace, timeline.steps
    rows = function_call_rows(timeline)
    rows = rows[np.isin(timeline.step_index[rows], steps.steady_rows)] if len(steps) else rows[:0]
    training = training_mask(trace, rows)
    if not training.any():
        return
    usual = max(int((trace.name[rows[training]] == name).sum()) for name in distinct(trace.name[rows[training]]).tolist())
    total = float(steps.duration[steps.steady_rows].sum())
    works, idle = _devices(timeline)
    for name in distinct(trace.name[rows]).tolist():
        mine = trace.name[rows] == name
        predicts = program.is_keras or is_prediction(trace.names[name])
        if training[mine].any() or not _has_products(timeline, parse_jitted_function(trace.names[name])):
            continue
        calls, every = _rhythm(timeline, rows[mine])
        in_bursts = 1 < every < len(steps.steady_rows) and calls >= _MORE  # which updates nothing: the steps between go without
        if in_bursts or mine.sum() >= (1.0 if predicts else _MORE) * usual:
            called = parse_jitted_function(trace.names[name]) or trace.names[name]
            start, end = merge_spans(trace.start[rows[mine]], trace.end[rows[mine]])
            _, begin, stop = intersect_spans(start, end, idle)
            computed = works.get(normalize_function_name(called), 0.0)
            time = max(float((end - start).sum()), computed + float((stop - begin).sum()))
            if every > 1:
                time = max(time, _in_bursts(timeline, rows[mine], rows[training]))
            yield _Other(called, calls, every, time / total)


def _in_bursts(timeline: Timeline, calls: Indices, training: Indices) -> float:
    """The time from the first to the last of some calls in each step, between two calls that train,
    ps.
    """
    trace = timeline.trace
    trained = np.searchsorted(np.sort(trace.start[training]), trace.start[calls])
    burst = np.stack((timeline.step_index[calls], trained))
    order = np.lexsort((trace.start[calls], *burst[::-1]))
    first = np.flatnonzero(np.diff(burst[:, order], axis=1, prepend=-1).any(axis=0))
    begin, end = trace.start[calls][order][first], np.maximum.reduceat(trace.end[calls][order], first)
    return float((end - begin).sum())


def _rhythm(timeline: Timeline, calls: Indices) -> tuple[float, int]:
    """(how often a step makes these calls that makes any, every how many steps one does). A mean
    tells neither: 120 calls in every 25th step are 5 in each.
    """
    whole = timeline.steps.steady_rows
    count = np.bincount(timeline.step_index[calls], minlength=len(timeline.steps))[whole]
    at = np.flatnonzero(count)
    every = round(float(np.diff(at).mean())) if len(at) > 1 else len(whole)
    return float(count[at].mean()), max(every, 1)


def _devices(timeline: Timeline) -> tuple[dict[str, float], Spans]:
    """(time in which any device computes for a jitted function in the steady steps, ps, by its
    plain name; when no device computes).
    """
    trace, module, rows = timeline.trace, timeline.trace.stat(dialect.HLO_MODULE), device_compute_rows(timeline)
    start, end = merge_spans(trace.start[rows], trace.end[rows])
    edges = np.iinfo(np.int64)
    idle = np.concatenate(([edges.min], end)), np.concatenate((start, [edges.max]))
    rows = rows[np.isin(timeline.step_index[rows], timeline.steps.steady_rows)]
    at, place = intersect_indices(rows, module.rows)
    code, texts = module.encode_texts(place)
    names = [normalize_function_name(parse_jitted_function(text)) for text in texts]
    known = {name: number for number, name in enumerate(dict.fromkeys(names))}
    function = np.array([known[name] for name in names], np.int64)[code]
    order = np.argsort(function, kind="stable")
    of_each = np.split(rows[at][order], np.searchsorted(function[order], np.arange(1, len(known))))
    times = (np.subtract(*merge_spans(trace.start[those], trace.end[those])[::-1]).sum() for those in of_each)
    return dict(zip(known, map(float, times), strict=False)), idle


def _has_products(timeline: Timeline, function: str) -> bool:
    """Whether a jitted function multiplies matrices or convolves, as every model does, as far as
    the profile holds its programs.
    """
    mine = timeline.hlo_modules.modules_of(function)
    return not mine or any(program.has_products for program in mine)


def _finding(run: Run, host: str, top: _Other, share: float, program: Workload) -> Finding:
    line, caller = find_function_call_line(run, host)  # of Keras' own loop, `fit` says nothing of its callbacks
    where = "".join((f", at {line}" * bool(line), f", called at {caller}" * bool(caller and not program.is_keras)))
    times = "once" if round(top.calls) == 1 else f"{top.calls:.0f} times"
    step, of = ("Each step", "it") if top.every == 1 else (f"Every {ordinal(top.every)} step", "the mean step")
    jax = program.framework is Framework.JAX
    table = "jit_calls" if jax else "function_calls"
    rather = "on a larger batch (jax.vmap), or in jax.lax.scan." if jax else "on a larger batch, or in the step's tf.function."
    evaluation = f"If this is an evaluation, do it every few hundred steps, or on fewer batches. {_INSTEAD} {rather}"
    return Finding(
        id="evaluates_in_steps",
        severity=Severity.HIGH,
        sentence=f"{step} also calls '{top.name}' {times}{where}, and computes no gradients there: {share:.0%} of {of}.",
        action=program.select_text(
            keras=f"Do what {line or 'the callback'} does every few hundred batches, or in on_epoch_end.",
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
        else Certainty.LIKELY,  # in a loop it may be a part of the method
        effort=Effort.SMALL,
        explains=("python_overhead",),
    )
