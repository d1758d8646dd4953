"""A trace of events that are Python objects."""

from __future__ import annotations

import numpy as np
import pytest

from outpace.trace import Damage, Event, build_trace, dialect

EVENTS = (
    Event("/device:GPU:0", "Stream #1", "kernel", 20, 5),
    Event(dialect.HOST_PLANE, "python", "op", 10, 5, {"shape": "4x4"}),
    Event(dialect.HOST_PLANE, "python", "step", 10, 30, {dialect.STEP_NUM: 7}),
    Event(dialect.HOST_PLANE, "pool", "op", 0, 1),
)


def test_events_stand_by_plane_line_and_start_the_longer_first() -> None:
    trace = build_trace(EVENTS, host="a", source="a.csv")
    names = [trace.names[code] for code in trace.name[:].tolist()]
    places = [
        (trace.planes[int(trace.lines.plane[line])].name, trace.lines.names[line])
        for line in trace.line[np.arange(len(trace))].tolist()
    ]
    assert list(zip(places, names, trace.start[:].tolist(), trace.duration[:].tolist(), strict=True)) == [
        (("/device:GPU:0", "Stream #1"), "kernel", 20, 5),
        ((dialect.HOST_PLANE, "pool"), "op", 0, 1),
        ((dialect.HOST_PLANE, "python"), "step", 10, 30),
        ((dialect.HOST_PLANE, "python"), "op", 10, 5),
    ]
    assert [list(plane.lines) for plane in trace.planes] == [[0], [1, 2]]
    assert trace.parent[:].tolist() == [-1, -1, -1, 2]


def test_stats_stand_at_their_events() -> None:
    trace = build_trace(EVENTS, host="a", source="a.csv")
    assert (trace.stat(dialect.STEP_NUM).rows.tolist(), trace.stat(dialect.STEP_NUM).ints.tolist()) == ([2], [7])
    assert (trace.stat("shape").rows.tolist(), trace.stat("shape").texts()) == ([3], ["4x4"])
    assert len(trace.stat("none of these")) == 0


def test_a_trace_may_be_empty() -> None:
    assert len(build_trace((), host="a", source="a.csv")) == 0


def test_times_may_count_from_1970() -> None:
    since = 1_764_000_000 * 10**12 + 7
    moved = [event._replace(start_ps=event.start_ps + since) for event in EVENTS]
    trace = build_trace(moved, host="a", source="a.csv", is_truncated=True)
    assert (trace.origin_ns, trace.is_truncated) == (since // 1000, True)
    assert trace.start[:].tolist() == [27, 7, 17, 17]


@pytest.mark.parametrize(
    ("start", "duration"),
    [(-(10**20), 1), (10**30, 1), (5, -1), (5, 10**19)],
    ids=["long before", "far ahead", "backwards", "for ever"],
)
def test_impossible_times_are_damage(start: int, duration: int) -> None:
    odd = Event("p", "l", "odd", start, duration)
    trace = build_trace((*EVENTS, odd), host="a", source="a.csv", damages=[Damage("line 3", 7, 1, "")])
    assert len(trace) == len(EVENTS) and "odd" not in trace.names
    assert [damage.description for damage in trace.damages] == ["line 3", "1 event of impossible times, left out"]
