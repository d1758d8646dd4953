"""Programs that launch faster than their GPU computes: steps are those of its work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from outpace import api
from outpace.testing import GpuBuilder, LineBuilder, SpaceBuilder
from outpace.timeline import Confidence, Run, Steps, StepSource, Timeline
from outpace.trace import read_trace
from tests.unit.tools_memory_profile.memory_samples import Memory

MS = 1_000_000_000
STEPS, MARK, WORK = 12, 1 * MS, 5 * MS


@dataclass
class Host:
    """A loop that launches `kernels` of 1 ms each step, one of them late in it; a GPU that runs
    them one behind the other.
    """

    kernels: int = 5
    mark: int = MARK
    waits: int = -1
    """Each step waits for the one as many steps before it (0: for its own), if it is 0 or more."""
    marks: bool = True

    def __post_init__(self) -> None:
        self.space = SpaceBuilder()
        self.line: LineBuilder = self.space.plane("/host:CPU").line("python")
        self.gpu = GpuBuilder(self.space, self.line)
        self.at = self.free = self.number = 0
        self.done: list[int] = []

    def step(self, kernels: int | None = None, cut: int = 0) -> Host:
        """A step; `cut`: so many of its kernels are not in the capture."""
        number, begin = self.number, self.at
        count = self.kernels if kernels is None else kernels
        self.line.event("PjitFunction(step)", begin + MS // 10, MS // 2)
        for kernel in range(count):
            called = begin + MS // 5 + kernel * MS // 20
            self.free = max(self.free, called + MS // 50) + MS
            if kernel < count - cut:
                self.gpu.kernel(f"k{kernel}", self.free - MS, MS, called=called, call_ps=MS // 50)
            else:
                self.line.event("cuLaunchKernel", called, MS // 50)
        self.done.append(self.free)
        self.at = begin + self.mark
        if 0 <= self.waits <= number and self.done[number - self.waits] > self.at:
            self.line.event("block_until_ready", self.at, self.done[number - self.waits] - self.at)
            self.at = self.done[number - self.waits]
        if self.marks:
            self.line.event("train", begin, self.at - begin, step_num=100 + number, _r=1)
        self.number += 1
        return self

    def steps(self, count: int = STEPS, **how: Any) -> Host:
        for _ in range(count):
            self.step(**how)
        return self

    @property
    def timeline(self) -> Timeline:
        return Run.from_traces([read_trace(self.space.to_bytes())]).hosts[0]

    @property
    def found(self) -> Steps:
        return self.timeline.steps


def test_steps_are_end_to_end_of_the_devices_work() -> None:
    """The first begins with its first kernel; numbers, and how sure they are, are those of the
    marks.
    """
    steps = Host().steps().found
    first = MS // 5 + MS // 50
    assert steps.async_dispatch
    assert (steps.start[0], steps.start[1:].tolist()) == (first, steps.end[:-1].tolist())
    assert steps.duration.tolist() == [WORK] * STEPS
    assert steps.number.tolist() == list(range(100, 100 + STEPS))
    assert steps.complete.all()
    assert steps.source is StepSource.MARKED and steps.confidence is Confidence.CERTAIN
    assert steps.explanation.startswith("12 step markers 'train'") and "end to end of what devices did" in steps.explanation


def test_what_a_device_does_in_a_step_belongs_to_it() -> None:
    """Launched in the step's mark, done long after it."""
    timeline = Host().steps().timeline
    rows = timeline.launches[1]
    rows = rows[np.argsort(timeline.trace.start[rows])]
    assert timeline.step_index[rows].tolist() == [number for number in range(STEPS) for _ in range(5)]


