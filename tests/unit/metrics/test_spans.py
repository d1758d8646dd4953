"""Unions of spans, and the event that stands for a span, against a slow and simple search."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from outpace.metrics.spans import BusyTime, merge_sorted_spans
from outpace.testing import LineBuilder, SpaceBuilder
from outpace.tools.kernel_stats.activity import Activity, find_innermost
from outpace.trace import Trace, open_trace

SPANS = (np.array([0, 2, 10, 12, 30]), np.array([5, 3, 12, 15, 31]))


def test_a_moment_in_a_span_goes_back_to_its_start() -> None:
    """An edge is not inside."""
    times = np.array([0, 1, 5, 7, 11, 15, 16, 40])
    assert BusyTime.from_sorted_spans(*SPANS).snap_to_start(times).tolist() == [0, 0, 5, 7, 10, 15, 16, 40]
    assert BusyTime.from_sorted_spans(SPANS[0][:0], SPANS[1][:0]).snap_to_start(times).tolist() == times.tolist()


def test_merged_joins_what_overlaps_or_touches() -> None:
    start, end = merge_sorted_spans(*SPANS)
    assert start.tolist() == [0, 10, 30]
    assert end.tolist() == [5, 15, 31]
    empty = np.zeros(0, np.int64)
    assert [len(part) for part in merge_sorted_spans(empty, empty)] == [0, 0]


def test_busy_time_counts_every_moment_once() -> None:
    busy = np.zeros(40, int)
    for low, high in zip(*SPANS, strict=True):
        busy[low:high] = 1
    times = np.arange(-3, 40)
    assert BusyTime.from_sorted_spans(*SPANS).busy_until(times).tolist() == [int(busy[: max(t, 0)].sum()) for t in times]
    assert BusyTime.from_sorted_spans(np.zeros(0, int), np.zeros(0, int)).busy_until(times).tolist() == [0] * len(times)


def nested(line: LineBuilder, random_: random.Random, low: int, high: int, depth: int) -> None:
    """Random events in [low, high), each with random events inside."""
    at = low
    while at < high and depth:
        at += random_.randrange(0, 8)
        end = min(at + random_.randrange(1, 30), high)
        if at >= end:
            return
        line.event(f"e{depth}", at, end - at)
        nested(line, random_, at, end, depth - 1)
        at = end


def slow(trace: Trace, start: int, end: int) -> tuple[int, int]:
    """(row, part) by the definition: of the events that cover half the last to begin (longest
    first), else the largest if all cover half.
    """
    half, best, covered = (-1, 0), (-1, 0), np.zeros(end - start, bool)
    for row, (low, high) in enumerate(zip(trace.start[:].tolist(), trace.end[:].tolist(), strict=True)):
        part = min(high, end) - max(low, start)
        if part <= 0:
            continue
        covered[max(low, start) - start : min(high, end) - start] = True
        if 2 * part >= end - start:
            half = (row, part)
        if part > best[1]:
            best = (row, part)
    if half[0] >= 0:
        return half
    return best if 2 * covered.sum() >= end - start else (-1, 0)


@pytest.mark.parametrize("seed", range(20))
def test_innermost_is_what_a_slow_search_finds(seed: int, tmp_path: Path) -> None:
    """Where two events cover equally much, either may be named: the parts are compared, and rows
    where half is covered.
    """
    random_, space = random.Random(seed), SpaceBuilder()
    nested(space.plane("/host:CPU").line("a"), random_, 0, 400, 4)
    trace = open_trace(space.write(tmp_path))
    bounds = sorted(random_.sample(range(430), 40))
    start, end = np.array(bounds[::2]), np.array(bounds[1::2])
    found = find_innermost(trace, 0, start, end)
    for i in range(len(start)):
        row, part = slow(trace, int(start[i]), int(end[i]))
        assert (found.rows[i] >= 0) == (row >= 0)
        assert found.covered_ps[i] == part
        if 2 * part > end[i] - start[i]:
            assert found.rows[i] == row


def test_a_line_without_events_covers_nothing(tmp_path: Path) -> None:
    space = SpaceBuilder()
    plane = space.plane("/host:CPU")
    plane.line("empty")
    plane.line("full").event("e", 0, 10)
    found = find_innermost(open_trace(space.write(tmp_path)), 0, np.array([0]), np.array([10]))
    assert found.rows.tolist() == [-1]


def test_better_prefers_standing_then_cover_then_the_first() -> None:
    standing = np.array([0, 2, 1, 1])
    first = Activity(np.array([2, 2, 1, -1, 2]), np.array([5, 5, 1, 0, 5]))
    second = Activity(np.array([1, 3, 2, 0, 3]), np.array([1, 6, 9, 1, 5]))
    best = first.merge(second, lambda rows: standing[rows])
    assert best.rows.tolist() == [1, 3, 1, 0, 2]
    assert best.covered_ps.tolist() == [1, 6, 1, 1, 5]
