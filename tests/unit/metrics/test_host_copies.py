"""Copies to the device, on threads that take turns."""

from __future__ import annotations

from outpace.metrics.host_copies import host_copies
from outpace.testing import SpaceBuilder
from outpace.timeline import Run
from outpace.trace import read_trace

MS = 1_000_000_000


def test_copies_of_several_threads_are_counted_in_their_steps() -> None:
    space = SpaceBuilder()
    plane = space.plane("/host:CPU")
    main, late, early = plane.line("python"), plane.line("client/1"), plane.line("client/2")
    for number in range(8):
        begin = number * 10 * MS
        main.event("train", begin, 10 * MS, step_num=number, _r=1)
        thread = late if number >= 5 else early
        thread.event("H2D Dispatch", begin + MS, 3 * MS)
        thread.event("H2D Dispatch", begin + 5 * MS, 3 * MS)
    (row,) = host_copies(Run.of([read_trace(space.to_bytes(), "vm")])).records()
    assert (row["copies"], row["copied_ps"], row["share"]) == (2.0, 6 * MS, 0.6)
