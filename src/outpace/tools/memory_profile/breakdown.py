"""What holds the memory at its peak, in the rows of XProf's memory breakdown table, one of which has another name here."""

from __future__ import annotations

from collections.abc import Iterator

from outpace._dataclass import dataclass
from outpace.model.arrays import Indices
from outpace.tools.memory_profile.events import MemoryLog
from outpace.tools.memory_profile.words import alike

BEFORE, STACK = "(allocated before the peak's step)", "stack"


@dataclass(frozen=True)
class Holding:
    """Equal allocations that are live at the peak: bytes of one of them, and how many there are. `special` rows stand for no allocation."""

    op: str
    allocated: int
    requested: int
    occurrences: int
    region: str
    data_type: str
    shape: str
    special: bool = False

    @property
    def total(self) -> int:
        """Bytes of all of them."""
        return self.allocated * self.occurrences


def holdings(log: MemoryLog) -> list[Holding]:
    """Live allocations at the peak that were made in the peak's step, equal ones as one row, largest first; the rest as special rows.

    Meaning and order follow ProcessActiveAllocations in xprof/convert/xplane_to_memory_profile.cc. What was allocated in earlier steps, or
    before the capture, is one row, which is called "unused preallocated device memory" there, though all of it is in use, and "persist", which
    nobody recorded. Unlike there, what was freed before the peak is never live, whichever step its deallocation belongs to.
    """
    peak = log.at_peak
    live = log.live_at(peak)
    live = live[log.phase[live] == log.phase[peak]]
    found = list(merged(log, live))
    rest = int(log.heap[peak]) - sum(h.total for h in found)
    for op, size, region in ((BEFORE, rest, ""), (STACK, int(log.stack[peak]), STACK)):
        if size > 0:
            found.append(Holding(op, size, size, 1, region, "", "", special=True))
    return sorted(found, key=lambda h: (-h.allocated, -h.requested, h.special, h.op, h.region, h.data_type, h.shape))


def merged(log: MemoryLog, rows: Indices) -> Iterator[Holding]:
    """The allocations `rows`, equal ones as one; in no order."""
    columns = (log.allocated, log.requested, log.op.code, log.region.code, log.data_type.code, log.shape.code)
    for group in alike(rows, *(column[rows] for column in columns)):
        first = group[0]
        yield Holding(
            op=log.op.at(first),
            allocated=max(int(log.allocated[first]), 0),
            requested=max(int(log.requested[first]), 0),
            occurrences=len(group),
            region=log.region.at(first),
            data_type=log.data_type.at(first),
            shape=log.shape.at(first),
        )
