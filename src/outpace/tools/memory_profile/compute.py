# SPDX-License-Identifier: Apache-2.0
"""The memory tables: summary, timeline, breakdown at the peak, and room for a larger batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from outpace.model import Row, Table
from outpace.model.arrays import Column, Indices, Numbers, Values
from outpace.timeline import Run
from outpace.tools.memory_profile.breakdown import AllocationGroup, find_peak_allocations, merge_allocations
from outpace.tools.memory_profile.memory_log import MemoryLog
from outpace.tools.memory_profile.schema import BREAKDOWN, HEADROOM, MEMORIES, TIMELINE

MAX_POINTS = 2000  # rows of the timeline per memory, twice what XProf shows
MAX_POINTS_IN_ALL = 8000  # rows of the timeline of all memories, since an HTML report contains them
_MOST_TIMES = 8.0  # our choice: largest factor for which a linear estimate of the batch size is shown
_SCALING = ("temp", "output")  # region types that are assumed to scale with the batch size

MemoryLogs = Sequence[MemoryLog]


def sort_by_fullness(logs: MemoryLogs) -> list[MemoryLog]:
    """Return the logs by the share of the capacity in use at the peak, largest first.

    Logs without a capacity come last, by their peak.
    """

    def rank(log: MemoryLog) -> tuple[bool, float]:
        peak = float(log.bytes_in_use[log.peak_index])
        return log.capacity is not None, peak / log.capacity if log.capacity else peak

    return sorted(logs, key=rank, reverse=True)


def compute_memories(run: Run, logs: MemoryLogs) -> Table:
    """Return `MEMORIES`: one row per host and memory, the fullest first."""
    return MEMORIES.build([_memory(run, log) for log in sort_by_fullness(logs)])


def _memory(run: Run, log: MemoryLog) -> Row:
    """Return the row of `MEMORIES` for one log."""
    peak_index = log.peak_index
    peak, heap = int(log.bytes_in_use[peak_index]), int(log.heap[peak_index])
    live = log.find_live(peak_index)
    in_step = log.xprof_step[live] == log.xprof_step[peak_index]
    step, earlier = (int(np.maximum(log.allocated[live[mask]], 0).sum()) for mask in (in_step, ~in_step))
    begin, numbers = _begin_and_numbers(run, log)
    count = len(log)
    orphan = ~log.is_allocation & (log.partner < 0)
    open_ = log.is_allocation & (log.partner < 0)
    phase = int(log.xprof_step[peak_index])
    return MEMORIES.row(
        log,
        allocations=int(log.is_allocation.sum()),
        deallocations=int(count - log.is_allocation.sum()),
        capacity_bytes=np.nan if log.capacity is None else log.capacity,
        peak_heap_bytes=int(log.lifetime_peak.max()),
        peak_bytes=peak,
        peak_share=np.nan if log.capacity is None else peak / log.capacity,
        peak_time_ps=int(log.time[peak_index]) - begin,
        peak_step=int(numbers[phase]) if phase < len(numbers) and np.any(log.step >= 0) else None,
        stack_bytes=int(log.stack[peak_index]),
        heap_bytes=heap,
        free_bytes=int(log.free[peak_index]) if log.capacity is not None else np.nan,
        fragmentation=float(log.fragmentation[peak_index]),
        headroom_bytes=np.nan if log.capacity is None else log.capacity - peak,
        step_bytes=step,
        earlier_bytes=earlier,
        before_bytes=max(heap - step - earlier, 0),
        freed_before_bytes=int(np.maximum(log.allocated[orphan], 0).sum()),
        unfreed=int((open_ & (log.next_at_address == count)).sum()),
        missing=int((open_ & (log.next_at_address < count)).sum()),
    )


def _begin_and_numbers(run: Run, log: MemoryLog) -> tuple[int, Numbers]:
    """Return (time of the first event of the log's host in ps, numbers of the host's steps)."""
    timeline = run.by_host[log.host]
    return timeline.zero_ps, timeline.dispatch_steps[0].number


def compute_timeline(run: Run, logs: MemoryLogs) -> Table:
    """Return `TIMELINE`: for each memory, the fullest first, the events that `downsample`
    selects.
    """
    most = min(MAX_POINTS, MAX_POINTS_IN_ALL // max(len(logs), 1))
    parts = [_points(run, log, downsample(log, most)) for log in sort_by_fullness(logs)]
    return TIMELINE.from_columns(*parts)


def downsample(log: MemoryLog, limit: int = MAX_POINTS) -> Indices:
    """Return the positions of about `limit` events to show, in order of time.

    They are the events with most and with least memory in use in each of `limit / 2` stretches, and
    the first event, the last one and the peak.
    """
    count, stretches = len(log), max(limit // 2, 1)
    if count <= limit:
        return np.arange(count)
    stretch = np.arange(count) * stretches // count
    order = np.lexsort((log.bytes_in_use, stretch))  # within a stretch, in order of bytes in use
    ends = np.flatnonzero(np.diff(stretch, append=stretches))
    mask = np.zeros(count, bool)
    mask[order[ends]] = mask[order[np.append(0, ends[:-1] + 1)]] = True
    mask[[0, count - 1, log.peak_index]] = True
    return np.flatnonzero(mask)


def _points(run: Run, log: MemoryLog, rows: Indices) -> dict[str, Column]:
    """Return the columns of `TIMELINE` for some events of a log."""
    begin, numbers = _begin_and_numbers(run, log)
    sign = np.where(log.is_allocation[rows], 1, -1)
    step = np.full(len(rows), None, dtype=object)
    of_step = log.step[rows] >= 0
    step[of_step] = numbers[log.step[rows][of_step]].astype(object)
    return {
        "host": _constant_column(log.host, len(rows)),
        "memory": _constant_column(log.memory, len(rows)),
        "time_ps": log.time[rows] - begin,
        "event": np.array(["deallocation", "allocation"], dtype=object)[log.is_allocation[rows].astype(int)],
        "requested_bytes": _mask_unknown(log.requested[rows]) * sign,
        "allocated_bytes": _mask_unknown(log.allocated[rows]) * sign,
        "op": log.op[rows].texts(),
        "step": step,
        "region": log.region[rows].texts(),
        "data_type": log.data_type[rows].texts(),
        "shape": log.shape[rows].texts(),
        "in_use_bytes": log.bytes_in_use[rows],
        "stack_bytes": log.stack[rows],
        "heap_bytes": log.heap[rows],
        "free_bytes": log.free[rows].astype(np.float64) if log.capacity is not None else np.full(len(rows), np.nan),
        "fragmentation": log.fragmentation[rows],
    }


def _constant_column(text: str, count: int) -> Column:
    """Return a column that repeats one text."""
    return np.full(count, text, dtype=object)


def _mask_unknown(sizes: Numbers) -> Values:
    """Return sizes as floats, NaN where they are negative (not known)."""
    return np.where(sizes < 0, np.nan, sizes)


def format_memory_name(run: Run, log: MemoryLog) -> str:
    """Return the display name of a memory, with its host where the run has several."""
    name = f"device {log.memory}" if log.memory.isdecimal() else log.memory
    return f"{name} on {log.host}" if len(run.hosts) > 1 else name


def compute_breakdown(logs: MemoryLogs) -> Table:
    """Return `BREAKDOWN`: what is live at the peak of every memory, in XProf's rows; see
    `find_peak_allocations`.
    """
    return BREAKDOWN.build(row for log in sort_by_fullness(logs) for row in _breakdown_rows(log, find_peak_allocations(log)))


def compute_earlier_allocations(logs: MemoryLogs) -> Table:
    """Return the allocations of the capture that are live at the peak but were made before the
    peak's step, as `BREAKDOWN`, largest sum first for each memory.
    """
    rows: list[Row] = []
    for log in sort_by_fullness(logs):
        live = log.find_live(log.peak_index)
        allocations = merge_allocations(log, live[log.xprof_step[live] != log.xprof_step[log.peak_index]])
        rows += _breakdown_rows(log, sorted(allocations, key=lambda h: (-h.total_bytes, h.op, h.shape)))
    kind = replace(BREAKDOWN, name="earlier", title="Live at the peak, from earlier steps of the capture")
    return kind.build(rows)


def _breakdown_rows(log: MemoryLog, allocations: list[AllocationGroup]) -> Iterator[Row]:
    """Yield rows of `BREAKDOWN`.

    The share is missing where the allocations sum up to more than their allocator reports as in
    use.
    """
    peak = int(log.bytes_in_use[log.peak_index])
    has_share = peak > 0 and sum(allocation.total_bytes for allocation in allocations) <= peak
    for allocation in allocations:
        share = allocation.total_bytes / peak if has_share else np.nan
        yield BREAKDOWN.row(allocation, host=log.host, memory=log.memory, share=share)


def compute_headroom(logs: MemoryLogs) -> Table:
    """Return `HEADROOM`: an estimate of how many times the batch size should fit.

    What is live at the peak in the regions temp and output is assumed to scale with the batch size,
    the rest not. With capacity C, peak P, scaling bytes S and bytes of unknown region U, the factor
    is (C - (P - S - U)) / (S + U) if the unknown bytes scale too, else (C - (P - S)) / S. Where no
    memory has a region, all of it may scale: the factor is at least C / P, and has no upper bound.
    """
    return HEADROOM.build([_headroom_row(log) for log in sort_by_fullness(logs)])


def _headroom_row(log: MemoryLog) -> Row:
    """Return the row of `HEADROOM` for one log."""
    peak = int(log.bytes_in_use[log.peak_index])
    live = log.find_live(log.peak_index)
    region, size = log.region[live], np.maximum(log.allocated[live], 0)
    scales = np.fromiter((name in _SCALING for name in region.names), bool, len(region.names))[region.codes]
    scaling, unknown = int(size[scales].sum()), int(size[region.codes == 0].sum())
    low, high = np.nan, np.nan
    if log.capacity is not None and peak:
        room = log.capacity - peak
        low = 1 + room / (scaling + unknown if scaling else peak)
        high = 1 + room / scaling if scaling else np.nan
    return HEADROOM.row(
        log,
        capacity_bytes=np.nan if log.capacity is None else log.capacity,
        peak_bytes=peak,
        scaling_bytes=scaling,
        unknown_bytes=unknown,
        fixed_bytes=max(peak - scaling - unknown, 0),
        factor_low=low,
        factor_high=high,
        estimate=_format_estimate(log, scaling, low, high),
    )


def _format_estimate(log: MemoryLog, scaling: int, low: float, high: float) -> str:
    """Return the estimate as text.

    scaling: bytes that scale with the batch size
    low, high: bounds of the factor; NaN where not known
    """
    if log.capacity is None:
        return "not measurable: the allocator tells no limit"
    over = f"over {_MOST_TIMES:.0f} x"
    if not scaling:
        least = over if low > _MOST_TIMES else f"{low:.2g} x" if low == low else "nothing"
        return f"not measurable: no region types; {least} if all memory grows with it"
    if low > _MOST_TIMES:
        return over
    return f"{low:.2g} x" if high - low < 0.05 * low else f"{low:.2g} to {high:.2g} x"
