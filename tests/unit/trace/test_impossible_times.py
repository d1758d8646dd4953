"""Times that no capture has: they move nothing, and sums of them stay in range."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from outpace import api
from outpace.testing import SpaceBuilder, training_run
from outpace.timeline import Run
from outpace.trace import Trace, read_trace

MS = 1_000_000_000


def trace_with(*odd: tuple[int, int]) -> Trace:
    space = SpaceBuilder("vm")
    line = space.plane("/host:CPU").line("python", timestamp_ns=1_000_000)
    for start, duration in ((10 * MS, 5 * MS), (20 * MS, 9 * MS), *odd):
        line.event("step", start, duration)
    return read_trace(space.to_bytes())


def test_an_event_weeks_away_becomes_an_instant_at_the_end_of_the_others() -> None:
    trace = trace_with((1 << 62, 7), (-(1 << 62), 7))
    assert trace.start[:].tolist() == [10 * MS, 10 * MS, 20 * MS, 29 * MS]
    assert trace.duration[:].tolist() == [0, 5 * MS, 9 * MS, 0]
    assert Run.from_traces([trace]).hosts[0].span_ps == (10 * MS, 29 * MS)


def test_an_event_that_lasts_for_weeks_ends_with_the_others() -> None:
    trace = trace_with((15 * MS, 1 << 61), (15 * MS, 3 * MS))
    assert (int(trace.start[1]), int(trace.duration[1])) == (15 * MS, 14 * MS)
    assert trace.parent[:].tolist() == [-1, -1, 1, 1]


def test_the_reader_is_told_of_them() -> None:
    assert [loss.description for loss in trace_with((1 << 61, 0), (0, 1 << 60)).damages] == [
        "2 events with impossible times: they were clamped"
    ]
    assert trace_with().damages == ()


def test_sums_stay_in_range(tmp_path: Path) -> None:
    space = training_run(steps=4, work_ps={"ParallelMapV2": 2 * MS})
    plane = space.plane("/host:CPU").line("pool")
    for at in range(8):
        plane.event("resize/Resize:Resize", at, 1 << 61)
    with np.errstate(all="raise"), api.open(space.write(tmp_path)) as profile:
        assert [page.failure for page in profile.report().pages if page.failure] == []


def test_only_impossible_times_are_no_time() -> None:
    space = SpaceBuilder("vm")
    space.plane("/host:CPU").line("python").event("step", 1 << 62, 1 << 61)
    trace = read_trace(space.to_bytes())
    assert (trace.start[:].tolist(), trace.duration[:].tolist()) == ([0], [0])
