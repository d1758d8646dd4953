"""XLA programs that a profile carries: for every HLO op its opcode, the framework op and source line it came from, and what it computes.

TensorFlow and JAX put each program as an `HloProto` on the plane `/host:metadata`. Programs are read when one of their ops is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from outpace._dataclass import dataclass
from outpace._once import once
from outpace.model.arrays import Codes, Indices
from outpace.timeline.command_buffers import hlo_ops
from outpace.timeline.hlo_meaning import aligned, batched, exact, flops, precision, size, softmax, traffic, transfer
from outpace.timeline.hlo_reader import Instruction, as_bytes, fields, messages, number, packed, text
from outpace.trace import Plane, Trace, dialect
from outpace.trace.algorithms import common, distinct

if TYPE_CHECKING:
    from outpace.timeline.timeline import Timeline

_MODULE = 1  # HloProto
_COMPUTATIONS, _SCHEDULE, _FRAMES = 3, 7, 17  # HloModuleProto
_SEQUENCES, _SEQUENCE, _NUMBERS = 1, 2, 1  # HloScheduleProto: a map of computations to sequences of instructions
_INSTRUCTIONS, _COMPUTATION_ID = 2, 5  # HloComputationProto
_FILES, _FUNCTIONS, _LOCATIONS, _STACK = 1, 2, 3, 4  # StackFrameIndex
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|^<")  # code that is not the program's own
_SILENT = frozenset(  # opcodes that run nothing
    ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id", "opt-barrier")
)
_FAR = 4  # steps from an instruction to one that takes its result
_WIDE = 100  # instructions beside one, each time further away: an array that all take is no softmax
_DEEPEST = 200  # frames that one op is followed up


@dataclass(frozen=True)
class HloOp:
    """One instruction: `opcode` (`fusion`, `dot`), `framework_op` (`jit(step)/dot_general`), `source` (`train.py:12`); empty where unknown.

    `source` is the innermost line that is not a library's, where the program keeps stack frames; of what the compiler added, that of the op
    that takes its result. `bits`: 16, 32 or 64, what it computes in, 0 unknown. `flops`, `bytes`: of one execution, by its shapes, -1 unknown.
    `transfer`: what the end of an asynchronous op waits for (`host_to_device`, `device_to_host`, `device_to_device`, `collective`), "" for
    other ops; `moved`: the bytes of what it copies. `config`: what the compiler noted of a library's call. `aligned`: all sizes of its matrix
    products are multiples of 8. `attention`: it is a part of one, by what it is made of (a softmax between two batches of matrix products).
    `exact`: its products are to have all digits (`Precision.HIGHEST`).
    """

    opcode: str
    framework_op: str = ""
    source: str = ""
    bits: int = 0
    flops: float = -1.0
    bytes: float = -1.0
    transfer: str = ""
    moved: float = 0.0
    config: str = ""
    aligned: bool = False
    attention: bool = False
    exact: bool = False


NO_OP = HloOp("")
OP_LINE = "XLA Ops"


class Program:
    """The ops of one program by name. Of a damaged one, those that could be read."""

    def __init__(self, proto: bytes) -> None:
        self._proto = proto
        self._made: dict[str, HloOp] = {}

    @once
    def _module(self) -> bytes:
        return next(messages(self._proto, _MODULE), b"")

    @once
    def _computations(self) -> dict[int, list[Instruction]]:
        found = {}
        for computation in messages(self._module, _COMPUTATIONS):
            instructions = [Instruction(i) for i in messages(computation, _INSTRUCTIONS)]
            found[number(dict(fields(computation)).get(_COMPUTATION_ID))] = instructions
        return found

    @once
    def _by_name(self) -> dict[str, Instruction]:
        return {i.name: i for instructions in self._computations.values() for i in instructions}

    @once
    def _by_number(self) -> dict[int, Instruction]:
        return {i.number: i for instructions in self._computations.values() for i in instructions}

    @once
    def schedules(self) -> list[list[str]]:
        """Of every computation that is scheduled, the names of its instructions that run something, in the order in which they do."""
        found = []
        for entry in (e for message in messages(self._module, _SCHEDULE) for e in messages(message, _SEQUENCES)):
            numbers = packed(as_bytes(dict(fields(as_bytes(dict(fields(entry)).get(_SEQUENCE)))).get(_NUMBERS)))
            known = (self._by_number[n] for n in numbers if n in self._by_number)
            found.append([i.name for i in known if i.opcode not in _SILENT])
        return [names for names in found if names]

    @once
    def _frames(self) -> _Frames:
        return _Frames(next(messages(self._module, _FRAMES), b""))

    def first_line(self, function: str) -> str:
        """`file:line` of the first line inside a Python function that one of the ops comes from; "" when there is none."""
        return self._frames.first_line(function)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> HloOp:
        """The op called `name`; one that says nothing when the program has none."""
        known = self._made.get(name)
        if known is None:
            instruction = self._by_name.get(name)
            known = self._made[name] = NO_OP if instruction is None else self._op(instruction)
        return known

    def _op(self, instruction: Instruction) -> HloOp:
        told = self._teller(instruction)
        how = (instruction, self._inside, self._operands)
        place = self._place(told) or next(filter(None, map(self._place, self._takers(instruction))), "")
        waits = transfer(*how)
        moved = size(instruction.shapes[:1]) if waits else 0.0
        config = instruction.config if instruction.opcode == "custom-call" else ""
        numbers = precision(*how), flops(*how), traffic(*how), waits, moved, config, aligned(*how)
        attends = instruction.number in self._attention
        return HloOp(instruction.opcode, told.framework_op, place, *numbers, attends, exact(instruction, self._inside))

    def _teller(self, instruction: Instruction) -> Instruction:
        """The instruction that says where this one comes from: a fusion that says nothing of itself is told by what it fused."""
        if instruction.framework_op:
            return instruction
        return next((i for i in reversed(self._inside(instruction)) if i.framework_op), instruction)

    def _place(self, instruction: Instruction) -> str:
        return self._frames.line(instruction.frame) or _line(*instruction.place)

    def _takers(self, instruction: Instruction) -> Iterator[Instruction]:
        """Who takes the result of an instruction, nearest first: what the compiler adds (a copy, a broadcast) is for them."""
        layer, seen = [instruction.number], {instruction.number}
        for _ in range(_FAR):
            takers = [t for n in layer for t in self._users.get(n, ()) if t.number not in seen]
            yield from takers
            layer = [t.number for t in takers]
            seen.update(layer)

    @once
    def _attention(self) -> frozenset[int]:
        """Numbers of the instructions that make attentions: batched products, and what takes a softmax of the results of some and is taken
        by others."""
        found: set[int] = set()
        for instruction in self._by_number.values():
            if softmax(instruction, self._inside, self._operands):
                above, below = self._near(instruction, self._operands), self._near(instruction, self._taken)
                if above and below:
                    found |= {instruction.number, *above, *below}
        return frozenset(found)

    def _near(self, instruction: Instruction, beside: Callable[[Instruction], list[Instruction]]) -> set[int]:
        """Numbers of the batched products that are near an instruction, along its operands or those that take its result."""
        layer, seen, found = [instruction], {instruction.number}, set()
        for _ in range(_FAR):
            layer = list({i.number: i for one in layer for i in beside(one) if i.number not in seen}.values())[:_WIDE]
            seen |= {i.number for i in layer}
            products = {i.number for i in layer if batched(i, self._inside, self._operands, self._taken(i))}
            found |= products
            layer = [i for i in layer if i.number not in products]
        return found

    def _taken(self, instruction: Instruction) -> list[Instruction]:
        return self._users.get(instruction.number, [])

    @once
    def _users(self) -> dict[int, list[Instruction]]:
        users: dict[int, list[Instruction]] = {}
        for instruction in self._by_number.values():
            for operand in instruction.operands:
                users.setdefault(operand, []).append(instruction)
        return users

    def _inside(self, instruction: Instruction) -> list[Instruction]:
        return [i for number in instruction.called for i in self._computations.get(number, ())]

    def _operands(self, instruction: Instruction) -> list[Instruction]:
        return [self._by_number[n] for n in instruction.operands if n in self._by_number]


class _Frames:
    """The stack frames of a program's ops (`StackFrameIndex`); all numbers in it count from 1."""

    def __init__(self, data: bytes) -> None:
        self._files = [text(f) for f in messages(data, _FILES)]
        self._functions = [text(f) for f in messages(data, _FUNCTIONS)]
        self._locations = [dict(fields(m)) for m in messages(data, _LOCATIONS)]
        self._stack = [dict(fields(m)) for m in messages(data, _STACK)]

    def line(self, frame: int) -> str:
        """`file:line` of the innermost frame that is the program's own, else of the innermost; "" when there is none."""
        innermost = ""
        for _ in range(_DEEPEST):
            if not 0 < frame <= len(self._stack):
                break
            place = self._place(number(self._stack[frame - 1].get(1)))
            if place and not _LIBRARY.search(place):
                return place
            innermost = innermost or place
            frame = number(self._stack[frame - 1].get(2))
        return innermost

    def first_line(self, function: str) -> str:
        """`file:line` of the first line inside a function (its last name: `f` is also `main.<locals>.f`) that an op comes from."""
        named = {i for i, name in enumerate(self._functions, 1) if name.rpartition(".")[2] == function}
        inside = [(number(m.get(3)), i) for i, m in enumerate(self._locations, 1) if number(m.get(2)) in named]
        return self._place(min(inside)[1]) if inside else ""

    def _place(self, location: int) -> str:
        if not 0 < location <= len(self._locations):
            return ""
        found = self._locations[location - 1]
        file = number(found.get(1))
        return _line(self._files[file - 1], number(found.get(3))) if 0 < file <= len(self._files) else ""


