# SPDX-License-Identifier: Apache-2.0
"""What a program needs of a device's memory, by the compiler's own assignment of buffers:
arguments, results, constants and temporaries, and what is live in each moment of the schedule.

Field numbers are those of `BufferAssignmentProto` in `xla/service/hlo.proto`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import accumulate

from outpace._dataclass import dataclass
from outpace.timeline.hlo.graph import HloGraph, Instruction
from outpace.timeline.hlo.liveness import Liveness, PlacedArray, execution_order, find_lives
from outpace.timeline.hlo.shape import Shape
from outpace.timeline.hlo.wire import Message, iter_parts

_ASSIGNMENT = 3  # HloProto
_BUFFERS, _ALLOCATIONS, _TRACES = 1, 3, 4  # BufferAssignmentProto
_BUFFER_ID, _BUFFER_SIZE, _DEFINED_AT = 1, 2, 3  # LogicalBufferProto
_NAME, _INDEX, _INSTRUCTION = 2, 3, 4  # its location; older compilers name the instruction
_ALLOCATION, _SIZE, _IS_LOCAL, _IS_PARAMETER = 1, 2, 3, 5  # BufferAllocationProto
_IS_RESULT, _SPACE, _ASSIGNED, _IS_CONSTANT = 7, 8, 9, 12
_ASSIGNED_BUFFER, _ASSIGNED_OFFSET, _ASSIGNED_SIZE = 1, 2, 3  # of an assigned buffer
_EVENTS = 1  # HeapSimulatorTrace
_KIND, _EVENT_BUFFER, _EVENT_INSTRUCTION, _SHARED = 1, 2, 4, 5  # its events
_FREES, _SHARES = 1, 2  # else it allocates


class BufferKind(str, Enum):
    """What memory of a program is for."""

    ARGUMENT = "argument"
    DONATED = "donated argument"
    RESULT = "result"
    CONSTANT = "constant"
    TEMPORARY = "temporary"


@dataclass(frozen=True)
class Buffer:
    """Memory of one array.

    kind: what it is for.
    size: bytes.
    instruction: the instruction whose result it holds; None where the program does not say.
    index: number of the array among its results.
    shape: the array; None where the program does not say.
    begin, end: positions in the schedule, of the events of `MemoryPlan.curve`, between which it is
        live; the whole run for what is no temporary.
    """

    kind: BufferKind
    size: int
    instruction: Instruction | None
    index: int
    shape: Shape | None
    begin: int
    end: int


@dataclass(frozen=True)
class MemoryPlan:
    """The memory of one run of a program, in the device's own memory space.

    sizes: bytes that are reserved, by what they are for. A donated argument holds a result, too.
    curve: (name of the instruction, live bytes) after each event of the schedule in which a
        temporary begins or ends, by the compiler's trace of its heap, else after each instruction;
        empty where the program has no schedule.
    peak_bytes: most live bytes; what is reserved, where the curve is unknown.
    peak: position of the peak in the curve; -1 where it is unknown.
    buffers: memory by array, the largest first.
    """

    sizes: Mapping[BufferKind, int]
    curve: Sequence[tuple[str, int]]
    peak_bytes: int
    peak: int
    buffers: Sequence[Buffer]

    @property
    def total_bytes(self) -> int:
        """Bytes that are reserved for a run; with gaps between temporaries, so that they may be
        more than are ever live.
        """
        return sum(self.sizes.values())

    @property
    def peak_buffers(self) -> list[Buffer]:
        """The buffers that are live at the peak, the largest first."""
        return [each for each in self.buffers if each.begin <= self.peak < each.end or self.peak < 0]


def read_memory_plan(proto: bytes, graph: HloGraph, schedules: Sequence[Sequence[str]] = ()) -> MemoryPlan | None:
    """Return the memory of a program (`HloProto`); None where it holds no assignment of buffers.
    schedules: names of its instructions in order of execution, by computation, from which follows
    when arrays are live where the compiler left no trace of its heap.
    """
    assignment = next(iter_parts(proto, _ASSIGNMENT), b"")
    parts = {Message(data).integer(_ALLOCATION, 0): data for data in iter_parts(assignment, _ALLOCATIONS)}
    own = {at: fields for at, data in parts.items() if _is_own(fields := Message(data))}
    if not own:
        return None
    arrays = _Arrays(assignment, graph)
    sizes = dict.fromkeys(BufferKind, 0)
    for each in own.values():
        sizes[_kind(each)] += max(0, each.integer(_SIZE, 0))
    heaps = _heaps(assignment, {at: parts[at] for at in own})
    known = {at for at, _ in heaps} or {at for at in own if _kind(own[at]) is BufferKind.TEMPORARY}
    entry = execution_order(graph, schedules) if known and not heaps else []
    known = known if heaps or entry else set()
    beside = sum(sizes.values()) - sum(own[at].integer(_SIZE, 0) for at in known)
    if entry:
        curve, temporaries = _follow([parts[at] for at in known], arrays, Liveness(graph, entry), entry, beside)
    else:
        curve, temporaries = _simulate(heaps, arrays, beside)
    end = max(len(curve), 1)
    held = [
        arrays.build(buffer, _kind(own[at]), 0, end, own[at].integer(_SIZE, 0))
        for at in own
        if at not in known
        for buffer in [arrays.find_first(parts[at])]
    ]
    peak = max(range(len(curve)), key=lambda at: curve[at][1], default=-1)
    most = curve[peak][1] if curve else sum(sizes.values())
    return MemoryPlan(sizes, curve, most, peak, sorted((*held, *temporaries), key=lambda each: -each.size))


def _is_own(allocation: Message) -> bool:
    """Whether an allocation is in the device's own memory, and lasts longer than an instruction."""
    return not allocation.integer(_IS_LOCAL, 0) and not allocation.integer(_SPACE, 0)


