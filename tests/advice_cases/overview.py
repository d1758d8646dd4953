"""Categories of the step, time between steps, and captures that carry no conclusion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from outpace.metrics.facts import tf_functions
from outpace.metrics.facts.device_specs import DeviceSpecs
from outpace.metrics.facts.hlo_instructions import InstructionStats, instruction_stats
from outpace.metrics.facts.input_pipelines import pipelines
from outpace.metrics.facts.model_ops import model_ops
from outpace.metrics.facts.partial_steps import partial_step_reason
from outpace.metrics.facts.step_breakdown import StepBreakdown
from outpace.metrics.facts.step_gaps import StepGaps
from outpace.metrics.facts.workload import Framework, Workload
from outpace.metrics.savings.budget import profiling_cost
from outpace.metrics.views import host_time, jit_calls
from outpace.model import OUTSIDE_STEPS, Category, Finding, Severity, Table
from outpace.testing import GpuBuilder, SpaceBuilder, training_run
from outpace.timeline import Run
from outpace.timeline.hlo.cost import product_cost
from outpace.timeline.hlo.ops import HloOp
from outpace.timeline.steady_state import Exclusion
from outpace.tools.overview import capture_findings, step_overheads, unsteady_steps
from outpace.tools.overview import findings as rules
from outpace.tools.overview.compute import StepRate, compute_mean_step
from outpace.trace import Trace, read_trace
from tests.advice_cases.build import HOST, MS, STEP, breakdown, computes, run, table, trace_of
from tests.advice_cases.case import JAX, TENSORFLOW, Case, Find, about, fires, silent, worded
from tests.advice_cases.tf_data import pipeline_of, staged
from tests.support import DATA

_GPU = ("/device:GPU:0",)
H100 = DeviceSpecs(_GPU, 9.0, False, True)
P100 = DeviceSpecs(_GPU, 6.0, False, True)
PRIVATE = DeviceSpecs(_GPU, 9.0, True, True)
ONLY_HOST = DeviceSpecs((), None, False, False)


def _steps(
    shares: Mapping[Category, float],
    program: Workload = TENSORFLOW,
    devices: DeviceSpecs = ONLY_HOST,
    python: float | None = None,
    xla: int = 0,
    narrowed: float = 1.0,
) -> Find:
    steps = breakdown(shares)
    functions = table("function_calls", tf_functions.FUNCTION_CALLS, {"function": "step", "traced": 2, "xla": xla})
    return lambda: rules.iter_findings(steps, compute_mean_step(steps), functions, program, devices, python, narrowed)


def _half(share: float, program: Workload = TENSORFLOW, devices: DeviceSpecs = H100, narrowed: float = 1.0) -> Find:
    """Of a step, 60% computes on the device, `share` of that in 16 bits; of the rest a part can be
    `narrowed`.
    """
    shares = {Category.DEVICE_COMPUTE_16: 0.6 * share, Category.DEVICE_COMPUTE_32: 0.6 * (1 - share)}
    return _steps(shares, program, devices, narrowed=narrowed)


def _between(
    share: float,
    steps: int = 10,
    program: Workload = TENSORFLOW,
    often: bool = True,
    waits: float = 1.0,
    called: float = 0.0,
    calls: tuple[str, ...] = (),
    calls_step: bool = False,
    iterators: float = 0.0,
) -> Find:
    """Time between steps, `waits` of which waits for input; a tenth is compiling where the rest is
    not. A function is `longest_call` for a part; the line with the time calls functions (`calls`).
    """
    parts = {Category.INPUT: waits, Category.COMPILATION: min(0.1, 1 - waits)}
    gaps = StepGaps(share, {c: share * parts.get(c, 0.0) for c in Category}, often, "train.py:30", "main", 0.6 * share)
    gaps = replace(
        gaps,
        longest_call=("multi_step_on_iterator", 1250, called * share),
        calls=calls,
        calls_step=calls_step,
        iterators=iterators,
    )
    mean = compute_mean_step(breakdown(steps=steps))
    return lambda: rules.iter_gap_findings(StepRate(10.0, 0.0, share), mean, program, gaps)


def _slowed(by: float, before: int = 3, during: int = 3, lengths: Sequence[float] = ()) -> Find:
    """Steps that took `by` longer while they were profiled; of `lengths`, in steps of 10 ms."""
    samples = [1e6] * before, [1e6 * (1 + by)] * during
    record = {"overhead": {"before_ns": samples[0], "during_ns": samples[1]}}
    of = run(None, record, *([_trace(lengths, [()] * len(lengths))] if lengths else []))
    return lambda: rules.iter_profiling_findings("vm", profiling_cost(of, of.hosts[0]))


def _stalled(
    times: Sequence[float],
    extra: Category | Sequence[Category] = Category.HOST_COMPUTE,
    program: Workload = TENSORFLOW,
    others: float = 0.0,
) -> Find:
    """Steps of these lengths, in steps of 10 ms, while other programs use so many of four cores."""
    record = {"cpu_count": 4, "window": {"seconds": 1.0, "cpu_seconds": 1.0, "machine_busy": (1.0 + others) / 4}}
    of = run(None, record if others else None, _trace(times, [()] * len(times)))
    why = [reason.value for reason in of.hosts[0].steps.exclusions]
    steps = breakdown(times=[round(time * STEP) for time in times], extra=extra, aside=why)
    return lambda: unsteady_steps.iter_findings(of, steps, program)


def _slow_calls(
    slow: Sequence[Sequence[float]], other: str = "", where: Sequence[int] = (3, 9, 10), lasts: float = 2.0
) -> Find:
    """Three of 16 steps take 40 ms instead of 10 ms, at no period, in calls of the step's function
    of these lengths. The steps `where` hold an event called `other` from 8 ms on, for `lasts` steps
    of 10 ms where there is room.
    """
    times = [4.0 if at in (3, 9, 10) else 1.0 for at in range(16)]
    inside = iter(slow)
    trace = _trace(
        times, [next(inside) if time > 1 else [0.5] for time in times], dict.fromkeys(where, (other, lasts)) if other else {}
    )
    of = run(None, None, trace)
    why = [reason.value for reason in of.hosts[0].steps.exclusions]
    steps = breakdown(times=[round(time * STEP) for time in times], extra=Category.HOST_COMPUTE, aside=why)
    return lambda: unsteady_steps.iter_findings(of, steps, TENSORFLOW)


def _growing(first: float, last: float, count: int = 40, jitter: float = 0.02) -> list[float]:
    return [first + (last - first) * at / (count - 1) + jitter * (-1) ** at for at in range(count)]


@cache
def _of(kind: str) -> Run:
    if kind == "damaged":
        return Run.from_traces([read_trace((DATA / "broken" / "truncated.xplane.pb").read_bytes(), "vm")])
    space = SpaceBuilder("vm")
    plane = space.plane("/host:CPU")
    if kind == "no steps":
        plane.line("python").event("something", 0, MS).event("something", 3 * MS, MS)
    return Run.from_traces([read_trace(space.to_bytes(), "vm")])


def _capture(kind: str, program: Workload = TENSORFLOW) -> Find:
    return lambda: capture_findings.iter_findings(run() if kind == "good" else _of(kind), program)


def _rounds(times: Sequence[float], extra: Category = Category.ALL_OTHERS, program: Workload = TENSORFLOW) -> Find:
    """Steps of these lengths, in steps of 10 ms; what is beyond goes to `extra`."""
    steps = breakdown(times=[round(time * STEP) for time in times], extra=extra)
    of = run(None, None, trace_of(len(times)))
    return lambda: (f for f in unsteady_steps.iter_findings(of, steps, program) if f.id == "periodic_cost")


def _trace(
    lengths: Sequence[float], calls: Sequence[Sequence[float]], other: Mapping[int, tuple[str, float]] | None = None
) -> Trace:
    """Steps of these lengths, in steps of 10 ms; in each, calls of the step's function of these
    lengths; and in some of them another event.
    """
    space = SpaceBuilder(HOST)
    line = space.plane("/host:CPU").line("python")
    at = 0
    for number, (length, inside) in enumerate(zip(lengths, calls, strict=True)):
        line.event("train", at, round(length * STEP), step_num=number, _r=1)
        began = at
        for call in inside:
            line.event("step", began, round(call * STEP), tf_function_call="notTraced-nonXla")
            began += round(call * STEP)
        if other and number in other:
            name, lasts = other[number]
            line.event(name, at + STEP * 4 // 5, round(min(lasts, length - 0.8) * STEP))
        at += round(length * STEP)
    return read_trace(space.to_bytes(), HOST)


def _computes(usual: Sequence[float], slow: Sequence[float]) -> Find:
    """Every fifth step takes twice as long, for computation on the host: calls of the step's
    function of these lengths.
    """
    times = _every(5, 4, 2.0)
    steps = breakdown(times=[round(time * STEP) for time in times], extra=Category.HOST_COMPUTE)
    of = run(None, None, _trace(times, [slow if time > 1 else usual for time in times]))
    return lambda: (f for f in unsteady_steps.iter_findings(of, steps, TENSORFLOW) if f.id == "periodic_cost")


def _every(period: int, count: int, slow: float) -> list[float]:
    return ([1.0] * (period - 1) + [slow]) * count


def _aside(why: Exclusion, program: Workload = TENSORFLOW, extra: Category = Category.COMPILATION) -> Find:
    steps = breakdown(times=[5 * STEP, *[STEP] * 9], extra=extra, aside=[why.value, *[""] * 9])
    of = run()
    return lambda: (f for f in unsteady_steps.iter_findings(of, steps, program) if f.id == "set_aside")


def _mixed(most: float) -> Find:
    """A first step whose length beyond the others is `most` compiling, the rest in equal parts two
    other categories.
    """
    parts = {Category.COMPILATION: most, Category.INPUT: (1 - most) / 2, Category.OUTPUT: (1 - most) / 2}
    steps = breakdown(times=[5 * STEP, *[STEP] * 9], aside=[Exclusion.WARM_UP.value, *[""] * 9])
    columns = {f"{c.value}_ps": [round(part * 4 * STEP), *[0] * 9] for c, part in parts.items()}
    data = {f.name: columns.get(f.name, steps.steps[f.name]) for f in steps.steps.fields}
    data["all_others_ps"] = [0] * 10
    mixed = StepBreakdown(Table.build("steps", "Steps", steps.steps.fields, data), steps.steps_per_execution)
    of = run()
    return lambda: (f for f in unsteady_steps.iter_findings(of, mixed, TENSORFLOW) if f.id == "set_aside")


def _category(category: Category, own: tuple[str, str, str], high: float, some: float, near: float) -> list[Case]:
    rule = f"high_{category.value}"
    keras, tensorflow, jax = own
    lower = high * 0.65  # between the two limits, and beyond half of the higher one
    return [
        *worded(
            rule,
            lambda program: _steps({category: high * 1.5}, program)(),
            Severity.HIGH,
            keras=keras,
            tensorflow=tensorflow,
            jax=jax,
            saves=about(high * 1.5),
            takes_from=(category.value,),
        ),
        fires(
            rule,
            "below the high limit",
            _steps({category: lower}),
            Severity.MODERATE,
            saves=about(lower),
            takes_from=(category.value,),
        ),
        fires(rule, "little", _steps({category: some}), Severity.MODERATE, saves=about(some), takes_from=(category.value,)),
        silent(rule, "less", _steps({category: near})),
    ]


def _called(
    share: float,
    step: int = STEP,
    ops: float = 0.6,
    program: Workload = TENSORFLOW,
    single: bool = False,
    ahead: bool = False,
    part: str = host_time.DISPATCH,
    python: float = 0.0,
) -> Find:
    """Steps of which `part` takes `share`, and ops run in `ops`; a fifth waits for input, and the
    input runs Python for `python` of them.
    """
    rows = table(
        "host_time",
        host_time.HOST_TIME,
        {"part": host_time.OPS, "share": ops, "usual": ops},
        {"part": part, "share": share, "usual": share},
    )
    took = python * step / MS
    mine = pipeline_of([staged("Prefetch", 0.0, -1), staged("Generator", took, 0, runs_python=True)], took, step=step)
    jitted = table("jit_calls", jit_calls.JIT_CALLS, *([{"calls": 30.0}] if single else []))
    trace = read_trace(training_run(steps=10, step_ps=step, input_ps=step // 5, ops=(), hostname=HOST).to_bytes(), HOST)
    of = run(
        {host_time.host_time: rows, model_ops: computes(ops), jit_calls.jit_calls: jitted, pipelines: (mine,)}, None, trace
    )
    vars(of.hosts[0])["steps"] = replace(of.hosts[0].steps, async_dispatch=ahead)
    return lambda: step_overheads.iter_findings(of, program)


def _stopped(lengths: Sequence[float], step: float = 10.0, program: Workload = TENSORFLOW, inside: bool = True) -> Find:
    """Steps of `step` ms, in which the thread stops for `lengths` ms behind a call."""
    space = SpaceBuilder(HOST)
    line = space.plane("/host:CPU").line("python")
    for number, length in enumerate(lengths):
        at, stops = round(number * step * MS), round(length * MS)
        line.event("train", at, round(step * MS), step_num=number, _r=1)
        if inside:
            call, rest = round(step * MS) // 4, round(step * MS) - stops
            line.event("tf.constant", at, call)
            line.event("convert_to_tensor", at + call + stops, rest - call)
    of = run(None, None, read_trace(space.to_bytes(), HOST))
    return lambda: (f for f in step_overheads.iter_findings(of, program) if f.id == "even_stops")


def _awaited(lengths: Sequence[float], behind: Sequence[float], covered: float = 1.0, program: Workload = JAX) -> Find:
    """Steps of 10 ms, in which the thread stops for `lengths` ms; a device works for a part
    `covered` of each stop, up to `behind` ms before its end.
    """
    space = SpaceBuilder(HOST)
    line = space.plane("/host:CPU").line("python")
    gpu = GpuBuilder(space, line)
    for number, (length, late) in enumerate(zip(lengths, behind, strict=True)):
        at, stops, works = number * 10 * MS, round(length * MS), round((length - late) * MS)
        line.event("train", at, 10 * MS, step_num=number, _r=1)
        line.event("tf.constant", at, MS)
        lasts = round(covered * works)
        gpu.kernel("gemm", at + MS + works - lasts, lasts, called=at + MS // 2)
        line.event("convert_to_tensor", at + MS + stops, 9 * MS - stops)
    data = space.to_bytes()

    def found() -> Iterator[Finding]:
        of = run(None, None, read_trace(data, HOST))  # a run keeps its waits
        return (f for f in step_overheads.iter_findings(of, program) if f.id == "waits_in_calls")

    return found


def _exchanged(transfer: float, waits: float = 0.1, workers: int = 2) -> Find:
    """Workers that train together, in steps of 10 ms: all spend `transfer` of each in a collective,
    and all but the last `waits` more.
    """
    traces = []
    for number in range(workers):
        space = SpaceBuilder(f"worker{number}")
        line = space.plane("/host:CPU").line("python")
        for step in range(6):
            spends = transfer + waits * (number < workers - 1)
            line.event("train", step * STEP, STEP, step_num=step, _r=1)
            line.event("dense/MatMul:MatMul", step * STEP, round((1 - spends) * STEP))
            line.event("CollectiveReduceV2:CollectiveReduceV2", (step + 1) * STEP - round(spends * STEP), round(spends * STEP))
        traces.append(read_trace(space.to_bytes(), f"worker{number}"))
    of = run(None, None, *traces)
    return lambda: (f for f in step_overheads.iter_findings(of, TENSORFLOW) if f.id == "exchange_cost")


def _replicated(*scopes: str) -> Find:
    ops = [(f"{scope}dense/MatMul", "MatMul", MS) for scope in scopes]
    of = run(None, None, read_trace(training_run(steps=4, ops=ops, hostname=HOST).to_bytes(), HOST))
    return lambda: (f for f in step_overheads.iter_findings(of, TENSORFLOW) if f.id == "replicas_share_cores")


def _products(count: int) -> Find:
    """A benchmark of products of 2, 4, ... GFLOP, each in a millisecond per step."""
    ops = (HloOp("custom-call", cost=product_cost((at + 1) * 2e9)) for at in range(count))
    ran = tuple(InstructionStats("device", op, MS, 0.1, 10, 10) for op in ops)
    of = run({partial_step_reason: "they differ", instruction_stats: {HOST: ran}})
    return lambda: capture_findings.iter_findings(of, JAX)


_WAITS = (6.0, 6.4, 5.6, 6.8, 6.0, 5.2, 6.2)  # as the device's work varies
_SLEEPS = (6.0, 6.02, 5.98, 6.02, 5.98, 6.0, 6.02)
_LATE = (0.5, 0.52, 0.48, 0.54, 0.5, 0.46, 0.52)
_BESIDE = tuple(5.5 + late for late in _LATE)
_UNEVEN_ENDS = (0.5, 0.7, 0.3, 0.7, 0.5, 0.3, 0.7)
_EVEN = (2.0, 2.02, 2.04, 2.01, 2.03, 2.0)
_CALLS: dict[str, Any] = {"takes_from": ("host_compute",)}
_BETWEEN: dict[str, Any] = {"location": "train.py:30", "takes_from": (OUTSIDE_STEPS,)}
_PYTHON: dict[str, Any] = {"takes_from": ("all_others",)}
_MIXED = [1, 1, 5, *[1] * 8, 4, *[1] * 5, 6, *[1] * 11, 21, *[1] * 10]  # of 10 ms: one compiles, three compute
_BUILT = [Category.COMPILATION if time == 21 else Category.HOST_COMPUTE for time in _MIXED]
CASES: list[Case] = [
    *worded(
        "per_call_cost",
        lambda program: _called(0.3, program=program)(),
        Severity.MODERATE,
        keras="steps_per_execution=16",
        tensorflow="tf.while_loop",
        jax="jax.lax.scan",
        saves=about(0.3),
        **_CALLS,
    ),
    fires("per_call_cost", "60% of the step", _called(0.6), Severity.HIGH, saves=about(0.6), **_CALLS),
    silent("per_call_cost", "15% of the step", _called(0.15)),
    silent("per_call_cost", "the executor: it is paid per op", _called(0.3, part=host_time.EXECUTOR)),
    *(
        fires(
            "per_call_cost",
            f"Python of the input takes {python:.0%}",
            _called(0.3, python=python),
            Severity.MODERATE,
            saves=about(0.3),
        )
        for python in (0.1, 0.2)
    ),
    silent("per_call_cost", "of a JAX program that runs op by op", _called(0.3, program=JAX, single=True)),
    silent(
        "per_call_cost", "of a JAX program that runs ahead: its calls hold no step up", _called(0.3, program=JAX, ahead=True)
    ),
    fires(
        "per_call_cost",
        "steps of 2 ms in which ops run for a third",
        _called(0.15, 2 * MS, 0.33),
        Severity.MODERATE,
        saves=about(0.47),  # a fifth waits for input
        takes_from=("host_compute", "all_others"),
    ),
    silent("per_call_cost", "steps of 4 ms, where the same has other reasons", _called(0.15, 4 * MS, 0.33)),
    fires(
        "per_call_cost",
        "of predictions by Keras, the adapter's work included",
        _called(0.15, 2 * MS, 0.33, Workload(Framework.KERAS, is_inference=True)),
        Severity.HIGH,
        saves=about(0.67),
        takes_from=("host_compute", "all_others", "input"),
        says=("predict(..., batch_size=1024)",),
        never=("steps_per_execution", "training"),
    ),
    *worded(
        "even_stops",
        lambda program: _stopped([2.5] * 6, program=program)(),
        Severity.HIGH,
        keras="callbacks",
        tensorflow="long Python in the loop",
        jax="long Python in the loop",
        saves=about(0.25),
        takes_from=("all_others",),
    ),
    fires(
        "even_stops",
        "2 ms, by 2% more or less, and in one step for longer",
        _stopped((*_EVEN, 5.0), 15.0),
        Severity.MODERATE,
        saves=about(0.133),
        says=("2.00 ms between tf.constant and convert_to_tensor", "6 of 7 steps"),
    ),
    fires("even_stops", "by 4% more or less", _stopped((1.94, 2.02, 2.1) * 2, 12.0), Severity.MODERATE, saves=about(0.162)),
    silent("even_stops", "by 8% more or less", _stopped((1.85, 2.0, 2.16, 1.84, 2.0, 2.17))),
    silent("even_stops", "in half of the steps", _stopped((2.0, 2.0, 2.0, 1.0, 3.0, 4.0))),
    silent("even_stops", "0.7 ms", _stopped([0.7] * 6, 5.0)),
    fires("even_stops", "1.3 ms of 16", _stopped([1.3] * 6, 16.0), Severity.MODERATE, saves=about(0.081)),
    silent("even_stops", "1.3 ms of 40", _stopped([1.3] * 6, 40.0)),
    silent("even_stops", "two steps", _stopped([2.0] * 2)),
    fires("even_stops", "four steps", _stopped([1.5] * 4), Severity.MODERATE, saves=about(0.15)),
    silent("even_stops", "of a thread that records nothing", _stopped([2.0] * 6, inside=False)),
    *worded(
        "waits_in_calls",
        lambda program: _awaited(_WAITS, [0.5] * 7, program=program)(),
        Severity.HIGH,
        keras="steps_per_execution",
        tensorflow=".numpy()",
        jax="jax.lax.scan",
        keras_jax="steps_per_execution",
        saves=about(0.393),
        takes_from=("all_others", "host_compute", "kernel_launch"),
    ),
    fires(
        "waits_in_calls",
        "what it says",
        _awaited(_WAITS, [0.5] * 7),
        Severity.HIGH,
        saves=about(0.393),
        says=("7 of 7 steps", "6.03 ms, without an event", "idle for 3.93 ms"),
        never=("a sleep", "a lock"),
    ),
    fires("waits_in_calls", "the device works equally long", _awaited(_BESIDE, _LATE), Severity.HIGH, saves=about(0.393)),
    fires("waits_in_calls", "a fifth of it behind the device", _awaited(_WAITS, [1.2] * 7), Severity.HIGH, saves=about(0.463)),
    fires(
        "waits_in_calls",
        "behind the device by 40% more or less",
        _awaited(_WAITS, _UNEVEN_ENDS),
        Severity.HIGH,
        saves=about(0.396),
    ),
    silent("waits_in_calls", "behind the device by 80% more or less", _awaited(_WAITS, [0.1, 0.9, 0.1, 0.9, 0.5, 0.1, 0.9])),
    silent("waits_in_calls", "a third of it behind the device", _awaited(_WAITS, [2.1] * 7)),
    silent("waits_in_calls", "the device works for 70% of it", _awaited(_WAITS, [0.5] * 7, 0.7)),
    silent(
        "waits_in_calls", "as even as the device's work is not", _awaited(_SLEEPS, [1.0, 1.04, 0.96, 0.96, 1.04, 1.04, 0.96])
    ),
    silent("waits_in_calls", "two steps", _awaited(_WAITS[:2], [0.5] * 2)),
    fires("waits_in_calls", "four steps", _awaited(_WAITS[:4], [0.5] * 4), Severity.HIGH, saves=about(0.35)),
    silent("waits_in_calls", "in three of seven steps", _awaited(_WAITS, [0.5] * 3 + [3.0] * 4)),
    silent("waits_in_calls", "0.7 ms", _awaited([0.7, 0.72, 0.68, 0.74, 0.7, 0.66, 0.7], [0.05] * 7)),
    fires(
        "waits_in_calls",
        "1.3 ms",
        _awaited([1.3, 1.32, 1.28, 1.34, 1.3, 1.26, 1.3], [0.05] * 7),
        Severity.HIGH,
        saves=about(0.751),
    ),
    fires("capture.no_whole_step", "of two products", _products(2), Severity.HIGH, never=("FLOP",)),
    fires(
        "capture.no_whole_step",
        "of five products",
        _products(5),
        Severity.HIGH,
        says=("2 GFLOP at 2, 4 GFLOP at 4", "10 GFLOP at 10 TFLOP/s"),
    ),
    fires(
        "capture.no_whole_step",
        "of eight products",
        _products(8),
        Severity.HIGH,
        says=(": 6 GFLOP at 6",),
        never=(" 4 GFLOP",),
    ),
    fires(
        "exchange_cost",
        "30% of the step, and others wait for 10% more",
        _exchanged(0.3),
        Severity.HIGH,
        saves=about(0.3),
        takes_from=("host_compute",),
        says=("Even worker1", "3.00 ms per step (30%)", "others wait 1.00 ms more"),
    ),
    fires("exchange_cost", "15% of the step", _exchanged(0.15), Severity.MODERATE, saves=about(0.15)),
    fires(
        "exchange_cost",
        "nobody waits for another",
        _exchanged(0.3, 0.02),
        Severity.HIGH,
        saves=about(0.3),
        says=("Every worker spends",),
        never=("others wait",),
    ),
    fires("exchange_cost", "others wait for 5%", _exchanged(0.3, 0.05), Severity.HIGH, saves=about(0.3), says=("others wait",)),
    fires(
        "exchange_cost",
        "of one worker alone",
        _exchanged(0.3, workers=1),
        Severity.HIGH,
        saves=about(0.3),
        says=("waiting for other workers, or the transfer itself", "Capture all workers"),
    ),
    silent("exchange_cost", "the others wait, and the last one hardly does", _exchanged(0.06, 0.5)),
    fires(
        "replicas_share_cores",
        "two on one host",
        _replicated("replica/", "replica_1/"),
        Severity.HIGH,
        says=("2 replicas", "a batch 2 times as large"),
    ),
    silent("replicas_share_cores", "one", _replicated("replica/")),
    *_category(Category.OUTPUT, ("on_batch_end", "without .numpy()", "block_until_ready()"), 0.2, 0.08, 0.03),
    *_category(
        Category.KERNEL_LAUNCH,
        ("with jit_compile=True", "@tf.function(jit_compile=True)", "one jax.jit"),
        0.15,
        0.05,
        0.02,
    ),
    *_category(Category.DEVICE_COLLECTIVES, ("slow replica", "slow replica", "latency-hiding"), 0.15, 0.05, 0.02),
    fires(
        "high_kernel_launch",
        "of a program that XLA compiled",
        _steps({Category.KERNEL_LAUNCH: 0.2}, xla=1),
        Severity.HIGH,
        saves=about(0.2),
        takes_from=("kernel_launch",),
        says=("larger batch",),
        never=("jit_compile", "several steps"),
    ),
    fires(
        "gpu_thread_mode",
        "5% of the step",
        _steps({Category.KERNEL_LAUNCH: 0.05}, devices=H100),
        Severity.POTENTIAL,
        saves=about(0.05),
        takes_from=("kernel_launch",),
        says=("TF_GPU_THREAD_MODE=gpu_private",),
    ),
    fires(
        "gpu_thread_mode",
        "it is set",
        _steps({Category.KERNEL_LAUNCH: 0.05}, devices=PRIVATE),
        Severity.POTENTIAL,
        saves=about(0.05),
        struck=True,
    ),
    silent("gpu_thread_mode", "2% of the step", _steps({Category.KERNEL_LAUNCH: 0.02}, devices=H100)),
    silent("gpu_thread_mode", "no GPU of TensorFlow", _steps({Category.KERNEL_LAUNCH: 0.3})),
    *worded(
        "python_overhead",
        lambda program: _steps({Category.ALL_OTHERS: 0.2}, program)(),
        Severity.MODERATE,
        keras="run on_batch callbacks",
        tensorflow=".numpy() only every few steps",
        jax="jax.lax.scan",
        saves=about(0.2),
        **_PYTHON,
    ),
    fires(
        "python_overhead",
        "10% of the step",
        _steps({Category.ALL_OTHERS: 0.1}),
        Severity.POTENTIAL,
        saves=about(0.1),
        **_PYTHON,
    ),
    fires(
        "python_overhead",
        "5% of the step",
        _steps({Category.ALL_OTHERS: 0.05}),
        Severity.POTENTIAL,
        saves=about(0.05),
        **_PYTHON,
    ),
    fires(
        "python_overhead",
        "of which samples met Python in a third",
        _steps({Category.ALL_OTHERS: 0.3}, python=0.1),
        Severity.MODERATE,
        saves=about(0.1),
    ),
    silent("python_overhead", "in which samples met hardly any Python", _steps({Category.ALL_OTHERS: 0.3}, python=0.02)),
    silent("python_overhead", "2% of the step", _steps({Category.ALL_OTHERS: 0.02})),
    *worded(
        "compiling_in_steps",
        lambda program: _steps({Category.COMPILATION: 0.3}, program)(),
        Severity.HIGH,
        keras="drop_remainder=True",
        tensorflow="the step function's arguments alike",
        jax="static arguments",
        saves=about(0.3),
        takes_from=("compilation",),
    ),
    fires("compiling_in_steps", "15% of the step", _steps({Category.COMPILATION: 0.15}), Severity.MODERATE, saves=about(0.15)),
    fires("compiling_in_steps", "8% of the step", _steps({Category.COMPILATION: 0.08}), Severity.MODERATE, saves=about(0.08)),
    silent("compiling_in_steps", "3% of the step", _steps({Category.COMPILATION: 0.03})),
    *worded(
        "low_16_bit_share",
        lambda program: _half(0.07, program)(),
        Severity.POTENTIAL,
        keras="set_global_policy('mixed_bfloat16')",
        tensorflow="tf.cast",
        jax="jnp.bfloat16",
        saves=about(0.6 * 0.93 / 2),
        takes_from=("device_compute_32",),
    ),
    fires("low_16_bit_share", "no tensor cores", _half(0.0, devices=P100), Severity.POTENTIAL, saves=about(0.3), struck=True),
    silent("low_16_bit_share", "15% in 16 bits", _half(0.15)),
    fires("low_16_bit_share", "that saves 3%", _half(0.0, narrowed=0.1), Severity.POTENTIAL, saves=about(0.03)),
    silent("low_16_bit_share", "that saves 1.5%", _half(0.0, narrowed=0.05)),
    *worded(
        "time_outside_steps",
        lambda program: _between(0.6, program=program)(),
        Severity.HIGH,
        keras="validation, checkpoints or callbacks",
        tensorflow="next(iterator)",
        jax="evaluation, checkpoints or input",
        saves=about(0.6),
        **_BETWEEN,
    ),
    *worded(
        "time_outside_steps",
        lambda program: _between(0.6, program=Workload(program.framework, is_inference=True))(),
        Severity.HIGH,
        name="between predictions",
        keras="predict()",
        tensorflow="prepare the next one",
        jax="dispatch the next one",
        saves=about(0.6),
        **_BETWEEN,
    ),
    fires("time_outside_steps", "40% of the time", _between(0.4), Severity.MODERATE, saves=about(0.4), **_BETWEEN),
    fires("time_outside_steps", "30% of the time", _between(0.3), Severity.MODERATE, saves=about(0.3), **_BETWEEN),
    fires("time_outside_steps", "30%, single gaps", _between(0.3, often=False), Severity.MODERATE, location="train.py:30"),
    fires(
        "time_outside_steps",
        "most of it waits for input",
        _between(0.3, waits=0.7),
        Severity.MODERATE,
        saves=about(0.3),
        says=("mostly waiting for input outside the step markers",),
        **_BETWEEN,
    ),
    fires(
        "time_outside_steps",
        "a part of it waits for input",
        _between(0.3, waits=0.35),
        Severity.MODERATE,
        saves=about(0.3),
        never=("mostly waiting for input outside the step markers",),
        **_BETWEEN,
    ),
    fires("time_outside_steps", "four steps", _between(0.3, steps=4), Severity.MODERATE, saves=about(0.3), **_BETWEEN),
    fires(
        "time_outside_steps",
        "92% of the time, in a validation",
        _between(0.92, often=False, program=Workload(Framework.KERAS), called=0.9),
        Severity.HIGH,
        saves=about(0.92),
        says=("most of it in 1,250 calls of multi_step_on_iterator", "validation_batch_size"),
        takes_from=("outside",),
        location="train.py:30",
    ),
    *(
        fires(
            "time_outside_steps",
            f"of which a line spends most in {' '.join(calls) or 'itself'}{' and in the step' * calls_step}",
            _between(0.3, waits=0.2, called=called, calls=calls, calls_step=calls_step, program=Workload(Framework.KERAS)),
            Severity.MODERATE,
            saves=about(0.3),
            says=(says,),
            **_BETWEEN,
        )
        for calls, calls_step, called, says in (
            (
                ("keras: error_handler", "keras: Trainer.predict", "tensorflow: Iterator.next"),
                False,
                0.0,
                "Predict for many rows in one",
            ),
            (
                ("keras: error_handler", "keras: Trainer.fit", "keras: Trainer.evaluate"),
                True,
                0.9,
                "Evaluate less often or in larger",
            ),
            (("keras: Trainer.fit",), True, 0.0, "Look between the steps"),
            (("numpy: savez",), False, 0.0, "Save less often (at train.py:30)"),
            ((), False, 0.0, "Make this work cheaper (at train.py:30)"),
            ((), True, 0.0, "Look between the steps"),
        )
    ),
    *(
        fires(
            "time_outside_steps",
            f"of which a call of fit takes most, with {iterators:g} iterators per step",
            _between(
                0.3,
                waits=0.2,
                calls=("keras: Trainer.fit",),
                calls_step=True,
                iterators=iterators,
                program=Workload(Framework.KERAS),
            ),
            Severity.MODERATE,
            saves=about(0.3),
            says=(says,),
            **_BETWEEN,
        )
        for iterators, says in (
            (0.9, "Give all batches to one fit()"),
            (0.6, "Give all batches"),
            (0.3, "Look between the steps"),
        )
    ),
    silent("time_outside_steps", "15% of the time", _between(0.15)),
    silent("time_outside_steps", "two steps", _between(0.3, steps=2)),
    fires("profiling_overhead", "15% slower", _slowed(0.15), Severity.INFO, says=("15% slower",)),
    silent("profiling_overhead", "steps that grow by themselves", _slowed(0.5, lengths=_growing(0.52, 1.05))),
    silent("profiling_overhead", "one step before", _slowed(0.15, before=1)),
    silent("profiling_overhead", "one step while profiling", _slowed(0.15, during=1)),
    fires("profiling_overhead", "five steps before", _slowed(0.15, before=5), Severity.INFO),
    fires("profiling_overhead", "five steps while profiling", _slowed(0.15, during=5), Severity.INFO),
    silent("profiling_overhead", "7% slower", _slowed(0.07)),
    fires("capture.empty", "no event", _capture("empty"), Severity.HIGH, says=("holds no event", "outpace profile")),
    silent("capture.empty", "a capture in order", _capture("good")),
    fires("capture.damaged", "cut off", _capture("damaged"), Severity.HIGH, says=("bytes are missing", "Copy the file again")),
    silent("capture.damaged", "a capture in order", _capture("good")),
    *worded(
        "capture.no_steps",
        lambda program: _capture("no steps", program)(),
        Severity.HIGH,
        keras="outpace.ProfilerCallback",
        tensorflow="tf.profiler.experimental.Trace",
        jax="jax.profiler.StepTraceAnnotation",
    ),
    silent("capture.no_steps", "a capture in order", _capture("good")),
    *worded(
        "capture.no_whole_step",
        lambda program: capture_findings.iter_findings(run({partial_step_reason: "the devices ran 3 ops"}), program),
        Severity.HIGH,
        keras="outpace.ProfilerCallback",
        tensorflow="tf.profiler.experimental.Trace",
        jax="jax.profiler.StepTraceAnnotation",
    ),
    silent("capture.no_whole_step", "a capture in order", _capture("good")),
    silent("capture.no_whole_step", "no step at all", _capture("no steps")),
    *worded(
        "set_aside",
        lambda program: _aside(Exclusion.WARM_UP, program)(),
        Severity.INFO,
        keras="first batch of each shape",
        tensorflow="Python arguments stay",
        jax="jax_compilation_cache_dir",
        location="step 0",
    ),
    fires(
        "set_aside",
        "of no known cause",
        _aside(Exclusion.ONE_OFF, extra=Category.ALL_OTHERS),
        Severity.INFO,
        location="step 0",
        says=("5.0 times",),
    ),
    fires("set_aside", "70% compiling", _mixed(0.7), Severity.INFO, location="step 0", says=(": compilation.",)),
    fires("set_aside", "of several causes", _mixed(0.4), Severity.INFO, location="step 0", says=("several causes",)),
    silent("set_aside", "fed from buffers", _aside(Exclusion.BUFFERED)),
    silent("set_aside", "steady", _aside(Exclusion.NO)),
    *worded(
        "periodic_cost",
        lambda program: _rounds(_every(5, 4, 2.0), program=program)(),
        Severity.HIGH,
        keras="save_freq",
        tensorflow="tf.train.CheckpointOptions",
        jax="evaluation on fewer batches",
        saves=about(4 / 24),
        **_PYTHON,
    ),
    fires(
        "periodic_cost", "12% of the time", _rounds(_every(10, 4, 2.4)), Severity.MODERATE, saves=about(5.6 / 45.6), **_PYTHON
    ),
    fires(
        "periodic_cost", "6% of the time", _rounds(_every(10, 4, 1.6)), Severity.MODERATE, saves=about(2.4 / 42.4), **_PYTHON
    ),
    silent("periodic_cost", "3% of the time", _rounds(_every(20, 4, 1.58))),
    fires("periodic_cost", "twice, and long", _rounds(_every(10, 2, 4.0)), Severity.HIGH, saves=about(6 / 26), **_PYTHON),
    silent("periodic_cost", "twice, and twice as long", _rounds(_every(10, 2, 2.0))),
    fires(
        "periodic_cost",
        "an evaluation: more calls",
        _computes([0.8], [0.8, 0.8]),
        Severity.HIGH,
        saves=about(4 / 24),
        takes_from=("host_compute",),
    ),
    fires(
        "periodic_cost",
        "computation beside the step's own function",
        _computes([0.6], [0.95]),
        Severity.HIGH,
        saves=about(4 / 24),
        takes_from=("host_compute",),
    ),
    fires(
        "slow_steps",
        "two stalls",
        _stalled([1.2, 1.0, 1.1, 33.4, 0.9, 1, 1, 1, 1.1, 1, 12.0, 1, 1, 1.1]),
        Severity.HIGH,
        saves=about((32.33 + 10.93) / 57.8),
        takes_from=(OUTSIDE_STEPS,),
        says=("2 of 14 steps hold 79% of the time: 334 ms and 120 ms instead of 10.3 ms",),
    ),
    fires(
        "slow_steps",
        "two stalls, beside other programs",
        _stalled([1.2, 1.0, 1.1, 33.4, 0.9, 1, 1, 1, 1.1, 1, 12.0, 1, 1, 1.1], others=1.1),
        Severity.INFO,
        says=("while other programs used 1.1 of 4 cores", "Let other programs end"),
    ),
    fires(
        "slow_steps",
        "two stalls, beside little else",
        _stalled([1.2, 1.0, 1.1, 33.4, 0.9, 1, 1, 1, 1.1, 1, 12.0, 1, 1, 1.1], others=0.9),
        Severity.HIGH,
        saves=about((32.33 + 10.93) / 57.8),
        takes_from=(OUTSIDE_STEPS,),
    ),
    fires(
        "input_stalls",
        "neighbours that hold a quarter of the time",
        _stalled([1, 1, 1, 1, 1, 1, 2.6, 2.6, 1, 1, 1, 1, 1, 1, 1, 1], Category.INPUT),
        Severity.HIGH,
        saves=about(3.2 / 19.2),
        says=("stalls the input",),
    ),
    fires(
        "slow_steps",
        "one of three",
        _stalled([0.32, 2.4, 0.53]),
        Severity.HIGH,
        saves=about(1.975 / 3.25),
        says=("1 of 3 steps holds",),
    ),
    fires(
        "slow_steps",
        "three at no period",
        _stalled([1, 1, 5, 1, 1, 4, *[1] * 6, 6, *[1] * 7]),
        Severity.HIGH,
        saves=about(12 / 32),
        says=("60.0 ms and 50.0 ms and more instead of 10.0 ms",),
    ),
    fires(
        "slow_steps",
        "the same calls take longer",
        _slow_calls([[3.5]] * 3),
        Severity.HIGH,
        says=("in the calls that every step makes", "used the cores"),
        saves=about(9 / 25),
    ),
    fires(
        "slow_steps",
        "more calls",
        _slow_calls([[1.7, 1.7]] * 3),
        Severity.HIGH,
        says=("runs in these steps only",),
        saves=about(9 / 25),
    ),
    fires(
        "slow_steps",
        "what runs in them alone",
        _slow_calls([[0.5]] * 3, "Checkpoint"),
        Severity.HIGH,
        says=("in Checkpoint, which runs in no other step", "Run Checkpoint less often, or off the training thread"),
        saves=about(9 / 25),
    ),
    *(
        fires(
            "slow_steps",
            f"the longest event runs in steps {where}, for {lasts:.0%} of a step",
            _slow_calls([[0.5]] * 3, "Checkpoint", where, lasts),
            Severity.HIGH,
            says=("Find what runs in these steps only",),
            saves=about(9 / 25),
        )
        for where, lasts in (((3, 9), 2.0), ((3, 9, 10, 12), 2.0), ((3, 9, 10), 1.0))
    ),
    fires(
        "slow_steps",
        "beside one that compiles",
        _stalled(_MIXED, _BUILT),
        Severity.HIGH,
        saves=about(12 / 72),
        says=("3 of 40 steps hold 21% of the time: 60.0 ms and 50.0 ms and more",),
        never=("these steps compile",),
    ),
    fires(
        "compile_stalls",
        "beside others that compute",
        _stalled(_MIXED, _BUILT),
        Severity.HIGH,
        saves=about(20 / 72),
        says=("1 of 40 steps holds 29% of the time: 210 ms", "arguments alike"),
    ),
    silent("compile_stalls", "they compute: `slow_steps`", _stalled([1, 1, 5, 1, 1, 4, *[1] * 6, 6, *[1] * 7])),
    silent("input_stalls", "they compute: `slow_steps`", _stalled([1, 1, 1, 1, 1, 1, 2.6, 2.6, *[1] * 8])),
    silent(
        "slow_steps", "they wait for input: `input_stalls`", _stalled([1, 1, 1, 1, 1, 1, 2.6, 2.6, *[1] * 8], Category.INPUT)
    ),
    silent("slow_steps", "they come round", _stalled([1, 1, 1, 1, 4] * 4)),
    silent("slow_steps", "a single one is a one-off", _stalled([1, 1, 1, 9, 1, 1, 1, 1])),
    fires(
        "growing_steps",
        "twice as long",
        _stalled(_growing(0.52, 1.05)),
        Severity.HIGH,
        says=("from 5.81 ms to 9.89 ms over 40 steps",),
    ),
    fires("growing_steps", "by 40%", _stalled(_growing(1.0, 1.4)), Severity.HIGH, says=("over 40 steps",)),
    silent("growing_steps", "by 8%", _stalled(_growing(1.0, 1.08))),
    silent("growing_steps", "steps that differ more than they grow", _stalled(_growing(1.0, 1.4, jitter=0.3))),
    silent("growing_steps", "ten steps", _stalled(_growing(1.0, 1.4, 10))),
    silent("periodic_cost", "the same call takes longer", _computes([0.8], [1.6])),
    silent("periodic_cost", "it waits for input", _rounds(_every(5, 4, 2.0), Category.INPUT)),
]
