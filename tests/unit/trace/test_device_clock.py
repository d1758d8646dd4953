"""Events of TPUs have the times of the devices' own clock."""

from __future__ import annotations

import pytest

from outpace.testing import SpaceBuilder
from outpace.trace import Trace, read_trace

US = 1_000_000


def device(*ops: tuple[int, int, int, int], name: str = "/device:TPU:0") -> Trace:
    """Ops (start and length on the host's clock, then on the device's, us) of two runs of a program
    from 0 to 40 and from 40 to 90 us on the host's clock.
    """
    space = SpaceBuilder("vm")
    plane = space.plane(name)
    modules, line = plane.line("XLA Modules"), plane.line("XLA Ops")
    for begin, end in ((0, 40), (40, 90)):
        modules.event("jit_f", begin * US, (end - begin) * US)
    for number, (start, length, own, own_length) in enumerate(ops):
        stats = {"device_offset_ps": own * US, "device_duration_ps": own_length * US}
        line.event(f"op{number}", start * US, length * US, **stats)
    return read_trace(space.to_bytes(), "vm")


def times(trace: Trace) -> list[list[tuple[int, int]]]:
    """(start, end) of the events of each line, us."""
    rows = [trace.lines.row_numbers(line) for line in range(len(trace.lines))]
    return [list(zip((trace.start[r] // US).tolist(), (trace.end[r] // US).tolist(), strict=True)) for r in rows]


STRETCHED = ((0, 20, 0, 20), (20, 20, 20, 25), (40, 30, 45, 20), (70, 20, 65, 25))


def test_ops_and_what_lies_around_them_move_to_the_devices_clock() -> None:
    assert times(device(*STRETCHED)) == [[(0, 45), (45, 90)], [(0, 20), (20, 45), (45, 65), (65, 90)]]


def test_before_the_first_op_and_after_the_last_both_clocks_run_alike() -> None:
    late = times(device((10, 10, 12, 10), (20, 60, 22, 60)))
    assert late[0][0][0] == 2 and late[0][1][1] == 92


def test_a_line_stays_in_the_order_of_the_file() -> None:
    assert times(device((0, 20, 0, 20), (20, 5, 30, 5), (25, 5, 28, 7)))[1] == [(0, 20), (30, 35), (30, 35)]


@pytest.mark.parametrize("ops", [((0, 20, -5, 20), (20, 20, 20, 25)), ((0, 20, 0, 20),), ()], ids=["damaged", "one op", "none"])
def test_what_states_no_clock_stays(ops: tuple[tuple[int, int, int, int], ...]) -> None:
    assert times(device(*ops))[0] == [(0, 40), (40, 90)]


def test_other_devices_stay() -> None:
    assert times(device(*STRETCHED, name="/device:GPU:0"))[1] == [(0, 20), (20, 40), (40, 70), (70, 90)]