def test_what_no_launch_leads_to_belongs_to_the_step_in_whose_time_it_begins() -> None:
    """Also on a line whose other kernels have their launches."""
    host = Host().steps()
    host.gpu.kernel("memset", 8 * MS, MS // 10, stream=7).kernel("other", 14 * MS, MS // 10, stream=9)
    timeline = host.timeline
    assert [
        int(timeline.step_index[timeline.trace.find_rows_by_name(lambda n, k=k: n == k)][0]) for k in ("memset", "other")
    ] == [1, 2]


def test_a_kernel_that_begins_behind_the_last_step_belongs_to_none() -> None:
    host = Host().steps()
    host.gpu.kernel("goodbye", host.free + MS, MS)
    timeline = host.timeline
    assert timeline.step_index[timeline.trace.find_rows_by_name(lambda n: n == "goodbye")].tolist() == [-1]


@pytest.mark.parametrize("waits, ahead", [(0, False), (1, False), (2, True)])
def test_a_host_that_waits_keeps_its_marks(waits: int, ahead: bool) -> None:
    """For this step, or for the one before it, as loops do that read the last loss; waiting for the
    one before that lets it run ahead.
    """
    steps = Host(waits=waits).steps().found
    assert steps.async_dispatch is ahead
    assert ahead or steps.explanation == "12 step markers 'train' in the profile"


@pytest.mark.parametrize("quick, ahead, near", [(0, True, False), (5, True, True), (6, False, True), (10, False, False)])
def test_work_must_be_behind_in_most_of_the_steps(quick: int, ahead: bool, near: bool) -> None:
    """Of the eleven steps that another follows, as many as `quick` are done before it is over."""
    host = Host()
    for number in range(STEPS):
        host.step(kernels=5 if number >= quick else 1)
        if number < quick:
            host.at = max(host.at, host.free)
    steps = host.found
    assert steps.async_dispatch is ahead
    assert ["left to its steps" in s or "taken for the steps" in s for s in steps.borderline] == [True] * near


@pytest.mark.parametrize("cut, whole", [(0, True), (1, False)])
def test_a_step_whose_kernels_the_capture_cuts_off_is_not_complete(cut: int, whole: bool) -> None:
    steps = Host().steps(STEPS - 1).step(cut=cut).found
    assert steps.async_dispatch
    assert steps.complete.tolist() == [True] * (STEPS - 1) + [whole]


def test_steps_whose_work_begins_when_the_capture_is_over_are_none() -> None:
    steps = Host().steps(8).step(cut=3).steps(4, cut=5).found
    assert steps.async_dispatch
    assert steps.number.tolist() == list(range(100, 109))
    assert steps.complete.tolist() == [True] * 8 + [False]


@pytest.mark.parametrize("left, ahead", [(3, False), (4, True)])
def test_a_few_steps_say_nothing(left: int, ahead: bool) -> None:
    assert Host().steps(left).found.async_dispatch is ahead
    assert Host().steps(left).steps(STEPS - left, cut=5).found.async_dispatch is ahead


@pytest.mark.parametrize("before", [0, 5])
def test_a_step_before_others_in_which_no_device_works_keeps_the_marks(before: int) -> None:
    steps = Host().steps(before).step(kernels=0).steps(6).found
    assert not steps.async_dispatch
    assert steps.duration.tolist() == [MARK] * (before + 7)


def test_steps_of_which_a_later_one_is_done_first_keep_the_marks() -> None:
    """Two streams, of which one works off the steps in another order."""
    host = Host().steps(5)
    host.gpu.kernel("slow", host.free, 20 * MS, called=host.at - MS // 2, stream=9)
    assert not host.steps(6).found.async_dispatch


def test_copies_do_not_tell_when_a_step_is_done() -> None:
    """Batches that are on their way to later steps: the step's own kernel is done in its time."""
    host = Host()
    for number in range(STEPS):
        host.gpu.copy("H2D", 1_000_000, number * WORK + MS, WORK, called=host.at + MS // 10)
        host.step(kernels=1)
    assert not host.found.async_dispatch


def test_what_is_launched_behind_the_last_step_is_none_of_it() -> None:
    """An evaluation, say, of half a second."""
    host = Host().steps()
    host.gpu.kernel("evaluate", host.free, 500 * MS, called=host.at + MS)
    assert host.found.duration.tolist() == [WORK] * STEPS


def test_inferred_steps_run_ahead_too() -> None:
    """The first begins with the first kernel; the host's calls tell 1 ms."""
    host = Host(marks=False).steps()
    host.line.event("block_until_ready", host.at, host.free - host.at)
    steps = host.found
    assert steps.async_dispatch and steps.source is StepSource.INFERRED
    assert steps.explanation.startswith("12 calls of PjitFunction(step) on thread python")
    assert steps.duration.tolist() == [WORK] * STEPS
    assert steps.number.tolist() == list(range(STEPS))


def test_memory_is_judged_by_the_steps_in_which_work_is_handed_over() -> None:
    """Allocated when a step is launched, and never freed: all of it in the time of the first three
    of the device's steps.
    """
    host = Host()
    memory = Memory(host.space, capacity=10_000)
    memory.threads = [host.line]
    for number in range(STEPS):
        memory.take(host.at + MS // 2, 1000 + number, 100)
        host.step()
    timeline = host.timeline
    assert timeline.steps.async_dispatch and not timeline.dispatch_steps[0].async_dispatch
    page = api.Profile(Run.from_traces([timeline.trace])).page("memory_profile")
    assert page.table("step_ends")["in_use_bytes"].tolist() == [100 * (number + 1) for number in range(STEPS)]
    assert page.table("step_ends")["step"].tolist() == list(range(100, 100 + STEPS))
    assert page.table("growth")["leak"].tolist() == [True]


def test_where_the_host_keeps_pace_its_steps_are_the_only_ones() -> None:
    timeline = Host(waits=0).steps().timeline
    steps, step_of = timeline.dispatch_steps
    assert steps is timeline.steps
    assert step_of is timeline.step_index
