# SPDX-License-Identifier: Apache-2.0
"""The overview's advice: categories that take too much of the step, compilation in steps, and time
between the steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from outpace._dataclass import dataclass
from outpace.metrics.facts.device_specs import DeviceSpecs
from outpace.metrics.facts.step_breakdown import StepBreakdown
from outpace.metrics.facts.step_gaps import StepGaps
from outpace.metrics.facts.workload import Workload
from outpace.metrics.savings.budget import ProfilingCost, build_category_saving, build_saving
from outpace.model import (
    OUTSIDE_STEPS,
    Category,
    Certainty,
    Effort,
    Evidence,
    Finding,
    Severity,
    Table,
    Threshold,
    Unit,
)
from outpace.model.text import format_largest_part, is_majority
from outpace.model.units import format_count
from outpace.tools.overview.compute import MeanStep, StepRate, compute_precision_shares

_XPROF = "XProf's overview page"
_HIGH_OUTPUT = Threshold("highly output-bound", 0.20, Unit.FRACTION, _XPROF)
_SOME_OUTPUT = Threshold("moderately output-bound", 0.05, Unit.FRACTION, _XPROF)
_HIGH_OTHER = Threshold("high share", 0.15, Unit.FRACTION, _XPROF)
_SOME_OTHER = Threshold("moderate share", 0.03, Unit.FRACTION, _XPROF)
_LOW_PRECISION = Threshold("low 16-bit share", 0.10, Unit.FRACTION, _XPROF)
_COMPILING = Threshold("compilation in steady state", 0.05, Unit.FRACTION, "a step that repeats has nothing left to compile")
_MOSTLY_COMPILING = Threshold("mostly compiling", 0.20, Unit.FRACTION, "our choice: four times the smallest share worth a look")
_OUTSIDE = Threshold("time between steps", 0.20, Unit.FRACTION, "our choice: a training loop that only trains has next to none")
_MOSTLY_OUTSIDE = Threshold("mostly between steps", 0.50, Unit.FRACTION, "more than in the steps themselves")
_FEW_STEPS = Threshold("iterators per step", 0.5, Unit.RATIO, "our choice: an epoch makes one, and has more than two steps")
_LEAST_STEPS = 3  # minimum number of steps for a finding on the time between them
_PROFILING_COST = Threshold("slowed by profiling", 0.10, Unit.FRACTION, "above this the shares of short events are distorted")
_LARGER = "use a larger batch, so that each kernel does more (it changes the training: compare the time per example)"
_HARDLY = Threshold("saving by 16 bits", 0.02, Unit.FRACTION, "our choice: less cannot be measured")
# Share of the time of 32-bit computation that 16 bits save at most where memory bounds it; tensor
# cores can save more.
_HALF = 0.5


@dataclass(frozen=True)
class _Rule:
    """A rule on a category that takes too much of the step.

    category: the category.
    high: threshold of a finding of high severity.
    moderate: threshold of a finding of moderate severity.
    what: what the category is, in words.
    keras: the action for Keras.
    tensorflow: the action for TensorFlow.
    jax: the action for JAX.
    compiled: the action for all frameworks where XLA compiles the whole step already; "" where it
        does not differ.
    """

    category: Category
    high: Threshold
    moderate: Threshold
    what: str
    keras: str
    tensorflow: str
    jax: str
    compiled: str = ""

    def action(self, program: Workload, xla: bool) -> str:
        """Return the action for a program, without what is in force already."""
        return (
            self.compiled
            if xla and self.compiled
            else program.select_text(keras=self.keras, tensorflow=self.tensorflow, jax=self.jax)
        )


_RULES = (
    _Rule(
        Category.OUTPUT,
        _HIGH_OUTPUT,
        _SOME_OUTPUT,
        "reading results back from the device",
        "Read losses and metrics back every few batches, not after each: steps_per_execution, or fewer callbacks with on_batch_end.",
        "Read losses and metrics back every few steps, without .numpy() or print in each, and keep tensors on the device.",
        "Fetch losses and metrics every few steps, without float(), np.asarray() or block_until_ready() in each. Keep arrays on the device.",
    ),
    _Rule(
        Category.KERNEL_LAUNCH,
        _HIGH_OTHER,
        _SOME_OTHER,
        "launching kernels while the device waits",
        f"Compile with jit_compile=True, so that kernels fuse. Or {_LARGER}.",
        f"Compile the step with XLA, so that kernels fuse: @tf.function(jit_compile=True). Or {_LARGER}.",
        f"Put the whole step under one jax.jit. Or {_LARGER}. Donate what is updated (donate_argnums).",
        f"{_LARGER.capitalize()}.",
    ),
    _Rule(
        Category.DEVICE_COLLECTIVES,
        _HIGH_OTHER,
        _SOME_OTHER,
        "collective operations between devices",
        "Overlap communication with computation, use larger batches per replica or 16-bit gradients, and look for a slow replica.",
        "Overlap communication with computation, use larger batches per replica or 16-bit gradients, and look for a slow replica.",
        "Overlap communication with computation (XLA's latency-hiding scheduler), use larger batches per device or another sharding.",
    ),
)


def iter_findings(
    breakdown: StepBreakdown,
    mean_step: MeanStep,
    functions: Table,
    program: Workload,
    device_facts: DeviceSpecs,
    python_share: float | None = None,
    half_share: float = 1.0,
    single_program: bool = False,
) -> Iterator[Finding]:
    """Yield all findings of the overview on the steady step.

    `python_share` is the share of the step in the program's own Python, outside of the step's
    function; None without samples.
    `half_share` is the part of the devices' 32-bit computation that can be shorter in 16 bits.
    `single_program` says that one JAX program does the devices' work of a step.
    """
    if mean_step.step_count:
        for rule in _RULES:
            yield from _category(rule, breakdown, mean_step, program, single_program or bool(functions["xla"].sum()))
        yield from _python(mean_step, program, python_share)
        yield from _compilation(breakdown, mean_step, functions, program)
        yield from _threads(mean_step, device_facts)
    if device_facts.names:
        yield from _low_precision(breakdown, program, device_facts, half_share)


def _category(rule: _Rule, breakdown: StepBreakdown, average: MeanStep, program: Workload, xla: bool) -> Iterator[Finding]:
    """Yield the finding of one rule, where the category takes at least the rule's moderate
    threshold.
    """
    share = average.share(rule.category)
    if share < rule.moderate.value:
        return
    high = share >= rule.high.value
    yield Finding(
        id=f"high_{rule.category.value}",
        severity=Severity.HIGH if high else Severity.MODERATE,
        sentence=f"{share:.0%} of the step time goes to {rule.what}.",
        action=rule.action(program, xla),
        evidence=(Evidence(f"{rule.category.label} share of the mean step", share, Unit.FRACTION, "average_step"),),
        threshold=rule.high if high else rule.moderate,
        saving=build_category_saving(breakdown, rule.category, f"if no step spent time on {rule.category.label.lower()}"),
    )


def _threads(average: MeanStep, devices: DeviceSpecs) -> Iterator[Finding]:
    """Yield the finding on TensorFlow's GPU thread mode, where launches are late. It is struck
    where the threads' names show that the mode is set.
    """
    share = average.share(Category.KERNEL_LAUNCH)
    if share < _SOME_OTHER.value or not devices.has_tensorflow_gpu:
        return
    yield Finding(
        id="gpu_thread_mode",
        severity=Severity.POTENTIAL,
        sentence=f"Kernel launches take {share:.0%} of the step, and share their threads with preprocessing.",
        action="Set TF_GPU_THREAD_MODE=gpu_private, so that preprocessing does not delay launches.",
        evidence=(Evidence("Kernel launch share of the mean step", share, Unit.FRACTION, "average_step"),),
        threshold=_SOME_OTHER,
        saving=build_saving(share, Category.KERNEL_LAUNCH, assumes="if launches never waited for a thread"),
        certainty=Certainty.POSSIBLE,
        effort=Effort.SMALL,
        struck="the threads are named tf_gpu_private: the mode is set already" if devices.has_private_threads else "",
    )


def _python(average: MeanStep, program: Workload, python: float | None) -> Iterator[Finding]:
    """Yield the finding on time without an event. Where samples show how much of it is the
    program's own Python, only that part can be saved by doing less Python.
    """
    share = average.share(Category.ALL_OTHERS)
    saved = share if python is None else min(share, python)
    names_lines = " 'outpace profile' names the lines." * (python is None)
    if saved < _SOME_OTHER.value:
        return
    high = share >= _HIGH_OTHER.value
    yield Finding(
        id="python_overhead",
        severity=Severity.MODERATE if high else Severity.POTENTIAL,
        sentence=f"{share:.0%} of the step time is untraced: Python overhead (training loop, callbacks), or work that was not recorded.",
        action=program.select_text(
            keras="Do less Python per batch: run on_batch callbacks, metrics and logging only every few batches. Or run several batches "
            f"per call (steps_per_execution).{names_lines}",
            tensorflow="Do less Python per step: NumPy work, logging and .numpy() only every few steps. Put the whole step into one "
            f"tf.function.{names_lines}",
            jax="Do less Python per step: NumPy work, logging and float(loss) only every few steps. Put the whole step under one jax.jit, or "
            f"run several steps per call with jax.lax.scan.{names_lines}",
        ),
        evidence=(Evidence("All others share of the mean step", share, Unit.FRACTION, "average_step"),),
        threshold=_HIGH_OTHER if high else _SOME_OTHER,
        saving=build_saving(saved, Category.ALL_OTHERS, assumes="if no step spent time in Python or untraced work"),
        certainty=Certainty.POSSIBLE,
    )


def _compilation(breakdown: StepBreakdown, average: MeanStep, functions: Table, program: Workload) -> Iterator[Finding]:
    """Yield the finding on graphs that are built and programs that are compiled within the
    steps.
    """
    share = average.share(Category.COMPILATION)
    if share < _COMPILING.value:
        return
    traced = int(functions["traced"].sum()) if len(functions) else 0
    yield Finding(
        id="compiling_in_steps",
        severity=Severity.HIGH if share >= _MOSTLY_COMPILING.value else Severity.MODERATE,
        sentence=f"{share:.0%} of the step time goes to building graphs and compiling.",
        action=program.select_text(
            keras="Keep the shapes and dtypes of batches constant (drop_remainder=True, padded_batch). Create the model and its functions "
            "once, outside the loop.",
            tensorflow="Keep the step function's arguments alike: shapes, dtypes and Python values, so that it is traced and compiled once.",
            jax="Keep shapes and dtypes constant, and create the jitted function once, outside the loop. Pass changing numbers as arrays, not "
            "as static arguments.",
        ),
        evidence=(
            Evidence("Compilation share of the mean step", share, Unit.FRACTION, "average_step"),
            *(
                (Evidence("calls that built a graph", float(traced), Unit.COUNT, "functions.function_calls"),)
                if not program.is_jax
                else ()
            ),
        ),
        threshold=_COMPILING,
        saving=build_category_saving(breakdown, Category.COMPILATION, "if nothing was built or compiled in the steps"),
        certainty=Certainty.CERTAIN,
    )


def _low_precision(breakdown: StepBreakdown, program: Workload, devices: DeviceSpecs, narrowed: float) -> Iterator[Finding]:
    """Yield the finding on a device that hardly computes in 16 bits. `narrowed` is the part of the
    32-bit computation that can be shorter in 16 bits.
    """
    shares = compute_precision_shares(breakdown)
    assumes = "if what 16 bits can make shorter of the 32-bit computation took half as long"
    saving = build_category_saving(breakdown, Category.DEVICE_COMPUTE_32, assumes, fraction=_HALF * narrowed)
    if shares is None or shares[0] >= _LOW_PRECISION.value or saving is None or saving.high < _HARDLY.value:
        return
    kind = "bfloat16" if devices.has_bfloat16 else "float16"
    yield Finding(
        id="low_16_bit_share",
        severity=Severity.POTENTIAL,
        sentence=f"Only {shares[0]:.0%} of the device's compute time uses 16-bit numbers.",
        action=program.select_text(
            keras=f"Try mixed precision: keras.mixed_precision.set_global_policy('mixed_{kind}') before the model is built.",
            tensorflow=f"Try mixed precision: compute in {kind} (tf.cast, or Keras layers under the policy 'mixed_{kind}') and keep "
            "variables in float32.",
            jax=f"Try mixed precision: compute in {kind} (jnp.{kind} activations and matmuls) and keep parameters in float32.",
        ),
        evidence=(Evidence("16-bit share of device compute time", shares[0], Unit.FRACTION, "average_step"),),
        threshold=_LOW_PRECISION,
        counter_evidence=(
            "Precision is inferred from the HLO, or from kernel names and shapes; kernels that do not show it count as 32-bit.",
        ),
        saving=saving,
        certainty=Certainty.POSSIBLE,
        effort=Effort.SMALL,
        struck="" if devices.has_tensor_cores else "this device computes no faster in 16 bits",
    )


def iter_gap_findings(step_rate: StepRate, mean_step: MeanStep, program: Workload, gaps: StepGaps | None) -> Iterator[Finding]:
    """Yield the finding on time between steps, which the step breakdown does not cover."""
    if mean_step.step_count < _LEAST_STEPS or step_rate.outside_share < _OUTSIDE.value:
        return
    what = "calls" if program.is_inference else "steps"
    yield Finding(
        id="time_outside_steps",
        severity=Severity.HIGH if step_rate.outside_share >= _MOSTLY_OUTSIDE.value else Severity.MODERATE,
        sentence=f"{step_rate.outside_share:.0%} of the time from the first step to the last is spent between the {what}{_format_gaps(gaps)}. "
        "The step breakdown does not cover it.",
        action=_advise_between(program, gaps),
        evidence=(Evidence(f"time outside of {what}", step_rate.outside_share, Unit.FRACTION, "steps"),),
        threshold=_OUTSIDE,
        location=gaps.line if gaps else "",
        saving=build_saving(step_rate.outside_share, OUTSIDE_STEPS, assumes=f"if nothing ran between the {what}")
        if gaps and (gaps.in_most_gaps or step_rate.outside_share >= _MOSTLY_OUTSIDE.value)
        else None,
        certainty=Certainty.POSSIBLE,
    )


def _advise_between(program: Workload, gaps: StepGaps | None) -> str:
    """Return what to do about time between the steps: on the line that takes it, where that is
    known, else where to look.
    """
    if program.is_inference:
        return program.select_text(
            keras="Predict once on all data, or call model(x) for single batches: each predict() call sets up a data pipeline of its own.",
            tensorflow="Gather requests into larger batches, and prepare the next one while this one runs.",
            jax="Gather requests into larger batches, and dispatch the next one before this one is fetched.",
        )
    if gaps and (action := _advise_at_line(program, gaps)):
        return action
    if gaps and is_majority(gaps.longest_call[2], gaps.share) and program.is_keras:
        return (
            "Evaluate less often or in larger batches (validation_freq, validation_batch_size), where it is validation. Else look between "
            "the steps, in the timeline of 'outpace trace', for checkpoints or callbacks."
        )
    return program.select_text(
        keras="Look between the steps, in the timeline of 'outpace trace', for validation, checkpoints or callbacks.",
        tensorflow="Look between the steps, in the timeline of 'outpace trace', for evaluation, checkpoints or next(iterator).",
        jax="Look between the steps, in the timeline of 'outpace trace', for evaluation, checkpoints or input.",
    )


def _advise_at_line(program: Workload, gaps: StepGaps) -> str:
    """Return what to do at the line that takes the time between the steps; "" where none does, it
    waits for input, or it runs the step.
    """
    # most programs have no such finding
    from outpace.metrics.actions.python_lines import LOOP_KINDS, PYTHON_ACTIONS, CallKind, Precondition, classify_calls
    from outpace.metrics.actions.table import choose_action

    kind = classify_calls(gaps.calls)
    waits = is_majority(gaps.category_shares[Category.INPUT], gaps.share)
    few_steps = kind is CallKind.FITTING and gaps.iterators >= _FEW_STEPS.value
    runs_step = gaps.calls_step and kind not in LOOP_KINDS and not few_steps
    if not gaps.line or waits or runs_step:
        return ""
    holds = {
        Precondition.CALLS_NO_STEP: not few_steps,
        Precondition.FEW_STEPS: few_steps,
        Precondition.MOST_OF_STEP: is_majority(gaps.line_share, gaps.share),
    }
    return choose_action(PYTHON_ACTIONS, kind, {need for need, held in holds.items() if held}).render(gaps.line, program)


def _format_gaps(gaps: StepGaps | None) -> str:
    """Return where the time between the steps goes, as far as it is known, as the end of a
    sentence.
    """
    if gaps is None:
        return ""
    name, count, share = gaps.longest_call
    if is_majority(share, gaps.share):
        return ", " + format_largest_part(f"in {format_count(count, 'call')} of {name}", share, gaps.share)
    top = max(gaps.category_shares, key=lambda c: gaps.category_shares[c])
    where = f", {format_largest_part(f'at {gaps.line} in {gaps.function}()', gaps.line_share, gaps.share)}" if gaps.line else ""
    if top is Category.INPUT and is_majority(gaps.category_shares[top], gaps.share):
        return f", mostly waiting for input outside the step markers{where}"
    return where


def iter_profiling_findings(host: str, cost: ProfilingCost | None) -> Iterator[Finding]:
    """Yield the finding that profiling slowed the steps."""
    if cost is None or cost.slowdown < _PROFILING_COST.value:
        return
    yield Finding(
        id="profiling_overhead",
        severity=Severity.INFO,
        sentence=f"Steps were {cost.slowdown:.0%} slower while they were profiled; shares of short events are overstated.",
        action="Trust only ratios between long events. 'outpace race' and 'outpace tune' measure without a profiler.",
        evidence=(
            Evidence(f"{cost.average} step {cost.when} profiling", cost.unprofiled_ps, Unit.PS, "hosts"),
            Evidence(f"{cost.average} step while profiling", cost.profiled_ps, Unit.PS, "hosts"),
        ),
        threshold=_PROFILING_COST,
        host=host,
    )