def _kind(allocation: Message) -> BufferKind:
    is_result = bool(allocation.integer(_IS_RESULT, 0))
    if allocation.integer(_IS_PARAMETER, 0):
        return BufferKind.DONATED if is_result else BufferKind.ARGUMENT
    if allocation.integer(_IS_CONSTANT, 0):
        return BufferKind.CONSTANT
    return BufferKind.RESULT if is_result else BufferKind.TEMPORARY


class _Arrays:
    """The arrays of an assignment, by the ids of their buffers."""

    def __init__(self, assignment: bytes, graph: HloGraph) -> None:
        self._graph = graph
        self._by_id = {}
        for data in iter_parts(assignment, _BUFFERS):
            fields = Message(data)
            self._by_id[fields.integer(_BUFFER_ID, 0)] = fields

    def size(self, number: int) -> int:
        """Return the size of a buffer, bytes; 0 for an unknown one."""
        known = self._by_id.get(number)
        return max(0, known.integer(_BUFFER_SIZE, 0)) if known is not None else 0

    def find_first(self, allocation: bytes) -> int:
        """Return the id of the buffer that names what an allocation holds: an argument before the
        result that takes over its memory, else the largest, the first of equal ones; -1 for none.
        """
        return max(_assigned(allocation), key=lambda number: (self._is_parameter(number), self.size(number)), default=-1)

    def _is_parameter(self, number: int) -> bool:
        instruction, _ = self._origin(number)
        return instruction is not None and instruction.opcode == "parameter"

    def _origin(self, number: int) -> tuple[Instruction | None, int]:
        """Return the instruction that computes a buffer, and the number of its array among the
        results.
        """
        known = self._by_id.get(number)
        place = known.message(_DEFINED_AT) if known is not None else Message(b"")
        index = place.numbers(_INDEX)
        instruction = self._graph.by_id.get(place.integer(_INSTRUCTION)) or self._graph.by_name.get(place.text(_NAME))
        return instruction, index[0] if len(index) == 1 else 0

    def placed(self, allocation: bytes) -> list[PlacedArray]:
        """Return the arrays of an allocation, each at its place."""
        found = []
        for data in iter_parts(allocation, _ASSIGNED):
            fields = Message(data)
            number, size = fields.integer(_ASSIGNED_BUFFER, 0), fields.integer(_ASSIGNED_SIZE, 0)
            instruction, index = self._origin(number)
            if instruction is not None and size > 0:
                found.append(PlacedArray(number, instruction, index, fields.integer(_ASSIGNED_OFFSET, 0), size))
        return found

    def build(self, number: int, kind: BufferKind, begin: int, end: int, size: int) -> Buffer:
        """Return a buffer with its array, as far as it is known."""
        instruction, at = self._origin(number)
        shapes = instruction.shapes if instruction is not None else []
        return Buffer(kind, size, instruction, at, shapes[at] if at < len(shapes) else None, begin, end)


