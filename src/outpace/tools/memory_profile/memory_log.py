# SPDX-License-Identifier: Apache-2.0
"""Memory events of all hosts: one log per host and memory, in order of time, with every
deallocation joined to its allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from outpace._caching import memoize, once
from outpace._dataclass import dataclass
from outpace.model.arrays import Codes, Indices, Mask, Numbers, Picoseconds, Values
from outpace.timeline import Run, Timeline
from outpace.timeline.allocators import ALLOCATOR_STATS, find_allocator_events, find_memories
from outpace.timeline.event_names import EventFlag, event_names
from outpace.tools.memory_profile.data_types import data_type_name
from outpace.tools.memory_profile.dictionary_column import DictionaryColumn, encode_texts
from outpace.trace import StatColumn, Trace, dialect

ALLOCATION, DEALLOCATION = "MemoryAllocation", "MemoryDeallocation"
HEAP = dialect.BYTES_ALLOCATED
_STATES = (dialect.BYTES_RESERVED, HEAP, dialect.BYTES_AVAILABLE, dialect.PEAK_BYTES)
_AMOUNTS = (dialect.REQUESTED_BYTES, dialect.ALLOCATION_BYTES)
_NUMBERS = (*_STATES, *_AMOUNTS, dialect.ADDRESS)
_TEXTS = (dialect.TF_OP, dialect.REGION_TYPE, dialect.SHAPE)
_TYPE = dialect.DATA_TYPE
_STATS = (*_NUMBERS, *_TEXTS, _TYPE, *ALLOCATOR_STATS, dialect.FRAGMENTATION)
_UINT, _INT = 3, 4  # value kinds of whole numbers, as the file tags them
_MOST = 1 << 50  # largest plausible size, 1 PiB; larger ones are damage and must not overflow a sum


@dataclass(frozen=True, eq=False)
class MemoryLog:
    """Events of one memory of one host, in order of time; every column has one item per event.

    host, memory: names of the host and of the memory
    rows: event row in the trace
    time: time of the event, ps, int64
    is_allocation: whether it is an allocation, bool
    stack, heap, free: bytes of the memory right after the event, as its allocator reports them
    lifetime_peak: most bytes in use in the allocator's life so far
    fragmentation: share of the free memory outside its largest chunk; NaN where not recorded
    requested, allocated: bytes of the allocation or deallocation; where a deallocation records
        none, those of its allocation; -1 where neither does
    address: bits of the unsigned address
    step: index of the step that caused the event; -1 for none
    partner: position of a deallocation's allocation, or of an allocation's deallocation; -1 where
        the capture has none
    next_at_address: position of the next event at the same address; the number of events where
        there is none
    op, region, shape, data_type: texts that describe the allocation; a deallocation has those of
        its allocation
    """

    host: str
    memory: str
    rows: Indices
    time: Picoseconds
    is_allocation: Mask
    stack: Numbers
    heap: Numbers
    free: Numbers
    lifetime_peak: Numbers
    fragmentation: Values
    requested: Numbers
    allocated: Numbers
    address: Numbers
    step: Codes
    partner: Indices
    next_at_address: Indices
    op: DictionaryColumn
    region: DictionaryColumn
    shape: DictionaryColumn
    data_type: DictionaryColumn

    def __len__(self) -> int:
        return len(self.rows)

    @once
    def bytes_in_use(self) -> Numbers:
        """Bytes in use right after each event: stack and heap."""
        used: Numbers = self.stack + self.heap
        return used

    @once
    def peak_index(self) -> int:
        """Position of the event after which most bytes were in use; the latest of several equal
        ones.
        """
        return len(self) - 1 - int(np.argmax(self.bytes_in_use[::-1]))

    @once
    def capacity(self) -> int | None:
        """Bytes that the memory can hold: stack, heap and free memory at the peak.

        The capacity is None where the allocator reports no free memory at all.
        """
        if not np.any(self.free > 0):
            return None
        return int(self.bytes_in_use[self.peak_index] + self.free[self.peak_index])

    @once
    def xprof_step(self) -> Codes:
        """Step index of every event as XProf's memory profile assigns it.

        An event of no step is assigned to the step after the last one seen: between two steps this
        is the coming step, whose input is being prepared, and before the first step it is 0.
        """
        last_known = np.maximum.accumulate(np.where(self.step >= 0, np.arange(len(self)), -1))
        last = np.where(last_known >= 0, self.step[last_known], -1)
        return np.where(self.step >= 0, self.step, last + 1)

    def find_live(self, position: int) -> Indices:
        """Return the positions of the allocations of this capture that are live right after event
        `position`.
        """
        # An allocation ends with the next event at its address: if that is another allocation, the
        # deallocation in between was not recorded.
        until = slice(position + 1)
        return np.flatnonzero(self.is_allocation[until] & (self.next_at_address[until] > position))


@memoize
def find_sized_events(timeline: Timeline) -> tuple[Indices, int]:
    """Return (rows of the memory events that record how much memory is in use, number of the
    others) of a host.
    """
    rows = find_allocator_events(timeline)
    if len(rows) == 0:
        return rows, 0
    timeline.trace.load_stats(_STATS)
    sized = rows[timeline.trace.stat(HEAP).has_rows(rows)]
    return sized, len(rows) - len(sized)


def build_memory_logs(run: Run) -> tuple[tuple[MemoryLog, ...], int]:
    """Return (logs of all hosts and memories, number of memory events that are left out).

    The logs are ordered by host and memory. Events are left out that do not record how much memory
    is in use.
    """
    logs: list[MemoryLog] = []
    lost = 0
    for timeline in run.hosts:
        sized, unsized = find_sized_events(timeline)
        lost += unsized
        logs += sorted(_logs(timeline, sized), key=lambda log: log.memory)
    return tuple(logs), lost


def _logs(timeline: Timeline, rows: Indices) -> Iterator[MemoryLog]:
    """Yield one log per memory of a host.

    rows: memory events of the host
    """
    if len(rows) == 0:
        return
    rows = rows[np.argsort(timeline.trace.start[rows], kind="stable")]
    read = _Reader(timeline.trace, rows)
    of, memories = find_memories(timeline.trace, rows)
    numbers = {stat: read.numbers(stat, missing=-1 if stat in _AMOUNTS else 0) for stat in _NUMBERS}
    words = {stat: read.words(stat) for stat in _TEXTS} | {_TYPE: read.words(_TYPE, format_data_type)}
    fragmentation = read.floats(dialect.FRAGMENTATION)
    fragmentation[~((fragmentation >= 0) & (fragmentation <= 1))] = np.nan  # a share of the free memory
    for at, memory in enumerate(memories):
        positions = np.flatnonzero(of == at)
        part = {name: column[positions] for name, column in numbers.items()}
        texts = {name: column[positions] for name, column in words.items()}
        yield _log(timeline, memory, rows[positions], part, texts, fragmentation[positions])


def _log(
    timeline: Timeline,
    memory: str,
    rows: Indices,
    numbers: dict[str, Numbers],
    words: dict[str, DictionaryColumn],
    fragmentation: Values,
) -> MemoryLog:
    """Return the log of one memory.

    numbers, words: columns by stat name, one item per event
    fragmentation: share of the free memory outside its largest chunk, NaN where not known
    """
    trace = timeline.trace
    is_allocation = event_names(trace).mask(EventFlag.ALLOCATION)[trace.name[rows]]
    address = numbers[dialect.ADDRESS]
    partner, following = _join(address, is_allocation)
    origin = np.where(is_allocation | (partner < 0), np.arange(len(rows)), partner)  # the event whose description applies
    sizes = {stat: np.clip(numbers[stat], -_MOST, _MOST) for stat in _STATES}
    for stat in _AMOUNTS:
        values = np.clip(numbers[stat], -1, _MOST)
        sizes[stat] = np.where(values < 0, values[origin], values)
    return MemoryLog(
        host=timeline.host,
        memory=memory,
        rows=rows,
        time=trace.start[rows],
        is_allocation=is_allocation,
        fragmentation=fragmentation,
        address=address,
        step=timeline.dispatch_steps[1][rows].astype(np.int64),
        partner=partner,
        next_at_address=following,
        data_type=words[_TYPE][origin],
        op=words[dialect.TF_OP][origin],
        region=words[dialect.REGION_TYPE][origin],
        shape=words[dialect.SHAPE][origin],
        stack=sizes[dialect.BYTES_RESERVED],
        heap=sizes[HEAP],
        free=sizes[dialect.BYTES_AVAILABLE],
        lifetime_peak=sizes[dialect.PEAK_BYTES],
        requested=sizes[dialect.REQUESTED_BYTES],
        allocated=sizes[dialect.ALLOCATION_BYTES],
    )


def _join(address: Numbers, is_allocation: Mask) -> tuple[Indices, Indices]:
    """Return (partner, next_at_address) of events in order of time.

    A deallocation frees what was last allocated at its address.
    """
    count = len(address)
    partner, following = np.full(count, -1, np.int64), np.full(count, count, np.int64)
    order = np.argsort(address, kind="stable")  # by address, in order of time within
    first, second = order[:-1], order[1:]
    same = address[first] == address[second]
    following[first[same]] = second[same]
    pair = same & is_allocation[first] & ~is_allocation[second]
    partner[first[pair]], partner[second[pair]] = second[pair], first[pair]
    return partner, following


def format_data_type(value: object) -> str:
    """Return a data type as text; a number is replaced by the name of its data type."""
    return data_type_name(value) if isinstance(value, int) else str(value)


class _Reader:
    """Reads stats of some events of one host, in the order of `rows`."""

    def __init__(self, trace: Trace, rows: Indices) -> None:
        self._trace, self._rows, self._count = trace, rows.astype(np.int32), len(rows)

    def _match_rows(self, name: str) -> tuple[StatColumn, Indices, Indices]:
        """Return (stat, positions of the events that have it, position in the stat of each of
        these).
        """
        stat = self._trace.stat(name)
        place = np.searchsorted(stat.rows, self._rows, side="right") - 1
        at = np.flatnonzero(place >= 0)
        at = at[stat.rows[place[at]] == self._rows[at]]
        return stat, at, place[at]

    def numbers(self, name: str, *, missing: int) -> Numbers:
        """Return the values of a stat, int64; `missing` where no whole number is recorded."""
        stat, at, source = self._match_rows(name)
        values = np.full(self._count, missing, np.int64)
        kind = stat.kind[source]
        whole = (kind == _UINT) | (kind == _INT)
        values[at[whole]] = stat.ints[source[whole]]
        return values

    def floats(self, name: str) -> Values:
        """Return the values of a stat, float64; NaN where none is recorded."""
        stat, at, source = self._match_rows(name)
        values = np.full(self._count, np.nan)
        values[at] = stat.floats()[source]
        return values

    def words(self, name: str, spell: Callable[[object], str] = str) -> DictionaryColumn:
        """Return the texts of a stat, empty where none is recorded; `spell` turns a value into
        text.
        """
        stat, at, source = self._match_rows(name)
        return encode_texts(stat, source, at, self._count, spell)
