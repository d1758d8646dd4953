"""Steps of a GPU's program, whose step line ends with whatever ran before the capture was over."""

from __future__ import annotations

import pytest

from outpace.testing import SpaceBuilder
from outpace.testing.gpu import GpuBuilder
from outpace.timeline import Timeline
from outpace.timeline.steps import StepSource
from outpace.trace import read_trace

US = 1_000_000
CALL, APART = 3000 * US, 10_000 * US  # a call of a train function, and from one to the next
KERNEL = 2000 * US  # as long as the second of two kernels takes


def captured(calls: int, ends: int, *, goodbye: str = "WriteSummary", hosts: bool = True, ops: bool = True) -> Timeline:
    """`calls` of a function whose last kernel each ends `ends` after the call began, then an op
    with a kernel and `goodbye`.
    """
    space = SpaceBuilder()
    host = space.plane("/host:CPU").line("python3")
    gpu = GpuBuilder(space, host)
    for at in (APART * number for number in range(calls)):
        if hosts:
            host.event("train_function", at, CALL, tf_function_call="notTraced-nonXla")
        gpu.kernel("first", at + ends - KERNEL - 1000 * US, 500 * US, called=at + 800 * US if hosts else None)
        gpu.kernel("second", at + ends - KERNEL, KERNEL, called=at + 900 * US if hosts else None)
    behind = APART * calls + 25_000 * US
    if ops:
        host.event("TFE_Py_FastPathExecute_C", behind, 500 * US)
        host.event("EagerExecute: LogicalAnd", behind + US, 400 * US)
        gpu.kernel("LogicalAnd", behind + 200 * US, 5 * US, called=behind + 100 * US if hosts else None)
    host.event("cuStreamSynchronize", behind + 450 * US, 10 * US)
    host.event(f"{goodbye}:{goodbye}", behind + 1000 * US, 100 * US)
    begin, end = ends - KERNEL - 1000 * US, behind + 205 * US
    steps = space.plane("/device:GPU:0").line("Steps")
    for number in range(calls):
        first = APART * number + begin
        steps.event(str(number), first, (APART * (number + 1) + begin if number < calls - 1 else end) - first)
    return Timeline(read_trace(space.to_bytes()))


def test_a_step_ends_with_the_last_of_its_own_kernels() -> None:
    steps = captured(1, 8300 * US).steps
    assert (steps.start.tolist(), steps.end.tolist()) == ([0], [8300 * US])
    assert steps.source is StepSource.INFERRED and "1 call of train_function" in steps.explanation


def test_the_last_step_is_as_long_as_its_work_where_the_host_runs_ahead() -> None:
    steps = captured(4, 12_000 * US).steps
    assert steps.duration[1:].tolist() == [APART] * 3


@pytest.mark.parametrize("ends", [8300 * US, 12_000 * US])
def test_what_is_launched_long_behind_the_last_call_is_no_part_of_its_step(ends: int) -> None:
    """35 ms behind, where the next call would have come after 10: the last step took 30 ms more
    than the others.
    """
    steps = captured(3, ends, goodbye="AssignAdd").steps
    assert steps.duration[-1] <= APART


def test_logs_that_no_op_of_the_script_comes_before() -> None:
    assert captured(1, 8300 * US, ops=False).steps.end.tolist() == [8300 * US]


def test_where_no_call_is_seen_the_step_line_tells() -> None:
    steps = captured(2, 8300 * US, hosts=False).steps
    assert steps.source is StepSource.DEVICE_LINE and len(steps) == 2


def behind(lags: list[int], late: int = 0) -> Timeline:
    """Calls of 3 ms, 10 ms apart, each of which launches a kernel of 1 ms so long (µs) behind its
    end; and one more, `late` behind the last call's end, of a call that the capture's end cut off.
    """
    space = SpaceBuilder()
    host = space.plane("/host:CPU").line("python3")
    gpu = GpuBuilder(space, host)
    for number, lag in enumerate(lags):
        at = APART * number
        host.event("train_function", at, CALL, tf_function_call="notTraced-nonXla")
        gpu.kernel("gemm", at + CALL + lag * US + 10 * US, 1000 * US, called=at + CALL + lag * US)
    if late:
        end = APART * (len(lags) - 1) + CALL
        gpu.kernel("next", end + late * US + 10 * US, 4000 * US, called=end + late * US)
    return Timeline(read_trace(space.to_bytes()))


@pytest.mark.parametrize("lags", [[500] * 6, [500, 520, 480, 510, 500, 700], [6000] * 6])
def test_what_every_step_launches_behind_its_call_is_its_own(lags: list[int]) -> None:
    steps = behind(lags).steps
    last = APART * 5 + CALL + (lags[-1] + 10 + 1000) * US - (lags[-2] + 1010) * US
    assert steps.end[-1] == max(last, APART * 5 + CALL) and steps.complete[-1]


@pytest.mark.parametrize("late", [2000, 7100, 40_000])
def test_what_a_call_launched_that_the_capture_cut_off_is_nobodys(late: int) -> None:
    """Its own event is missing, as that is written when the call ends: the last step took as long
    as two or three.
    """
    assert behind([500] * 6, late).steps.end.tolist() == behind([500] * 6).steps.end.tolist()
