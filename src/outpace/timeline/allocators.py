# SPDX-License-Identifier: Apache-2.0
"""Events of memory allocators: the memory and the device of each. They are on the host's threads,
also for a device's memory.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from outpace._lazy import compile_lazily
from outpace.model.arrays import Codes, Indices
from outpace.timeline.event_names import EventFlag, event_names
from outpace.timeline.timeline import Timeline
from outpace.trace import Trace, dialect
from outpace.trace.algorithms import distinct, find_positions, isin

ALLOCATOR_STATS = (dialect.ALLOCATOR_NAME, dialect.INDEX_ON_HOST, dialect.DEVICE_ORDINAL)
_UNNAMED = "unnamed"
_NUMBER = compile_lazily(r"(?:^|_)(\d+)(?:_|$)")  # device number in an allocator's name: GPU_4_bfc, gpu_async_0, 3
_PLANE = compile_lazily(r":(\d+)(?:\s|$)")
_OF_HOST = compile_lazily(r"host|cpu", re.IGNORECASE)


def find_allocator_events(timeline: Timeline) -> Indices:
    """Return the rows of allocations and deallocations on the host's planes."""
    trace = timeline.trace
    rows = event_names(trace).rows(EventFlag.ALLOCATION | EventFlag.DEALLOCATION)
    mask = np.zeros(len(rows), bool)
    for plane in timeline.host_planes:
        span = trace.rows_of(plane)
        mask |= (rows >= span.start) & (rows < span.stop)
    return rows[mask]


def find_memories(trace: Trace, rows: Indices) -> tuple[Codes, list[str]]:
    """Return (index of each event's memory, names of the memories), int64. A memory has the name of
    its allocator, or the number of its device on the host where only that is recorded.
    """
    trace.load_stats(ALLOCATOR_STATS)
    named = trace.stat(dialect.ALLOCATOR_NAME)
    place = find_positions(named.rows, rows)
    code, texts = named.encode_texts(place[place >= 0].astype(np.int64))
    number = np.full(len(rows), -1, np.int64)
    for stat in ALLOCATOR_STATS[1:]:
        number = np.where(number < 0, trace.stat(stat).take_ints(rows), number)
    allocators = np.full(len(rows), -1, np.int64)
    allocators[place >= 0] = code
    index_by_name: dict[str, int] = {}
    memory = np.zeros(len(rows), np.int64)
    for allocator in distinct(allocators).tolist():
        text = texts[allocator] if allocator >= 0 else ""
        for device in distinct(number[allocators == allocator]).tolist():
            name = text or (str(device) if device >= 0 else _UNNAMED)
            memory[(allocators == allocator) & (number == device)] = index_by_name.setdefault(name, len(index_by_name))
    return memory, list(index_by_name)


def find_other_device_events(timeline: Timeline, devices: Collection[str]) -> Indices:
    """Return the rows of allocator events that are not about the given devices (names of planes):
    events of other devices, and events of no device, such as those of the host's memory, where some
    events are about the given devices.
    """
    rows = find_allocator_events(timeline)
    numbers = {int(match[1]) for match in map(_PLANE.search, devices) if match}
    if not len(rows) or not numbers:
        return rows[:0]
    memory, names = find_memories(timeline.trace, rows)
    device = np.array([parse_device_ordinal(name) for name in names], np.int64)[memory]
    of_devices = isin(device, list(numbers))
    return rows[~of_devices & (of_devices.any() | (device >= 0))]


def parse_device_ordinal(name: str) -> int:
    """Return the number of the device in a memory's name; -1 for a memory of the host and for a
    name without a number.
    """
    match = None if _OF_HOST.search(name) else _NUMBER.search(name)
    return int(match[1]) if match else -1
