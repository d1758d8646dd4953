"""Built trainings on GPUs whose bottleneck is known: what a report says first, what it must not
say, and that no promise exceeds the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from outpace import api
from outpace.model import Report
from outpace.testing import GpuBuilder, SpaceBuilder

US = 1_000_000
STEPS = 12
FORWARD = ("net/conv/Conv2D:Conv2D", "net/relu/Relu:Relu", "net/dense/MatMul:MatMul")
BACKWARD = ("gradient_tape/net/dense/MatMul/MatMul:MatMul", "AdamW/ResourceApplyAdam:ResourceApplyAdam")
OPS = (*FORWARD, *BACKWARD)
LATE = frozenset(("late_launches", "waits_for_device"))


@dataclass(frozen=True)
class Step:
    """A step of `length` µs. Kernels of `work` µs, `times` of each of `ops`, are launched from
    `called` on, each `every` µs; one begins when it is launched and the one before it is done.
    `host`: (event, from, until) on the training thread; `nccl`, `to_device`, `from_device`: µs
    behind the kernels.
    """

    length: int
    work: int
    called: int = 10
    every: int = 5
    times: int = 4
    ops: tuple[str, ...] = OPS
    host: tuple[tuple[str, int, int], ...] = ()
    nccl: int = 0
    to_device: int = 0
    from_device: int = 0


def report_of(folder: Path, *devices: Step, steps: int = STEPS, capability: int = 6) -> Report:
    """The report of a training on one device or more, without tensor cores below a capability of 7;
    all have the length, and the host's events, of the first.
    """
    space = SpaceBuilder("vm")
    plane = space.plane("/host:CPU")
    host, length = plane.line("python"), devices[0].length
    for number in range(steps):
        host.event("train", number * length * US, length * US, step_num=number, _r=1)
        for event, begin, end in devices[0].host:
            host.event(event, (number * length + begin) * US, (end - begin) * US)
    for index, step in enumerate(devices):
        gpu = GpuBuilder(
            space, plane.line(f"tf_Compute/{index}"), index=index, compute_cap_major=capability, compute_cap_minor=0
        )
        for number in range(steps):
            begin, done = number * length, 0
            for at, op in enumerate(step.ops * step.times):
                call = step.called + at * step.every
                start = max(done, call + 4)
                gpu.kernel(f"kernel_{at % 5}", (begin + start) * US, step.work * US, op=op, called=(begin + call) * US)
                done = start + step.work
            if step.nccl:
                gpu.kernel(
                    "ncclDevKernel_AllReduce", (begin + done) * US, step.nccl * US, op="sync/NcclAllReduce:NcclAllReduce"
                )
                done += step.nccl
            for direction, lasts in (("H2D", step.to_device), ("D2H", step.from_device)):
                if lasts:
                    gpu.copy(direction, 1_000_000, (begin + done) * US, lasts * US, source="pinned", destination="device")
                    done += lasts
            assert done <= length, "the step is too short for its work"
    space.write(folder)
    return api.open(folder).report()


INPUT = ("IteratorGetNext:IteratorGetNext", 100, 700)
FIRST = {
    "launches one by one": (Step(2100, 40, every=100), "late_launches", 0.6),
    "launches one by one, of tiny kernels": (Step(1100, 4, every=50), "late_launches", 0.95),
    "a wait for completion": (Step(1000, 10, host=(("block_until_ready", 220, 990),)), "waits_for_device", 0.8),
    "a synchronised stream": (Step(1000, 25, host=(("cuStreamSynchronize", 150, 990),)), "waits_for_device", 0.5),
    "a wait for the input": (Step(1000, 10, called=702, host=(INPUT,)), "input_bound", 0.4),  # the rest hides as much
    "copies to the device": (Step(1000, 10, to_device=700), "transfer_bound", 0.3),  # as much as there is to hide them behind
    "copies back": (Step(1000, 10, from_device=700), "high_output", 0.7),
    "communication": (Step(1000, 20, nccl=570), "high_device_collectives", 0.57),
}
"""(the step, the rule that must come first, what there is to save of the step)."""


@pytest.mark.parametrize("name", FIRST)
def test_the_bottleneck_comes_first(name: str, tmp_path: Path) -> None:
    step, rule, most = FIRST[name]
    report = report_of(tmp_path, step)
    found = report.findings[0]
    assert found.id == rule, [f.id for f in report.findings]
    assert found.saving is not None
    assert found.saving.high <= most + 0.02
    assert found.saving.high >= most - 0.15
    assert not {f.id for f in report.findings} & LATE - {rule}


@pytest.mark.parametrize(
    "step",
    [
        Step(1000, 48),
        Step(800, 38, host=(("cuStreamSynchronize", 200, 780),)),
        Step(1000, 190, times=1, every=150),
    ],
    ids=[
        "all launched ahead",
        "ahead, with a wait that ends when the device does",
        "kernels that are longer than their launches",
    ],
)
def test_a_busy_device_is_not_late(step: Step, tmp_path: Path) -> None:
    report = report_of(tmp_path, step)
    assert report.headline.startswith("Device-bound")
    assert not {f.id for f in report.findings} & LATE


def test_what_saves_more_comes_first(tmp_path: Path) -> None:
    """Three of five kernels could use tensor cores, and the device is busy for 96% of the step, or
    for 40% of it with late launches.
    """
    busy = report_of(tmp_path / "busy", Step(1000, 48), capability=7).findings[0]
    assert busy.id == "tensor_cores_unused" and busy.saving is not None
    assert busy.saving.high == pytest.approx(0.96 * (1 + 0.6) / 2, abs=0.01)
    late = report_of(tmp_path / "late", Step(2100, 40, every=100), capability=7).findings
    assert [f.id for f in late][:2] == ["late_launches", "tensor_cores_unused"]


def test_one_slow_chip_is_named_and_is_no_mean(tmp_path: Path) -> None:
    """Three chips work for 400 µs of a step, one for 900: on average 525."""
    quick, slow = Step(1000, 20), Step(1000, 45)
    report = report_of(tmp_path, quick, quick, quick, slow)
    assert report.headline.startswith("Device-bound: 52%") or report.headline.startswith("Device-bound: 53%")
    worst = max(report.page("pod").table("summary").records(), key=lambda row: row["excess_ps"])
    assert worst["worker"].endswith("GPU:3")
    assert worst["excess_ps"] == pytest.approx(500 * US)


def test_chips_that_are_alike_are_as_one(tmp_path: Path) -> None:
    one = report_of(tmp_path / "one", Step(1000, 30))
    four = report_of(tmp_path / "four", *[Step(1000, 30)] * 4)
    assert one.headline == four.headline
    assert [f.id for f in one.findings] == [f.id for f in four.findings if f.id != "straggler"]


NOT_WHOLE = {
    "a piece of a forward pass": (
        Step(1000, 40, ops=("net/Cast:Cast", "net/dropout/Mul:Mul", "net/dropout/GreaterEqual:GreaterEqual")),
    ),
    "three launches": (Step(1000, 100, ops=FORWARD[:1], times=1),),
}


@pytest.mark.parametrize("name", NOT_WHOLE)
def test_what_is_no_whole_step_promises_nothing(name: str, tmp_path: Path) -> None:
    report = report_of(tmp_path, *NOT_WHOLE[name], steps=3)
    assert report.findings[0].id == "capture.no_whole_step"
    assert report.headline.startswith("No whole training step was captured")
    assert all(finding.saving is None for finding in report.findings)


def ahead_of(folder: Path, *, mark: int, work: int, nccl: int = 0, capability: int = 6, ops: tuple[str, ...] = OPS) -> Report:
    """The report of a training whose host launches a step's `ops`, four times each, in `mark` µs
    and goes on; its device works them off one behind the other, `work` µs each and `nccl` behind
    them. The capture ends when all is done.
    """
    space = SpaceBuilder("vm")
    host = space.plane("/host:CPU").line("python")
    gpu, done = GpuBuilder(space, host, compute_cap_major=capability, compute_cap_minor=0), 0
    for number in range(STEPS):
        begin = number * mark
        host.event("train", begin * US, mark * US, step_num=number, _r=1)
        for at, op in enumerate(ops * 4):
            call = begin + 1 + at
            done = max(done, call + 4) + work
            gpu.kernel(f"kernel_{at % 5}", (done - work) * US, work * US, op=op, called=call * US, call_ps=US // 2)
        if nccl:
            call = begin + 2 + 4 * len(ops)
            done = max(done, call + 4) + nccl
            sync = "sync/NcclAllReduce:NcclAllReduce"
            gpu.kernel("ncclDevKernel_AllReduce", (done - nccl) * US, nccl * US, op=sync, called=call * US, call_ps=US // 2)
    host.event("block_until_ready", STEPS * mark * US, max(done - STEPS * mark, 1) * US)
    space.write(folder)
    return api.open(folder).report()


def test_a_program_that_runs_ahead_takes_as_long_as_its_device(tmp_path: Path) -> None:
    """Launched in 100 µs, done in 900: the host, that ends with waiting for ten steps, is neither
    late nor in the way.
    """
    report = ahead_of(tmp_path, mark=100, work=45)
    assert report.headline.startswith("Device-bound: 100% of the 900 µs step")
    assert not {f.id for f in report.findings} & {*LATE, "input_bound"}
    assert all(f.saving is None or f.saving.high <= 1 for f in report.findings)


def test_a_program_that_runs_ahead_is_told_what_its_device_pays(tmp_path: Path) -> None:
    """Of 1,000 µs on the device 600 are communication, though the host's steps last 100."""
    report = ahead_of(tmp_path, mark=100, work=20, nccl=600)
    found = report.findings[0]
    assert found.id == "high_device_collectives"
    assert found.saving is not None
    assert 0.45 <= found.saving.high <= 0.6 + 0.02


def test_half_of_a_step_that_runs_ahead_is_half_of_its_devices_time(tmp_path: Path) -> None:
    """As for a program that does not run ahead, three of five kernels could use tensor cores, and
    the device is never idle.
    """
    found = ahead_of(tmp_path, mark=100, work=45, capability=7).findings[0]
    assert found.id == "tensor_cores_unused" and found.saving is not None
    assert found.saving.high == pytest.approx((1 + 0.6) / 2, abs=0.01)


@pytest.mark.parametrize("mark, work, share", [(100, 5, 0.95), (1000, 45, 0.9)])
def test_a_host_that_launches_as_fast_as_its_device_works_keeps_its_steps(
    mark: int, work: int, share: float, tmp_path: Path
) -> None:
    """Work of a step is done when the next begins, or nearly."""
    report = ahead_of(tmp_path, mark=mark, work=work)
    steps = api.open(tmp_path).run.hosts[0].steps
    assert not steps.async_dispatch
    assert steps.duration.tolist() == [mark * US] * STEPS
    assert report.headline.startswith(f"Device-bound: {share:.0%}")
