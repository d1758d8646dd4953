"""Why a device stands idle, on built profiles: the host waits for it, is late, or runs ahead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outpace.model import Finding
from outpace.testing import GpuBuilder, SpaceBuilder
from outpace.timeline import Run
from outpace.tools.kernel_stats.idle_gaps import NO_ACTIVITY, is_user_annotation
from outpace.trace import read_trace
from tests.unit.tools_kernel_stats.gpu_run import US, page_of

STEPS, STEP = 10, 1000 * US


Wait = tuple[str, int, int]


def space_of(work: int, *, kernels: int = 4, called: int, every: int, waits: Wait | None = None) -> SpaceBuilder:
    """Steps of 1 ms: `kernels` of `work` µs one after the other, launched at `called` and each
    `every` later; `waits`: in an event of that name, from and until.
    """
    space = SpaceBuilder()
    host = space.plane("/host:CPU").line("python")
    gpu = GpuBuilder(space, host)
    for step in range(STEPS):
        begin = step * STEP
        host.event("train", begin, STEP, step_num=step, _r=1)
        start = 0
        for at_ in range(kernels):
            call = called + at_ * every
            start = max(start, call + 5)
            gpu.kernel(f"k{at_}", begin + start * US, work * US, called=begin + call * US)
            start += work
        if waits:
            host.event(waits[0], begin + waits[1] * US, (waits[2] - waits[1]) * US)
    return space


def found(space: SpaceBuilder, folder: Path) -> tuple[dict[str, Finding], dict[str, float]]:
    page = page_of(space, folder)
    row = next(page.table("devices").records())
    return {f.id: f for f in page.findings}, {key: value / US for key, value in row.items() if key.endswith("_ps")}


def test_a_host_that_waits_for_completion_launches_nothing_late(tmp_path: Path) -> None:
    """Kernels run in 105-505 of each step; the host is in the wait in 150-950, and launches again
    150 later. At the edges, 100 before the first launch and 50 behind the last wait are no gap's
    middle: the former without a wait.
    """
    findings, part = found(space_of(100, called=100, every=5, waits=("block_until_ready", 150, 950)), tmp_path)
    assert "late_launches" not in findings
    assert (part["judged_ps"], part["waited_ps"], part["after_ps"], part["late_ps"]) == (10_000, 4450, 9 * 150 + 50, 100)
    finding = findings["waits_for_device"]
    assert "was idle for 58% of the steps because the host waited" in finding.sentence
    assert "in block_until_ready." in finding.sentence
    assert finding.saving is not None
    assert finding.saving.high == pytest.approx((4450 + 1400) / 10_000)


def test_work_behind_a_wait_is_saved_as_far_as_the_device_can_cover_it(tmp_path: Path) -> None:
    """A step of 100 on the device, and 800 of Python behind a short wait: without the wait, the
    Python is still there.
    """
    findings, part = found(space_of(25, called=100, every=5, waits=("cuStreamSynchronize", 150, 210)), tmp_path)
    assert part["by_waiting_ps"] == part["waited_ps"] + part["busy_ps"]
    assert part["waited_ps"] == 50
    assert part["by_launching_ps"] == part["late_ps"] + part["after_ps"] - part["busy_ps"]
    late = findings["late_launches"].saving
    assert late is not None
    assert late.high == pytest.approx((100 + 9 * 890 + 790 - 1000) / 10_000)


def test_a_wait_that_another_thread_launches_in_is_not_the_cause(tmp_path: Path) -> None:
    """The training thread waits throughout; a worker launches each kernel 90 after the one before
    has ended.
    """
    space = SpaceBuilder()
    plane = space.plane("/host:CPU")
    host, worker = plane.line("python"), plane.line("worker")
    gpu = GpuBuilder(space, worker)
    for step in range(STEPS):
        begin = step * STEP
        host.event("train", begin, STEP, step_num=step, _r=1)
        host.event("block_until_ready", begin + 1 * US, STEP - 2 * US)
        for at in range(10):
            gpu.kernel("k", begin + (at * 100 + 95) * US, 5 * US, called=begin + (at * 100 + 90) * US)
    findings, part = found(space, tmp_path)
    assert set(findings) >= {"late_launches"}
    assert "waits_for_device" not in findings
    assert part["waited_ps"] < 0.02 * part["judged_ps"]


def test_a_host_that_runs_ahead_launches_nothing_late(tmp_path: Path) -> None:
    """Eight kernels of 80, launched in the first 40 of a step: seven of eight wait in the queue.
    The device is idle for 360 more, of which the host has launched nothing for 355.
    """
    findings, part = found(space_of(80, kernels=8, called=10, every=5), tmp_path)
    assert part["late_ps"] > 0.2 * part["judged_ps"]
    assert part["by_launching_ps"] == 0
    assert "late_launches" not in findings


def test_launches_one_by_one_are_late(tmp_path: Path) -> None:
    """Each kernel of 40 is launched 100 after the one before."""
    findings, part = found(space_of(40, kernels=8, called=100, every=100), tmp_path)
    assert part["by_launching_ps"] == part["late_ps"] == pytest.approx(0.65 * part["judged_ps"], rel=0.1)
    assert "waits_for_device" not in findings
    assert findings["late_launches"].saving is not None


def test_a_wait_that_comes_once_is_no_habit(tmp_path: Path) -> None:
    """In one step of ten the host waits for 4 ms."""
    space = SpaceBuilder()
    host = space.plane("/host:CPU").line("python")
    gpu = GpuBuilder(space, host)
    for step in range(STEPS):
        begin = step * 5 * STEP
        host.event("train", begin, 5 * STEP, step_num=step, _r=1)
        for at in range(40):
            if step == 3 and at > 4:
                continue
            gpu.kernel("k", begin + (at * 125 + 5) * US, 110 * US, called=begin + at * 125 * US)
        if step == 3:
            host.event("block_until_ready", begin + 4 * 125 * US + 2 * US, 4000 * US)
    findings, part = found(space, tmp_path)
    assert part["waited_ps"] > 3800
    assert part["by_waiting_ps"] == 0
    assert "waits_for_device" not in findings


def late_in(folder: Path, *did: tuple[str, int, int]) -> tuple[dict[str, Any], Finding]:
    """(the device's row, the finding) of steps of 1 ms whose kernels, 100 in all, are launched at
    800; `did`: (event, from, until) on the thread before that.
    """
    space = SpaceBuilder()
    host = space.plane("/host:CPU").line("python")
    gpu = GpuBuilder(space, host)
    for step in range(STEPS):
        begin = step * STEP
        host.event("train", begin, STEP, step_num=step, _r=1)
        for name, since, until in did:
            host.event(name, begin + since * US, (until - since) * US)
        gpu.kernel("k", begin + 805 * US, 100 * US, called=begin + 800 * US)
    page = page_of(space, folder)
    return next(page.table("devices").records()), next(f for f in page.findings if f.id == "late_launches")


def test_what_the_program_calls_its_work_is_why_launches_are_late(tmp_path: Path) -> None:
    """The device is idle from 905 of a step to 805 of the next, and 800 of the first."""
    row, finding = late_in(tmp_path, ("augment", 0, 790))
    assert (row["late_in"], row["late_own"]) == ("augment", True)
    assert row["late_in_ps"] == row["late_ps"] - 95 * US, "behind the last kernel of the last step nothing is recorded"
    assert "it was in augment for 99% of that time" in finding.sentence
    assert finding.action.startswith("Do augment ahead, for the next step, in another thread")


def test_of_several_things_the_one_with_most_time_is_named(tmp_path: Path) -> None:
    """One stands for a gap that it covers by half."""
    row, _ = late_in(tmp_path, ("load", 0, 200), ("augment", 200, 790))
    assert row["late_in"] == "augment"


def test_what_a_framework_calls_it_is_named_and_not_moved(tmp_path: Path) -> None:
    row, finding = late_in(tmp_path, ("PjitFunction(augment)", 0, 790))
    assert (row["late_in"], row["late_own"]) == ("PjitFunction(augment)", False)
    assert "it was in PjitFunction(augment) for" in finding.sentence
    assert finding.action.startswith("Shorten the host work between launches")


def test_a_mark_of_a_step_says_nothing_of_what_the_host_did(tmp_path: Path) -> None:
    row, finding = late_in(tmp_path)
    assert (row["late_in"], row["late_own"], row["late_in_ps"]) == (NO_ACTIVITY, False, row["late_ps"])
    assert "it was in Python, or in untraced work, for 100%" in finding.sentence.replace("work for", "work, for")


FRAMES = tuple((f"$train.py:{number} f{number}", 10 + number, 990 - number) for number in range(30))


@pytest.mark.parametrize(
    "around, name, own",
    [
        ((), "augment", True),
        ((("train", 5, 995),), "augment", True),
        ((("epoch", 5, 995),), "augment", True),
        (FRAMES, "augment", True),
        ((("PjitFunction(step)", 5, 995),), "augment", False),
        ((("epoch", 5, 995), ("model/dense/MatMul:MatMul", 6, 990)), "augment", False),
        ((), "PjitFunction(step)", False),
        ((), "map/resize:ResizeBilinear", False),
        ((), "Iterator::Map", False),
        ((), "MemcpyH2D", False),
        ((), "PjRtStreamExecutorClient::BufferFromHost", False),
        ((), "block_until_ready", False),
    ],
)
def test_which_events_are_a_programs_own(around: tuple[tuple[str, int, int], ...], name: str, own: bool) -> None:
    """No framework's, nor inside of any; frames of Python and marks of steps are passed over."""
    space = SpaceBuilder()
    host = space.plane("/host:CPU").line("python")
    for outer, since, until in around:
        stats: dict[str, Any] = {"step_num": 1, "_r": 1} if outer == "train" else {}
        host.event(outer, since * US, (until - since) * US, **stats)
    host.event(name, 500 * US, 10 * US)
    timeline = Run.from_traces([read_trace(space.to_bytes())]).hosts[0]
    (row,) = (r for r in timeline.trace.find_rows_by_name(lambda n: n == name) if timeline.trace.start[r] == 500 * US)
    assert is_user_annotation(timeline, int(row)) is own
