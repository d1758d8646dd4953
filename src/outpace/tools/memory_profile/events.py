"""Memory events of all hosts: one log per host and memory, in order of time, with every deallocation joined to its allocation."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from outpace.timeline import Run, Timeline
from outpace.timeline.steps import Array
from outpace.tools.memory_profile.datatypes import data_type
from outpace.trace import StatColumn

ALLOCATION, DEALLOCATION = "MemoryAllocation", "MemoryDeallocation"
_IDS = ("index_on_host", "device_ordinal", "allocator_name")  # later ones win, as names say more than numbers
_NUMBERS = {
    "stack": "bytes_reserved",
    "heap": "bytes_allocated",
    "free": "bytes_available",
    "peak": "peak_bytes_in_use",
    "requested": "requested_bytes",
    "allocated": "allocation_bytes",
    "address": "addr",
}
_TEXTS = {"op": "tf_op", "region": "region_type", "shape": "shape"}
_TYPE, _FRAGMENTATION = "data_type", "fragmentation"
_ORDERED = {"tensor_shapes": "shape"}  # older spelling


@dataclass(frozen=True, eq=False)
class Words:
    """A text column: `names[code[i]]` is the text of row i; name 0 is empty, for rows without a text."""

    code: Array
    names: tuple[str, ...]

    def __getitem__(self, rows: Array) -> Words:
        return Words(self.code[rows], self.names)

    def texts(self) -> Array:
        """The texts, as an object column."""
        return np.array(self.names, dtype=object)[self.code]


@dataclass(frozen=True, eq=False)
class MemoryLog:
    """Events of one memory of one host, in order of time; all columns have one row per event.

    row: event row of the trace; time: int64 ps; is_allocation: bool; stack, heap, free: bytes of this memory right after the event (int64,
    -1 where not recorded is 0); fragmentation: share of the free memory outside its largest chunk, NaN where not recorded; peak: largest use
    so far in the allocator's life, bytes; requested, allocated: bytes of this allocation or deallocation; address: int64 (the bits of the
    unsigned address); step: index of the step that caused the event, -1 for none.
    """

    host: str
    memory: str
    row: Array
    time: Array
    is_allocation: Array
    stack: Array
    heap: Array
    free: Array
    fragmentation: Array
    peak: Array
    requested: Array
    allocated: Array
    address: Array
    step: Array
    op: Words
    region: Words
    shape: Words
    data_type: Words

    def __len__(self) -> int:
        return len(self.row)

    @cached_property
    def in_use(self) -> Array:
        """Bytes in use right after each event: stack and heap."""
        return self.stack + self.heap

    @cached_property
    def at_peak(self) -> int:
        """The event after which most was in use, the last one of several."""
        return len(self) - 1 - int(np.argmax(self.in_use[::-1]))