def _line(file: str, line: int) -> str:
    return f"{file}:{line}" if file and line > 0 else file


_EMPTY = Program(b"")


class Programs:
    """All programs of a profile by id."""

    def __init__(self, trace: Trace) -> None:
        self._found: dict[int, Program] = {}
        self._named: dict[str, list[Program]] = {}
        for row, stats in trace.name_stats.items():
            if isinstance(proto := stats.get(dialect.HLO_PROTO), bytes):
                program = self._found[program_id(trace.names[row])] = Program(as_bytes(proto))
                self._named.setdefault(trace.names[row].rpartition("(")[0], []).append(program)

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, number: int) -> Program:
        """The program with an id; one without ops when the profile has none."""
        return self._found.get(number, _EMPTY)

    def first_line(self, function: str) -> str:
        """`file:line` of the first line inside a function that JAX compiled; "" where no program says so."""
        mine = (program for kind in ("jit", "pmap") for program in self._named.get(f"{kind}_{function}", ()))
        return next(filter(None, (program.first_line(function) for program in mine)), "")

    def op(self, program: int, name: str) -> HloOp:
        """An op of a program; `NO_OP` where the profile does not hold it."""
        return self[program][name]


def programs(trace: Trace) -> Programs:
    """The programs of a profile. (`Timeline.programs` keeps them.)"""
    return Programs(trace)


