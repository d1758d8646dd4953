"""The overview's advice: categories that take too much of the step, retracing, and the capture's own cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from outpace._dataclass import dataclass
from outpace.metrics.step_breakdown import StepBreakdown
from outpace.model import (
    Category,
    Evidence,
    Finding,
    Severity,
    Table,
    Threshold,
    Unit,
    bootstrap_saving,
    median,
    prediction,
)
from outpace.tools.overview.compute import Average, Pace, precision

_XPROF = "XProf's overview page"
_HIGH_OUTPUT = Threshold("highly output-bound", 0.20, Unit.FRACTION, _XPROF)
_SOME_OUTPUT = Threshold("moderately output-bound", 0.05, Unit.FRACTION, _XPROF)
_HIGH_OTHER = Threshold("high share", 0.15, Unit.FRACTION, _XPROF)
_SOME_OTHER = Threshold("moderate share", 0.03, Unit.FRACTION, _XPROF)
_LOW_PRECISION = Threshold("low 16-bit share", 0.10, Unit.FRACTION, _XPROF)
_MOSTLY_COMPILING = 0.20
_COMPILING = Threshold("compilation in steady state", 0.05, Unit.FRACTION, "a step that repeats has nothing left to compile")
_OUTSIDE = Threshold("time between steps", 0.20, Unit.FRACTION, "our choice: a training loop that only trains has next to none")
_MOSTLY_OUTSIDE = 0.5
_LEAST_STEPS = 3
_SLOWED = Threshold("slowed by profiling", 0.10, Unit.FRACTION, "above this the shares of short events are distorted")


@dataclass(frozen=True)
class _Rule:
    category: Category
    high: Threshold
    moderate: Threshold
    what: str
    action: str
    knobs: tuple[str, ...]


_RULES = (
    _Rule(
        Category.OUTPUT,
        _HIGH_OUTPUT,
        _SOME_OUTPUT,
        "reading results back from the device",
        "Read losses and metrics back every few steps instead of every step, and keep tensors on the device.",
        ("metrics_every_n",),
    ),
    _Rule(
        Category.KERNEL_LAUNCH,
        _HIGH_OTHER,
        _SOME_OTHER,
        "launching kernels while the device waits",
        "Set TF_GPU_THREAD_MODE=gpu_private so that preprocessing does not delay launches; compile with jit_compile=True, "
        "or run several steps per call with steps_per_execution.",
        ("gpu_thread_mode", "jit_compile", "steps_per_execution"),
    ),
    _Rule(
        Category.DEVICE_COLLECTIVES,
        _HIGH_OTHER,
        _SOME_OTHER,
        "collective operations between devices",
        "Overlap communication with computation, use larger batches per replica or 16-bit gradients, and look for a slow replica.",
        ("batch_size", "mixed_precision"),
    ),
)


def find(breakdown: StepBreakdown, average: Average, functions: Table, has_device: bool, unlinked: bool) -> Iterator[Finding]:
    """All findings of the overview. `unlinked`: worker threads compute in the time that no event of a step explains."""
    if average.rows:
        for rule in _RULES:
            yield from _category(rule, breakdown, average)
        if not unlinked:
            yield from _python(breakdown, average)
        yield from _compilation(breakdown, average, functions)
    if has_device:
        yield from _low_precision(breakdown)


def _category(rule: _Rule, breakdown: StepBreakdown, average: Average) -> Iterator[Finding]:
    share = average.share(rule.category)
    if share < rule.moderate.value:
        return
    high = share >= rule.high.value
    yield Finding(
        id=f"high_{rule.category.value}",
        severity=Severity.HIGH if high else Severity.MODERATE,
        sentence=f"{share:.0%} of the step time goes to {rule.what}.",
        action=rule.action,
        evidence=(Evidence(f"{rule.category.label} share of the mean step", share, Unit.FRACTION, "average_step"),),
        threshold=rule.high if high else rule.moderate,
        **_saving(breakdown, rule.category),
        knobs=rule.knobs,
    )


def _saving(breakdown: StepBreakdown, category: Category) -> dict[str, Any]:
    """What a step saves if it spends no time on a category: in ps, and as a share of the mean step."""
    bound = f"if no step spent time on {category.label.lower()} (Amdahl's bound; 95 % interval over the steps)"
    return prediction(*bootstrap_saving(breakdown.category(category), breakdown.whole["duration_ps"], bound))


def _python(breakdown: StepBreakdown, average: Average) -> Iterator[Finding]:
    share = average.share(Category.ALL_OTHERS)
    if share < _SOME_OTHER.value:
        return
    high = share >= _HIGH_OTHER.value
    yield Finding(
        id="python_overhead",
        severity=Severity.MODERATE if high else Severity.POTENTIAL,
        sentence=f"{share:.0%} of the step time has no recognised event: Python between calls, callbacks, or work that was not traced.",
        action="Minimise host Python between steps: fewer callbacks, metrics every few steps, the step in one tf.function, "
        "or several steps per call with steps_per_execution. Capture with --python-level 1 to see which Python it is.",
        evidence=(Evidence("All others share of the mean step", share, Unit.FRACTION, "average_step"),),
        threshold=_HIGH_OTHER if high else _SOME_OTHER,
        counter_evidence=(
            "Several steps per call can save more: what each call costs inside of the framework has events, and counts as host compute.",
        ),
        **_saving(breakdown, Category.ALL_OTHERS),
        knobs=("steps_per_execution",),
    )


def _compilation(breakdown: StepBreakdown, average: Average, functions: Table) -> Iterator[Finding]:
    share = average.share(Category.COMPILATION)
    if share < _COMPILING.value:
        return
    traced = int(functions["traced"].sum()) if len(functions) else 0
    yield Finding(
        id="compiling_in_steps",
        severity=Severity.HIGH if share >= _MOSTLY_COMPILING else Severity.MODERATE,
        sentence=f"{share:.0%} of the step time goes to building graphs and compiling.",
        action="Keep shapes, dtypes and Python arguments of the step function constant, so that it is traced and compiled once; "
        "capture after a warm-up.",
        evidence=(
            Evidence("Compilation share of the mean step", share, Unit.FRACTION, "average_step"),
            Evidence("calls that built a graph", float(traced), Unit.COUNT, "function_calls"),
        ),
        threshold=_COMPILING,
        **_saving(breakdown, Category.COMPILATION),
        knobs=("input_signature",),
    )


def _low_precision(breakdown: StepBreakdown) -> Iterator[Finding]:
    shares = precision(breakdown)
    if shares is None or shares[0] >= _LOW_PRECISION.value:
        return
    yield Finding(
        id="low_16_bit_share",
        severity=Severity.POTENTIAL,
        sentence=f"Only {shares[0]:.0%} of the device's compute time uses 16-bit numbers.",
        action="Try mixed precision: keras.mixed_precision.set_global_policy('mixed_bfloat16') (or 'mixed_float16') before the model is built.",
        evidence=(Evidence("16-bit share of device compute time", shares[0], Unit.FRACTION, "average_step"),),
        threshold=_LOW_PRECISION,
        counter_evidence=("The precision is told from kernel names and shapes; kernels that hide it count as 32-bit.",),
        knobs=("mixed_precision",),
    )


def outside(pace: Pace, average: Average, predicts: bool) -> Iterator[Finding]:
    """Whether much of the time lies between steps, where the breakdown does not look."""
    if average.rows < _LEAST_STEPS or pace.outside < _OUTSIDE.value:
        return
    what = "calls" if predicts else "steps"
    action = (
        "Each predict() call sets up a data pipeline of its own: predict once on all data, or call model(x) for single batches."
        if predicts
        else "Look at what runs there with 'outpace trace': evaluation, checkpoints, callbacks, or next(iterator) outside the step mark."
    )
    yield Finding(
        id="time_outside_steps",
        severity=Severity.HIGH if pace.outside >= _MOSTLY_OUTSIDE else Severity.MODERATE,
        sentence=f"{pace.outside:.0%} of the time from the first step to the last lies between the {what}, which the breakdown does not cover.",
        action=action,
        evidence=(Evidence(f"time outside of {what}", pace.outside, Unit.FRACTION, "steps"),),
        threshold=_OUTSIDE,
        knobs=("metrics_every_n",),
    )


def overhead(host: str, before: Sequence[float], during: Sequence[float]) -> Iterator[Finding]:
    """Whether profiling slowed the steps (ns per step before and while profiling)."""
    if len(before) < 2 or len(during) < 2:
        return
    slower = median(during) / median(before) - 1
    if slower < _SLOWED.value:
        return
    yield Finding(
        id="profiling_overhead",
        severity=Severity.INFO,
        sentence=f"Steps were {slower:.0%} slower while they were profiled; shares of short events are overstated.",
        action="Capture with a lower --host-level, or trust ratios between long events only.",
        evidence=(
            Evidence("median step before profiling", median(before) * 1000, Unit.PS, "overhead"),
            Evidence("median step while profiling", median(during) * 1000, Unit.PS, "overhead"),
        ),
        threshold=_SLOWED,
        host=host,
    )
