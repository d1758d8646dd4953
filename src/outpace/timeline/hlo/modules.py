# SPDX-License-Identifier: Apache-2.0
"""XLA programs in a profile: for every HLO op its opcode, framework op and source line, and what it
computes.

TensorFlow and JAX store each program as an `HloProto` on the plane `/host:metadata`. A program is
decoded when one of its ops is requested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from outpace._caching import once
from outpace.model.arrays import Codes, Indices
from outpace.timeline.command_buffers import compute_hlo_op_stat
from outpace.timeline.function_names import normalize_function_name, parse_jitted_function
from outpace.timeline.hlo import reader
from outpace.timeline.hlo.attention import find_attentions
from outpace.timeline.hlo.costs import bytes_accessed, flops
from outpace.timeline.hlo.donation import find_undonated_arguments
from outpace.timeline.hlo.graph import HloGraph, Instruction
from outpace.timeline.hlo.one_hot import find_one_hot_products
from outpace.timeline.hlo.ops import NO_OP, HloOp
from outpace.timeline.hlo.precision import is_highest_precision, precision_bits
from outpace.timeline.hlo.products import PRODUCT_OPCODES, is_aligned, product_kind
from outpace.timeline.hlo.source_lines import SourceLines
from outpace.timeline.hlo.transfers import transfer_kind
from outpace.trace import Plane, Trace, dialect
from outpace.trace.algorithms import distinct, intersect_indices

if TYPE_CHECKING:
    from outpace.timeline.timeline import Timeline

RESULT_PREFIXES = ("its result", "result ")
"""Prefixes of the names of a signature's results."""
OP_LINE = "XLA Ops"
_NO_CELLS: Mapping[str, str] = {}
_HASHES = 2**32  # value from which ids of programs are hashes, not counts


class HloModule:
    """Ops of one program by name; for a damaged program, the ops that could be decoded."""

    def __init__(self, proto: bytes, cell_names: Mapping[str, str] = _NO_CELLS) -> None:
        self._proto = proto
        self._cell_names = cell_names
        self._ops: dict[str, HloOp] = {}

    @once
    def _module(self) -> bytes:
        return reader.read_module(self._proto)

    @once
    def graph(self) -> HloGraph:
        """Instructions of the program."""
        return reader.read_graph(self._module)

    @once
    def _attentions(self) -> set[Instruction]:
        return find_attentions(self.graph)

    @once
    def _one_hot_products(self) -> set[Instruction]:
        return find_one_hot_products(self.graph)

    @once
    def _undonated(self) -> dict[Instruction, tuple[str, Instruction]]:
        return find_undonated_arguments(self.graph)

    @once
    def _lines(self) -> SourceLines:
        return SourceLines(self._module, self._cell_names)

    @once
    def has_products(self) -> bool:
        """Whether the program multiplies matrices or convolves."""
        return any(flops(i) > 0 for i in self.graph.instructions if i.opcode in PRODUCT_OPCODES)

    @property
    def device_count(self) -> int:
        """Number of devices of all hosts that run the program; 0 where it is unknown."""
        return reader.read_device_count(self._module)

    @once
    def schedules(self) -> list[list[str]]:
        """Names of the instructions that execute something, in order of execution, one list per
        scheduled computation.
        """
        return reader.read_schedules(self._module, self.graph)

    @once
    def signature(self) -> dict[str, str]:
        """Shapes of the arrays that the program takes, by name of the argument (`params['w']`), and
        of those that it returns: `f32[64,264]`.
        """
        takes = sorted(self.graph.parameters, key=lambda i: i.parameter_number)
        named = {i.framework_op or i.name: ", ".join(map(str, i.shapes)) for i in takes}
        results = self.graph.results
        return named | {f"result {n}" if len(results) > 1 else "its result": str(shape) for n, shape in enumerate(results)}

    @property
    def computations(self) -> tuple[bytes, ...]:
        """All computations of the program as bytes; equal for a program that was compiled twice."""
        return reader.read_computations(self._module)

    def find_source_line(self, function: str) -> str:
        """Return `file:line` of the first line of a Python function that an op comes from; "" where
        there is none.
        """
        return self._lines.find_function(function)

    @once
    def entry_instructions(self) -> frozenset[str]:
        """Names of the instructions of the program's entry computation, each of which runs once per
        run; instructions of loops run as often as their loop.
        """
        return frozenset(i.name for i in self.graph.entry)

    def __iter__(self) -> Iterator[str]:
        return iter(self.graph.by_name)

    def __contains__(self, name: object) -> bool:
        return name in self.graph.by_name

    def __getitem__(self, name: str) -> HloOp:
        """Return the op called `name`; `NO_OP` where the program has none."""
        op = self._ops.get(name)
        if op is None:
            instruction = self.graph.by_name.get(name)
            op = self._ops[name] = NO_OP if instruction is None else self._describe(instruction)
        return op

    def _describe(self, instruction: Instruction) -> HloOp:
        argument, updater = self._undonated.get(instruction, ("", instruction))
        # The compiler adds instructions (a copy, a broadcast) for those that use their results
        places = map(self._lines.find, chain((updater.origin,), instruction.iter_further_users()))
        transfer, operations = transfer_kind(instruction), flops(instruction)
        is_library_call = instruction.opcode == "custom-call"
        return HloOp(
            instruction.opcode,
            framework_op=instruction.origin.framework_op,
            source=next(filter(None, places), ""),
            precision_bits=precision_bits(instruction),
            flops=operations,
            bytes=bytes_accessed(instruction),
            transfer=transfer,
            copied_bytes=float(sum(shape.byte_size for shape in instruction.shapes[:1])) if transfer else 0.0,
            backend_config=instruction.backend_config if is_library_call else "",
            is_aligned=is_aligned(instruction),
            is_attention=instruction in self._attentions,
            is_highest_precision=is_highest_precision(instruction),
            is_one_hot=instruction in self._one_hot_products,
            undonated_argument=argument,
            product=product_kind(instruction) if operations > 0 or is_library_call else "",
        )