def _follow(
    allocations: Sequence[bytes], arrays: _Arrays, liveness: Liveness, schedule: Sequence[str], held: int
) -> tuple[list[tuple[str, int]], list[Buffer]]:
    """Return the curve of live bytes and the temporaries, by the schedule. `held`: bytes that are
    live all the time.
    """
    lives = [life for data in allocations for life in find_lives(arrays.placed(data), liveness)]
    changes = [0] * (len(schedule) + 1)
    found = []
    for array, begin, end in lives:
        last = min(end, len(schedule))
        changes[begin] += array.size
        changes[last] -= array.size
        found.append(arrays.build(array.number, BufferKind.TEMPORARY, begin, last, array.size))
    live = [held + size for size in accumulate(changes[:-1])]
    return list(zip(schedule, live, strict=True)), [each for each in found if each.size]


def _heaps(assignment: bytes, own: Mapping[int, bytes]) -> list[tuple[int, bytes]]:
    """Return (number of the allocation, trace) of the heaps in the device's own memory. The number
    that a trace states is one that the compiler has changed since, so that its buffers tell.
    """
    found: dict[int, bytes] = {}
    holds = {number: at for at, data in own.items() for number in _assigned(data)}
    for trace in iter_parts(assignment, _TRACES):
        at = Counter(holds[number] for data in iter_parts(trace, _EVENTS) if (number := _event_buffer(data)) in holds)
        if at:
            found.setdefault(at.most_common(1)[0][0], trace)
    return list(found.items())


def _assigned(allocation: bytes) -> list[int]:
    """Return the ids of the buffers that an allocation holds."""
    return [Message(data).integer(_ASSIGNED_BUFFER, 0) for data in iter_parts(allocation, _ASSIGNED)]


def _event_buffer(event: bytes) -> int:
    return Message(event).integer(_EVENT_BUFFER, 0)


def _simulate(heaps: Sequence[tuple[int, bytes]], arrays: _Arrays, baseline: int) -> tuple[list[tuple[str, int]], list[Buffer]]:
    """Return the curve of live bytes and the temporaries. `baseline`: bytes beside the heaps, which
    are live all the time.
    """
    curve: list[tuple[str, int]] = []
    found: list[Buffer] = []
    live = baseline
    for at, (instruction, change, buffers) in enumerate(_iter_changes(heaps, arrays)):
        live += change
        curve.append((instruction, live))
        found += [arrays.build(number, BufferKind.TEMPORARY, begin, at, arrays.size(number)) for number, begin in buffers]
    return curve, [each for each in found if each.size]


def _iter_changes(heaps: Sequence[tuple[int, bytes]], arrays: _Arrays) -> Iterator[tuple[str, int, list[tuple[int, int]]]]:
    """Yield (name of the instruction, change of the live bytes, (buffer, position of its begin) of
    those that end) of each event of the heaps. Buffers that share another one's memory live as long
    as the last of them, and may take it up again; what is never freed ends with the run.
    """
    users: dict[int, int] = {}
    begins: dict[int, int] = {}
    canonical: dict[int, int] = {}
    at = 0
    for _, trace in heaps:
        for data in iter_parts(trace, _EVENTS):
            event = Message(data)
            number, kind = event.integer(_EVENT_BUFFER, 0), event.integer(_KIND, 0)
            change, ended = 0, []
            if kind == _FREES:
                other = canonical.get(number, number)
                users[other] = users.get(other, 1) - 1
                if users[other] == 0 and other in begins:
                    change, ended = -arrays.size(other), [(other, begins.pop(other))]
            else:
                shared = event.integer(_SHARED, 0)
                canonical[number] = other = canonical.get(shared, shared) if kind == _SHARES else number
                users[other] = users.get(other, 0) + 1
                if users[other] == 1:
                    change, begins[other] = arrays.size(other), at
            yield event.text(_EVENT_INSTRUCTION), change, ended
            at += 1
    if begins:
        yield "", 0, list(begins.items())
