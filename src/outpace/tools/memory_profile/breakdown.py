# SPDX-License-Identifier: Apache-2.0
"""What is live in a memory at its peak, in the rows of XProf's memory breakdown table; one of them
is named differently here.
"""

from __future__ import annotations

from collections.abc import Iterator

from outpace._dataclass import dataclass
from outpace.model.arrays import Indices
from outpace.tools.memory_profile.dictionary_column import group_by_keys
from outpace.tools.memory_profile.memory_log import MemoryLog

BEFORE_PEAK_STEP, STACK = "(allocated before the peak's step)", "stack"


@dataclass(frozen=True)
class AllocationGroup:
    """Equal allocations that are live at the peak.

    op: op that asked for the memory
    allocated, requested: bytes allocated and asked for by one of them
    occurrences: number of allocations
    region, data_type, shape: kind of memory, element type and shape of the tensor
    is_synthetic: whether the row represents no single recorded allocation, but the stack or older
        memory
    """

    op: str
    allocated_bytes: int
    requested_bytes: int
    occurrences: int
    region: str
    data_type: str
    shape: str
    is_synthetic: bool = False

    @property
    def total_bytes(self) -> int:
        """Bytes of all allocations of the group."""
        return self.allocated_bytes * self.occurrences


def find_peak_allocations(log: MemoryLog) -> list[AllocationGroup]:
    """Return the live allocations at the peak that were made in the peak's step, largest first.

    Equal allocations are merged; all other memory in use is represented by synthetic rows. Meaning
    and order follow ProcessActiveAllocations in xprof/convert/xplane_to_memory_profile.cc. What was
    allocated in earlier steps, or before the capture, is one row. XProf calls it "unused
    preallocated device memory" although all of it is in use, and gives it the region "persist",
    which was not recorded. Unlike in XProf, an allocation that was freed before the peak is never
    live, whichever step its deallocation belongs to.
    """
    peak = log.peak_index
    live = log.find_live(peak)
    live = live[log.xprof_step[live] == log.xprof_step[peak]]
    allocations = list(merge_allocations(log, live))
    rest = int(log.heap[peak]) - sum(h.total_bytes for h in allocations)
    for op, size, region in ((BEFORE_PEAK_STEP, rest, ""), (STACK, int(log.stack[peak]), STACK)):
        if size > 0:
            allocations.append(AllocationGroup(op, size, size, 1, region, "", "", is_synthetic=True))
    return sorted(
        allocations,
        key=lambda h: (-h.allocated_bytes, -h.requested_bytes, h.is_synthetic, h.op, h.region, h.data_type, h.shape),
    )


def merge_allocations(log: MemoryLog, rows: Indices) -> Iterator[AllocationGroup]:
    """Yield the allocations `rows`, with equal ones merged; in no particular order."""
    columns = (log.allocated, log.requested, log.op.codes, log.region.codes, log.data_type.codes, log.shape.codes)
    for group in group_by_keys(rows, *(column[rows] for column in columns)):
        first = group[0]
        yield AllocationGroup(
            op=log.op.text_at(first),
            allocated_bytes=max(int(log.allocated[first]), 0),
            requested_bytes=max(int(log.requested[first]), 0),
            occurrences=len(group),
            region=log.region.text_at(first),
            data_type=log.data_type.text_at(first),
            shape=log.shape.text_at(first),
        )
