# SPDX-License-Identifier: Apache-2.0
"""One XLA program: its graph, and what is known of each of its ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from outpace._caching import once
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

_NO_CELLS: Mapping[str, str] = {}


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
