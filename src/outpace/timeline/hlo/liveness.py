# SPDX-License-Identifier: Apache-2.0
"""When the arrays of a program are live, by its schedule: for programs whose compiler left no trace
of its heap.

An array is live from the instruction that computes it to the last one that reads it, or reads what
shares its memory. Where the assignment gives its place to another one before that, it has ended.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from outpace._dataclass import dataclass
from outpace.timeline.hlo.graph import Computation, HloGraph, Instruction

# Instructions whose result is the memory of their operands.
_SAME_MEMORY = ("bitcast", "tuple", "get-tuple-element", "optimization-barrier", "copy-start", "async-start", "async-update")
_CALLING = ("while", "call", "conditional")  # opcodes that run the computations that they call, in their order


def execution_order(graph: HloGraph, schedules: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of a program's instructions in order of execution, with those of a loop's
    condition and body once, before the loop; empty where the program has no schedule.
    """
    scheduled = {graph.by_name[names[0]]: names for names in schedules if names[0] in graph.by_name}
    owners = ((i, computation) for computation in graph.computations.values() for i in computation.instructions)
    by_computation = {computation: scheduled[i] for i, computation in owners if i in scheduled}
    entry = next((names for first, names in scheduled.items() if first in graph.entry), ())
    order: list[str] = []
    waiting: list[tuple[str, bool]] = [(name, False) for name in reversed(entry)]
    seen: set[Computation] = set()
    while waiting:
        name, is_done = waiting.pop()
        instruction = graph.by_name.get(name)
        if is_done or instruction is None or instruction.opcode not in _CALLING:
            order.append(name)
            continue
        waiting.append((name, True))
        for computation in reversed(instruction.called):
            if computation in by_computation and computation not in seen:
                seen.add(computation)
                waiting += [(each, False) for each in reversed(by_computation[computation])]
    return order


@dataclass(frozen=True)
class PlacedArray:
    """An array at its place in an allocation.

    number: id of its buffer.
    instruction, index: the instruction that computes it, and the number of the array among its
        results.
    offset, size: bytes.
    """

    number: int
    instruction: Instruction
    index: int
    offset: int
    size: int


class Liveness:
    """The places of a program's instructions in its schedule, and the last that read each array.

    names: instructions in order of execution.
    """

    def __init__(self, graph: HloGraph, names: Sequence[str]) -> None:
        self._length = len(names)
        self._places: dict[Instruction, int] = {
            graph.by_name[name]: at for at, name in enumerate(names) if name in graph.by_name
        }
        self._owners = {i: computation for computation in graph.computations.values() for i in computation.instructions}
        self._roots = graph.roots
        self._by_index: dict[Instruction, Mapping[int, list[Instruction]]] = {}

    def place(self, instruction: Instruction) -> int:
        """Return the place of an instruction; of one inside of another that of the outermost, of
        one that executes nothing that of its last operand.
        """
        waiting, at = [instruction], 0
        seen: set[Instruction | Computation] = set()
        while waiting:
            each = waiting.pop()
            if each in self._places:
                at = max(at, self._places[each])
                continue
            if each in seen:
                continue
            seen.add(each)
            owner = self._owners.get(each)
            callers = owner.callers if owner is not None else []
            waiting += callers or [operand for operand in each.operands if operand in self._owners]
        return at

    def last_use(self, instruction: Instruction, index: int) -> int:
        """Return the place of the last instruction that reads an array, or what shares its memory;
        the end of the schedule for a result of the program.
        """
        last = self.place(instruction)
        waiting: list[tuple[Instruction, int]] = [(instruction, index)]
        seen = set(waiting)
        while waiting:
            each, number = waiting.pop()
            if each in self._roots and not self._owners[each].callers:
                return self._length
            for user, at in self._readers(each, number):
                last = max(last, self.place(user))
                if user.opcode in _SAME_MEMORY and (user, at) not in seen:
                    seen.add((user, at))
                    waiting.append((user, at))
        return last

    def _readers(self, instruction: Instruction, index: int) -> Iterator[tuple[Instruction, int]]:
        """Yield the users of one array of an instruction, with the number that it has among the
        user's results.
        """
        if len(instruction.shapes) > 1:
            if instruction not in self._by_index:
                found: dict[int, list[Instruction]] = defaultdict(list)
                for user in instruction.users:
                    found[user.tuple_index if user.opcode == "get-tuple-element" else -1].append(user)
                self._by_index[instruction] = found
            users: Iterable[Instruction] = [each for key in (index, -1) for each in self._by_index[instruction].get(key, ())]
        else:
            users = dict.fromkeys(instruction.users)
        for user in users:
            if user.opcode == "tuple":
                yield from ((user, at) for at, operand in enumerate(user.operands) if operand is instruction)
            else:
                yield user, index if user.opcode == "optimization-barrier" else 0


def find_lives(arrays: Sequence[PlacedArray], liveness: Liveness) -> list[tuple[PlacedArray, int, int]]:
    """Return (array, first place, place behind the last) of the arrays of an allocation. At no
    place two of them have a byte in common.
    """
    spans = [(liveness.place(each.instruction), liveness.last_use(each.instruction, each.index) + 1, each) for each in arrays]
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    live: list[tuple[int, int, int]] = []  # offset, offset behind the last byte, number: those that may be live, by offset
    for begin, end, each in sorted(spans, key=lambda span: (span[0], -span[1], span[2].offset)):
        first = last = bisect_left(live, (each.offset,))
        while first and live[first - 1][1] > each.offset:
            first -= 1
        while last < len(live) and live[last][0] < each.offset + each.size:
            last += 1
        for *_, number in live[first:last]:  # whose memory it takes over
            ends[number] = min(ends[number], begin)
        live[first:last] = [(each.offset, each.offset + each.size, each.number)]
        begins[each.number], ends[each.number] = begin, end
    by_number = {each.number: each for each in arrays}
    return [(by_number[number], begins[number], end) for number, end in ends.items() if end > begins[number]]
