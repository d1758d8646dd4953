# SPDX-License-Identifier: Apache-2.0
"""Growth of the memory in use from step to step, and the ops that leave memory allocated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from outpace.model import Row, Table, Threshold, Unit
from outpace.model.arrays import Values
from outpace.timeline import Run, Timeline
from outpace.tools.memory_profile.dictionary_column import group_by_keys
from outpace.tools.memory_profile.memory_log import MemoryLog
from outpace.tools.memory_profile.schema import GROWTH, STEP_ENDS, UNFREED

MIN_STEPS = Threshold("steps needed to speak of growth", 5, Unit.COUNT, "our choice: fewer cannot tell a trend from warm-up")
RISING_SHARE = Threshold(
    "share of steps that rise", 0.8, Unit.FRACTION, "our choice: most steps, in both halves of the capture"
)
RETAINED_SHARE = Threshold(
    "share of the rises that is not given back",
    0.5,
    Unit.FRACTION,
    "our choice: a list that is cleared now and then is no leak",
)
MIN_GROWTH = Threshold(
    "growth over the capture, of the peak", 0.05, Unit.FRACTION, "our choice: less is noise of prefetched batches"
)


def compute_step_ends(run: Run, logs: Sequence[MemoryLog]) -> Table:
    """Return `STEP_ENDS`: the memory in use at the end of every whole step, by host and memory."""
    return STEP_ENDS.build(row for log in logs for row in _step_end_rows(_timeline(run, log), log))


def _timeline(run: Run, log: MemoryLog) -> Timeline:
    """Return the timeline of the log's host."""
    return run.by_host[log.host]


def _step_end_rows(timeline: Timeline, log: MemoryLog) -> Iterator[Row]:
    """Yield rows of `STEP_ENDS` for one log."""
    steps, _ = timeline.dispatch_steps
    whole = steps.complete_rows
    last = np.searchsorted(log.time, steps.end[whole], side="right") - 1
    is_known = last >= 0  # before the first event the memory in use is not known
    whole, last = whole[is_known], last[is_known]
    # A step covers the state at its start and every event until its end.
    before = np.append(np.maximum(np.searchsorted(log.time, steps.start[whole[:1]], side="left") - 1, 0), last[:-1])
    if len(last) == 0:
        return
    bounds = np.stack((before, np.maximum(last, before) + 1), axis=1).ravel()
    used = np.append(log.bytes_in_use, log.bytes_in_use[-1])  # a bound may be one behind the last event
    low, high = (reduce.reduceat(used, bounds)[::2] for reduce in (np.minimum, np.maximum))
    numbers = steps.number[whole]
    for number, end, least, most in zip(
        numbers.tolist(), log.bytes_in_use[last].tolist(), low.tolist(), high.tolist(), strict=True
    ):
        yield STEP_ENDS.row(log, step=number, in_use_bytes=end, low_bytes=least, high_bytes=most)


def compute_growth(step_ends: Table, logs: Sequence[MemoryLog]) -> Table:
    """Return `GROWTH`: one row per memory with at least two whole steps, by growth per step,
    fastest first.
    """
    rows = []
    for log in logs:
        used = step_ends.filter_by("host", log.host).filter_by("memory", log.memory)["in_use_bytes"].astype(np.float64)
        if len(used) >= 2:
            rows.append({"host": log.host, "memory": log.memory, **_trend(used, float(log.bytes_in_use[log.peak_index]))})
    return GROWTH.build(rows).sort_by("per_step_bytes")


def _trend(used: Values, peak: float) -> Row:
    """Return (steps, rising, first, last, grown, slope, leak) of the memory in use at step ends.

    used: bytes in use at the end of each step
    peak: bytes in use at the peak

    The slope is that of least squares: sum((x - mean x) y) / sum((x - mean x)^2) with x = 0, 1, ...
    """
    count = len(used)
    place = np.arange(count) - (count - 1) / 2
    slope = float((place * used).sum() / (place * place).sum())
    change = np.diff(used)
    up = change > 0
    grown = float(used[-1] - used[0])
    later = up[len(up) // 2 :]
    steady = min(float(up.mean()), float(later.mean())) >= RISING_SHARE.value
    is_retained = grown >= RETAINED_SHARE.value * float(change[up].sum())
    leak = bool(
        count >= MIN_STEPS.value and steady and is_retained and slope > 0 and grown >= MIN_GROWTH.value * max(peak, 1.0)
    )
    return {
        "steps": count,
        "rising": float(up.mean()),
        "first_bytes": int(used[0]),
        "last_bytes": int(used[-1]),
        "grown_bytes": int(grown),
        "per_step_bytes": slope,
        "leak": leak,
    }


def compute_unfreed(run: Run, logs: Sequence[MemoryLog]) -> Table:
    """Return `UNFREED`: allocations of whole steps before the last one that were not freed in the
    capture, by op, largest sum first.

    Allocations of the last step are left out, since they may be freed right after the capture.
    """
    rows = sorted(
        (row for log in logs for row in _unfreed_rows(_timeline(run, log), log)),
        key=lambda row: (-row["total_bytes"], *(row[name] for name in UNFREED.key)),
    )
    return UNFREED.build(rows)


def _unfreed_rows(timeline: Timeline, log: MemoryLog) -> Iterator[Row]:
    """Yield rows of `UNFREED` for one log."""
    steps, _ = timeline.dispatch_steps
    judged = np.zeros(len(steps) + 1, bool)  # the last item is for events of no step (step -1)
    judged[steps.complete_rows[:-1]] = True
    mask = log.is_allocation & (log.next_at_address == len(log)) & judged[log.step]
    rows = np.flatnonzero(mask)
    whole = int(judged.sum())
    for group in group_by_keys(rows, *(words.codes[rows] for words in (log.op, log.region, log.data_type, log.shape))):
        first, size = group[0], int(np.maximum(log.allocated[group], 0).sum())
        described = {name: getattr(log, name).text_at(first) for name in ("op", "region", "data_type", "shape")}
        behind = int(np.count_nonzero(np.bincount(log.step[group])))
        numbers = {"occurrences": len(group), "total_bytes": size, "steps": behind, "per_step_bytes": size / whole}
        yield {"host": log.host, "memory": log.memory, **described, **numbers}
