# SPDX-License-Identifier: Apache-2.0
"""Times of TPUs on the devices' own clock.

A TPU's events are written on the host's clock, to which they were fitted piece by piece: some are
stretched, others cut short, and steps of 784.1 ms within 0.04 become 676 to 982 ms. Beside that,
each event of a line of ops has its start and duration as the device counted them. All events of the
device are moved to that clock; what has no time of its own (steps, programs, scopes) lies between
the ops as before.
"""

from __future__ import annotations

import numpy as np

from outpace.model.arrays import Picoseconds
from outpace.trace import dialect
from outpace.trace.formats.xspace.index import XSpaceIndex
from outpace.trace.trace import LineTable, Plane

_STATS = (dialect.DEVICE_OFFSET, dialect.DEVICE_DURATION)
_TPU = f"{dialect.DEVICE_PREFIX}TPU"
_LONGEST_PS = 2**61  # time from which a device's clock is damaged; sums of two still fit


def set_device_clocks(
    space: XSpaceIndex, planes: tuple[Plane, ...], lines: LineTable, start: Picoseconds, duration: Picoseconds
) -> None:
    """Move the events of devices that state their own times to these, in place."""
    devices = [plane for plane in planes if plane.name.startswith(_TPU)]
    if not devices:
        return
    stats = space.read_stats(_STATS)
    offsets, durations = (stats[name] for name in _STATS)
    for plane in devices:
        rows = slice(int(lines.first_event[plane.lines.start]), int(lines.first_event[plane.lines.stop]))
        stated = offsets.rows[(offsets.rows >= rows.start) & (offsets.rows < rows.stop)]
        own, length = offsets.take_ints(stated), durations.take_ints(stated)
        if len(stated) < 2 or own.min() < 0 or length.min() < 0 or max(own.max(), length.max()) >= _LONGEST_PS:
            continue
        begin = _move(start[rows], start[stated], own)
        end = _move(start[rows] + duration[rows], start[stated] + duration[stated], own + length)
        begin[stated - rows.start] = np.maximum.accumulate(own)  # a line's events stay in their order
        end[stated - rows.start] = own + length
        start[rows], duration[rows] = begin, np.maximum(end - begin, 0)


def _move(times: Picoseconds, written: Picoseconds, device: Picoseconds) -> Picoseconds:
    """Return times on a device's clock, by the times of its ops on both clocks. Before the first
    and after the last, both clocks run alike.
    """
    order = np.lexsort((device, written))
    written, device = written[order], np.maximum.accumulate(device[order])
    at = np.clip(np.searchsorted(written, times, side="right") - 1, 0, len(written) - 2)
    low, high = written[at], written[at + 1]
    share = np.clip((times - low) / np.maximum(high - low, 1), 0, 1)
    inside = device[at] + np.rint(share * (device[at + 1] - device[at])).astype(np.int64)
    before, after = np.minimum(times - written[0], 0), np.maximum(times - written[-1], 0)
    return np.asarray(inside + before + after)
