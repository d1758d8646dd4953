"""Events of allocators: which memory each is about, and of which device that is. They lie on the host's threads, whosever memory it is."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from outpace.model.arrays import Codes, Indices
from outpace.timeline.names import Is, names
from outpace.timeline.timeline import Timeline
from outpace.trace import Trace, dialect
from outpace.trace.algorithms import placed

STATS = (dialect.ALLOCATOR_NAME, dialect.INDEX_ON_HOST, dialect.DEVICE_ORDINAL)
_UNNAMED = "unnamed"
_NUMBER = re.compile(r"(?:^|_)(\d+)(?:_|$)")  # GPU_4_bfc, gpu_async_0, 3
_PLANE = re.compile(r":(\d+)(?:\s|$)")
_OF_HOST = re.compile(r"host|cpu", re.IGNORECASE)


def events_of_allocators(timeline: Timeline) -> Indices:
    """Rows of allocations and deallocations."""
    trace = timeline.trace
    rows = names(trace).rows(Is.ALLOCATION | Is.DEALLOCATION)
    mine = np.zeros(len(rows), bool)
    for plane in timeline.host_planes:
        span = trace.rows_of(plane)
        mine |= (rows >= span.start) & (rows < span.stop)
    return rows[mine]


def memories_of(trace: Trace, rows: Indices) -> tuple[Codes, list[str]]:
    """The memory of each of these events: its index, and all names. A memory is called by its allocator, or by the number of its device on the
    host where only that is recorded."""
    trace.load(STATS)
    named = trace.stat(dialect.ALLOCATOR_NAME)
    place = placed(named.row, rows)
    code, texts = named.codes(place[place >= 0].astype(np.int64))
    number = np.full(len(rows), -1, np.int64)
    for stat in STATS[1:]:
        number = np.where(number < 0, trace.stat(stat).ints_of(rows), number)
    of = np.full(len(rows), -1, np.int64)
    of[place >= 0] = code
    found: dict[str, int] = {}
    memory = np.zeros(len(rows), np.int64)
    for at in np.unique(np.stack((of, number), axis=1), axis=0).tolist():
        text = texts[at[0]] if at[0] >= 0 else ""
        name = text or (str(at[1]) if at[1] >= 0 else _UNNAMED)
        memory[(of == at[0]) & (number == at[1])] = found.setdefault(name, len(found))
    return memory, list(found)


def elsewhere(timeline: Timeline, devices: Collection[str]) -> Indices:
    """Rows of allocators' events that are not about these devices, by the names of their planes: what is about others; and what is about none,
    such as the host's memory, where some are about these."""
    rows = events_of_allocators(timeline)
    numbers = {int(found[1]) for found in map(_PLANE.search, devices) if found}
    if not len(rows) or not numbers:
        return rows[:0]
    memory, known = memories_of(timeline.trace, rows)
    device = np.array([device_of(name) for name in known], np.int64)[memory]
    theirs = np.isin(device, list(numbers))
    return rows[~theirs & (theirs.any() | (device >= 0))]


def device_of(memory: str) -> int:
    """The number of the device whose memory is called so; -1 for a memory of the host, and where the name does not say."""
    found = None if _OF_HOST.search(memory) else _NUMBER.search(memory)
    return int(found[1]) if found else -1
