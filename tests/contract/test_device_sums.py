"""Whatever tells of a device's time tells the same: categories of the steps, parts of the model,
compiled ops and kernels add up, by the clock.

The clock is asked here without the tools: events of a device's lines, their union, and the time of
the steps.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from outpace.metrics.facts.hlo_instructions import DEVICE_SIDE, instruction_stats
from outpace.metrics.facts.op_metrics import DEVICE as ON_DEVICE
from outpace.metrics.facts.op_metrics import op_metrics
from outpace.metrics.facts.step_breakdown import StepBreakdown, step_breakdown
from outpace.metrics.spans import intersect_spans, merge_spans
from outpace.metrics.views.model_parts import model_parts
from outpace.metrics.views.model_work import model_work
from outpace.model import Category, Unit
from outpace.testing import GpuBuilder, SpaceBuilder
from outpace.timeline import Run, Timeline
from outpace.timeline.work_kinds import WorkKind
from outpace.timeline.xla_threads import host_mask
from outpace.trace import dialect, read_trace
from tests.support import PROFILES, opened

US = 1_000_000
STEP = 1000 * US
COMPUTES = (Category.DEVICE_COMPUTE_16, Category.DEVICE_COMPUTE_32)
WITH_DEVICE = tuple(name for name in PROFILES if name.startswith(("derived_", "jax_h", "jax_rocm", "tf_gpu", "tpu")))
SEEDS = (*range(40), 116)  # 116: two devices whose work begins behind the step that launched it
NAMES = ("gemm", "relu", "loop_add_fusion")


def computed(breakdown: StepBreakdown) -> float:
    """What devices compute in a mean step, ps."""
    steps = len(breakdown.steady_steps) * max(breakdown.steps_per_execution.values())
    return float(sum(breakdown.category_ps(c).sum() for c in COMPUTES)) / steps


def parts_of(run: Run, host: str) -> float:
    """What the parts of the model take on the devices in a mean step, ps."""
    return float(sum(row["self_ps"] for row in model_parts(run).filter_by("host", host).records() if row["side"] == ON_DEVICE))


def traced(seed: int) -> Run:
    """A training of JAX on one GPU, or on two or three, at random: its work begins from 0 to 1.5
    steps after its launch, on up to three streams at once, beside copies in all directions; some
    steps launch more, and some work runs over the ends of steps.
    """
    chance = random.Random(seed)
    space = SpaceBuilder("vm")
    host = space.plane("/host:CPU").line("python")
    gpus = [
        GpuBuilder(space, host, index=at, compute_cap_major=9, device_vendor="Nvidia")
        for at in range(chance.choice((1, 1, 2, 3)))
    ]
    steps, late = chance.randint(3, 12), chance.uniform(0, 1.5)
    lasts = [chance.randint(100, 900) * US for _ in range(steps)]
    for step in range(steps):
        host.event("PjitFunction(train_step)", step * STEP, lasts[step])
    for gpu in gpus:
        work(gpu, lasts, late, chance)
    return Run.from_traces([read_trace(space.to_bytes(), "vm")])


def work(gpu: GpuBuilder, calls: list[int], late: float, chance: random.Random) -> None:
    """What one GPU does for calls of these lengths, that much of a step later."""
    streams = chance.randint(1, 3)
    free = [0] * streams
    for step, lasts in enumerate(calls):
        begin = step * STEP
        free = [max(when, begin + round(late * STEP)) for when in free]
        for at in range(chance.randint(2, 12)):
            stream = at % streams
            takes = chance.randint(1, 300) * US
            called = begin + (at + 1) * lasts // 20
            gpu.kernel(
                NAMES[at % 3], free[stream], takes, stream=7 + stream, called=called, call_ps=US,
                hlo_op=NAMES[at % 3], hlo_module="jit_train_step", program_id=8,
            )  # fmt: skip
            free[stream] += takes + chance.choice((0, 0, 5, 50)) * US
        for direction in ("H2D", "D2H", "D2D"):
            if chance.random() < 0.5:
                gpu.copy(direction, 1000, begin + chance.randint(0, 900) * US, chance.randint(1, 400) * US, stream=20)


@pytest.mark.parametrize("name", WITH_DEVICE)
def test_parts_of_the_model_are_what_devices_compute(name: str) -> None:
    run = opened(name).run
    for host in (timeline.host for timeline in run.hosts if len(timeline.steps)):
        assert parts_of(run, host) == pytest.approx(computed(step_breakdown(run).select_hosts(host)), rel=1e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_so_they_are_wherever_the_work_runs(seed: int) -> None:
    run = traced(seed)
    assert computed(step_breakdown(run)) > 0
    assert parts_of(run, "vm") == pytest.approx(computed(step_breakdown(run)), rel=1e-4)


@pytest.mark.parametrize("name", PROFILES)
def test_categories_are_the_step(name: str) -> None:
    steps = step_breakdown(opened(name).run).steps
    total = sum(steps[f"{c.value}_ps"].astype(np.int64) for c in Category)
    assert np.all(np.abs(total - steps["duration_ps"]) <= len(Category))  # of several devices each mean is rounded down


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_ops_are_what_their_kernels_take_in_the_steps(seed: int) -> None:
    """No matter which call launched them. Streams that work side by side add up."""
    run = traced(seed)
    (timeline,) = run.hosts
    steps = timeline.steps.steady_rows
    spans = timeline.steps.start[steps], timeline.steps.end[steps]
    every = (line for plane in timeline.device_planes for line in timeline.device_lines(plane))
    kernels = (line for line in every if "Kernel" in timeline.trace.lines.names[line])
    by_clock = sum(_inside(timeline, line, *spans) for line in kernels)
    assert sum(
        ran.time_ps * ran.device_steps for ran in instruction_stats(run)["vm"] if ran.side == DEVICE_SIDE
    ) == pytest.approx(by_clock)


def _streams(timeline: Timeline, device: str) -> Iterator[int]:
    for plane in timeline.device_planes:
        if plane.name == f"/device:{device}":
            yield from timeline.device_lines(plane)


def _inside(timeline: Timeline, line: int, start: np.ndarray, end: np.ndarray) -> int:
    rows = timeline.trace.lines.row_numbers(line)
    _, low, high = intersect_spans(start, end, merge_spans(timeline.trace.start[rows], timeline.trace.end[rows]))
    return int((high - low).sum())


@pytest.mark.parametrize("name", WITH_DEVICE)
def test_each_event_of_a_device_is_in_one_table(name: str) -> None:
    """So kernels, copies and memory sets, and what the compiler ran, take together what the device
    is busy, and beyond that only what runs at once counts twice: on other streams, in other
    branches of a graph, or where a kernel begins while the one before it ends.
    """
    page = opened(name).page("kernel_stats")
    if page.unavailable is not None:
        return
    found = {table.name: list(table.records()) for table in page.tables()}
    for row in found["devices"]:
        trace = opened(name).run.by_host[row["host"]].trace
        rows = np.concatenate(
            [trace.lines.row_numbers(line) for line in _streams(opened(name).run.by_host[row["host"]], row["device"])]
        )
        begin, end = merge_spans(trace.start[rows], trace.end[rows])
        sums = [
            sum(r["total_ps"] for r in found.get(table, ()) if (r["host"], r["device"]) == (row["host"], row["device"]))
            for table in ("kernels", "copies", "tuning")
        ]
        assert sums == [row["kernel_ps"], row["copy_ps"], row["tuning_ps"]]
        assert sum(sums) == trace.duration[rows].sum()
        assert row["busy_ps"] == (end - begin).sum()
        idle = [r["idle_ps"] for r in found.get("launch_gaps", ()) if (r["host"], r["device"]) == (row["host"], row["device"])]
        assert sum(idle) == row["idle_ps"]


@pytest.mark.parametrize("name", WITH_DEVICE)
def test_what_multiplies_is_told_of_as_products(name: str) -> None:
    """Whatever an instruction is called after: a product may be named by the form in which its
    result is handed on.
    """
    run = opened(name).run
    multiplied = sum(
        ran.time_ps for those in instruction_stats(run).values() for ran in those if ran.side == DEVICE_SIDE and ran.op.product
    )
    dense = {work.value for work in (WorkKind.MATMUL, WorkKind.CONVOLUTION, WorkKind.ATTENTION)}
    told = sum(row["self_ps"] for row in model_work(run).records() if row["work"] in dense and row["side"] == ON_DEVICE)
    assert told >= multiplied * 0.999


ADDED_UP = {  # tables with time of threads, or devices, that may work at once
    "input_pipeline": {"host_categories"},
    "op_stats": {"ops", "types", "shares"},
    "scopes": {"host_scopes", "device_scopes", "scope_ops", "lines"},
    "hlo_stats": {"hlo_categories", "programs", "op_profile", "op_profile_lines"},
}


@pytest.mark.parametrize("name", PROFILES)
def test_no_time_is_longer_than_its_window(name: str) -> None:
    """The capture: of what adds up threads or devices, as often as there are. What copies take,
    threads that start them do not add up to.
    """
    run = opened(name).run
    span = max((t.span_ps[1] - t.span_ps[0] for t in run.hosts), default=0)
    lines = sum(int(np.count_nonzero(np.diff(t.trace.lines.first_event))) for t in run.hosts)
    for page in opened(name).report().pages:
        for table in page.tables():
            times = (field.name for field in table.fields if field.unit is Unit.PS)
            limit = span * (lines if table.name in ADDED_UP.get(page.id, ()) else 1)
            for column in times:
                longest = np.nanmax(table[column].astype(np.float64), initial=0.0)
                assert longest <= limit * (1 + 1e-9), (page.id, table.name, column)
    for row in op_metrics(run).records():
        assert row["self_ps"] <= span or "Memcpy" not in row["type"] or row["side"] == ON_DEVICE


@pytest.mark.parametrize("name", [n for n in WITH_DEVICE if n.startswith("jax")])
def test_runs_of_a_program_are_its_launches(name: str) -> None:
    """By the host's event for each, where the capture holds all launches, and the work of all."""
    profile, (timeline,) = opened(name), opened(name).run.hosts
    trace, stat = timeline.trace, timeline.trace.stat(dialect.CORRELATION_ID)
    calls, launched = timeline.launches
    host = host_mask(trace, stat.rows)
    whole = set(stat.rows[host].tolist()) == set(calls.tolist()) and set(stat.rows[~host].tolist()) == set(launched.tolist())
    (programs,) = (t for t in profile.page("hlo_stats").tables() if t.name == "programs")
    names = [trace.names[at] for at in trace.name[:].tolist()]
    ran: dict[str, int] = {}
    for row in programs.records():
        ran[row["program"]] = ran.get(row["program"], 0) + row["runs"]
    devices = sum(
        bool(len(trace.lines.row_numbers(line)))
        for plane in timeline.device_planes
        for line in timeline.device_lines(plane)[:1]
    )
    for program, runs in ran.items():
        assert runs == names.count(f"{program}:XLA GPU module") // devices or not whole, program