_EMPTY = HloModule(b"")


class HloModules:
    """All programs of a profile, by id."""

    def __init__(self, trace: Trace, cell_names: Mapping[str, str] = _NO_CELLS) -> None:
        """Decode the programs of a trace when they are used. `cell_names`: names of a notebook's
        cells (`In [3]`), by the file under which each was compiled.
        """
        self._by_id: dict[int, HloModule] = {}
        self._ids: dict[str, list[int]] = {}
        for row, stats in trace.name_stats.items():
            if isinstance(proto := stats.get(dialect.HLO_PROTO), bytes):
                number = parse_program_id(trace.names[row])
                self._by_id[number] = HloModule(proto, cell_names)
                self._ids.setdefault(normalize_function_name(parse_jitted_function(trace.names[row])), []).append(number)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[HloModule]:
        """Yield all programs."""
        return iter(self._by_id.values())

    def __getitem__(self, number: int) -> HloModule:
        """Return the program with an id; an empty program where the profile has none."""
        return self._by_id.get(number, _EMPTY)

    @property
    def device_count(self) -> int:
        """Number of devices of all hosts that run the largest program; 0 where it is unknown."""
        return max((program.device_count for program in self._by_id.values()), default=0)

    def find_source_line(self, function: str) -> str:
        """Return `file:line` of the first line of a function that JAX compiled; "" where no program
        has it.
        """
        return next(filter(None, (program.find_source_line(function) for program in self.modules_of(function))), "")

    def modules_of(self, function: str) -> list[HloModule]:
        """Return the programs of a function that JAX compiled, in the order of their ids."""
        return [self._by_id[number] for number in sorted(self._ids.get(normalize_function_name(function), []))]

    def find_newest(self, function: str, count: int) -> list[HloModule]:
        """Return the last `count` programs of a function that JAX compiled, in order; all of them
        where ids are hashes (TPUs), which have no order.
        """
        is_ordered = max(self._ids.get(normalize_function_name(function), []), default=0) < _HASHES
        return self.modules_of(function)[-count:] if is_ordered else self.modules_of(function)

    def op(self, program: int, name: str) -> HloOp:
        """Return an op of a program; `NO_OP` where the profile lacks it."""
        return self[program][name]


def parse_program_id(name: str) -> int:
    """Return the id in a program's name: 8 for `jit_step(8)`; -1 for a name without an id."""
    digits = name.rpartition("(")[2].rstrip(")")
    return int(digits) if digits.isdigit() else -1


def find_op_lines(trace: Trace, plane: Plane) -> list[int]:
    """Return a device's lines of XLA ops, which TPUs have. On a GPU the profiler derives that line
    from the streams, which have more detail: it is left out.
    """
    names = {i: trace.lines.names[i] for i in plane.lines}
    streams = any(name.startswith("Stream") for name in names.values())
    return [i for i, name in names.items() if name == OP_LINE and not streams]


def load_hlo_ops(timeline: Timeline, rows: Indices) -> tuple[Codes, list[HloOp]]:
    """Return (index into the ops, int64, of each event at `rows` (sorted); distinct ops), by the
    stats `hlo_op` and `program_id`.

    Op 0 is `NO_OP`, for events without these stats. Ops of equal name in two programs are distinct.
    """
    trace = timeline.trace
    index = np.zeros(len(rows), np.int64)
    names, program = compute_hlo_op_stat(timeline), trace.stat(dialect.PROGRAM_ID)
    at, place = intersect_indices(rows, names.rows)
    if len(at) == 0:
        return index, [NO_OP]
    code, texts = names.encode_texts(place)
    numbers = program.take_ints(rows[at])
    ids = distinct(numbers)
    pair = np.searchsorted(ids, numbers) * len(texts) + code
    pairs = distinct(pair)
    index[at] = 1 + np.searchsorted(pairs, pair)
    instructions = [(int(ids[p // len(texts)]) & (2**64 - 1), texts[p % len(texts)]) for p in pairs.tolist()]
    return index, [NO_OP, *(timeline.hlo_modules.op(number, name) for number, name in instructions)]