def program_id(name: str) -> int:
    """`jit_step(8)` is program 8; -1 for a name without an id."""
    digits = name.rpartition("(")[2].rstrip(")")
    return int(digits) if digits.isdigit() else -1


def op_lines(trace: Trace, plane: Plane) -> list[int]:
    """A device's lines of XLA ops: TPUs have one. (Of a GPU the profiler derives it from the streams, which say more.)"""
    names = {i: trace.lines.names[i] for i in plane.lines}
    streams = any(name.startswith("Stream") for name in names.values())
    return [i for i, name in names.items() if name == OP_LINE and not streams]


def instructions(timeline: Timeline, rows: Indices) -> tuple[Codes, list[HloOp]]:
    """Which instruction of which program each event at `rows` (sorted) ran: (index of each into the ops, int64; the distinct ops).

    By the stats `hlo_op` and `program_id`. Op 0 is `NO_OP`, for events that name none; ops of equal name in two programs are two.
    """
    trace = timeline.trace
    index = np.zeros(len(rows), np.int64)
    names, program = hlo_ops(timeline), trace.stat(dialect.PROGRAM_ID)
    at, place = common(rows, names.row)
    if len(at) == 0:
        return index, [NO_OP]
    code, texts = names.codes(place)
    numbers = program.dense(len(trace), -1)[rows[at]]
    ids = distinct(numbers)
    pair = np.searchsorted(ids, numbers) * len(texts) + code
    pairs = distinct(pair)
    index[at] = 1 + np.searchsorted(pairs, pair)
    of = [(int(ids[p // len(texts)]) & (2**64 - 1), texts[p % len(texts)]) for p in pairs.tolist()]
    return index, [NO_OP, *(timeline.programs.op(number, name) for number, name in of)]
