# SPDX-License-Identifier: Apache-2.0
"""One XLA program: its graph, and what is known of each of its ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from outpace._caching import once
from outpace._dataclass import dataclass
from outpace.timeline.hlo import reader
from outpace.timeline.hlo.alternatives import find_alternative
from outpace.timeline.hlo.attention import find_attentions
from outpace.timeline.hlo.cost import UNKNOWN_COST, Cost
from outpace.timeline.hlo.cost.library_calls import find_library_call
from outpace.timeline.hlo.cost.model import CostModel
from outpace.timeline.hlo.descriptions import describe_instruction
from outpace.timeline.hlo.donation import find_undonated_arguments
from outpace.timeline.hlo.graph import HloGraph, Instruction
from outpace.timeline.hlo.needed_parts import NeededParts
from outpace.timeline.hlo.needless_work import (
    REPEAT,
    find_hoistable_products,
    find_joinable_products,
    find_one_hot_products,
    find_repeats,
)
from outpace.timeline.hlo.ops import NO_OP, HloOp
from outpace.timeline.hlo.precision import is_highest_precision, precision_bits
from outpace.timeline.hlo.products import PRODUCT_OPCODES, is_aligned, is_complex_product, product_flops, product_kind
from outpace.timeline.hlo.slow_cases import SlowCase, find_slow_case
from outpace.timeline.hlo.source_lines import SourceLines
from outpace.timeline.hlo.transfers import transfer_kind

if TYPE_CHECKING:
    from outpace.timeline.hlo.memory import MemoryPlan
    from outpace.timeline.hlo.neighbourhood import Neighbourhood

_NO_CELLS: Mapping[str, str] = {}


@dataclass(frozen=True)
class InstructionText:
    """An instruction as its program has it.

    text: its line of the program's text.
    operands, users: names of the instructions whose results it takes, and that take its result.
    frames: the source frames that it was traced in, innermost first.
    """

    text: str
    operands: list[str]
    users: list[str]
    frames: list[str]


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
    def memory_plan(self) -> MemoryPlan | None:
        """What the program needs of a device's memory; None where it does not say."""
        from outpace.timeline.hlo.memory import read_memory_plan  # for one page alone

        return read_memory_plan(self._proto, self.graph, self.schedules)

    @once
    def _attentions(self) -> set[Instruction]:
        return find_attentions(self.graph)

    @once
    def _one_hot_products(self) -> set[Instruction]:
        return find_one_hot_products(self.graph)

    @once
    def _hoistable_products(self) -> set[Instruction]:
        return find_hoistable_products(self.graph)

    @once
    def _joinable_products(self) -> set[Instruction]:
        return find_joinable_products(self.graph)

    @once
    def _parts(self) -> NeededParts:
        return NeededParts(self.graph)

    @once
    def _repeats(self) -> set[Instruction]:
        return find_repeats(self.graph) if REPEAT.encode() in self._module else set()

    @once
    def _undonated(self) -> dict[Instruction, tuple[str, Instruction]]:
        return find_undonated_arguments(self.graph)

    @once
    def _lines(self) -> SourceLines:
        return SourceLines(self._module, self._cell_names)

    @once
    def _costs(self) -> CostModel:
        return CostModel(self.graph)

    @once
    def cost(self) -> Cost:
        """Operations and bytes of one run of the program; loops as often as they run, where that is
        known.
        """
        cost = self._costs.program()
        return cost if cost.is_plausible else UNKNOWN_COST

    @once
    def argument_bytes(self) -> int:
        """Size of all arguments of the program, bytes."""
        return sum(shape.byte_size for parameter in self.graph.parameters for shape in parameter.shapes)

    @once
    def donated_bytes(self) -> int:
        """Size of the arguments whose memory a result takes over, bytes."""
        donated = (p for p in self.graph.parameters if p.parameter_number in self.graph.donated)
        return sum(shape.byte_size for parameter in donated for shape in parameter.shapes)

    @once
    def has_products(self) -> bool:
        """Whether the program multiplies matrices or convolves."""
        return any(product_flops(i) > 0 for i in self.graph.instructions if i.opcode in PRODUCT_OPCODES)

    @property
    def name(self) -> str:
        """Name of the program: `jit_step`; "" where it is unknown."""
        return reader.read_name(self._module)

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

    def _alternative(self, instruction: Instruction) -> SlowCase | None:
        """Return another way to compute an instruction, with the line of the part that it is
        about.
        """
        case = find_alternative(instruction, is_in_loop=instruction in self.graph.in_loops)
        part = self.graph.by_name.get(case.part) if case is not None and case.part else None
        return case if case is None or part is None else replace(case, source=self._lines.find(part))

    def _find_nearest_place(self, instruction: Instruction) -> tuple[str, str]:
        """Return (source line, function) of an instruction; of one that the compiler added (a copy,
        a broadcast), those of the nearest instruction that uses its result. A gradient that it made
        anew has those of the product whose factor it is the gradient of.
        """
        origins = chain((instruction.origin,), self._products_of(instruction), instruction.iter_further_users())
        return next((place for origin in origins if (place := self._lines.find_place(origin))[0]), ("", ""))

    def _products_of(self, instruction: Instruction) -> Iterator[Instruction]:
        """Yield the instructions of the program that multiply arrays of the size of a product's
        result, where the product itself has no metadata and they are all of one line.
        """
        if instruction.opcode not in PRODUCT_OPCODES or instruction.framework_op or not instruction.shapes:
            return
        products = self._products_by_factor.get((instruction.opcode, *sorted(instruction.shapes[0].dimensions)), [])
        if len({self._lines.find(other) for other in products}) == 1:
            yield products[0]

    @once
    def _products_by_factor(self) -> dict[tuple[str | int, ...], list[Instruction]]:
        """Products with metadata by their opcode and the sizes of each of their factors."""
        found: dict[tuple[str | int, ...], list[Instruction]] = {}
        for instruction in self.graph.by_name.values():
            if instruction.opcode in PRODUCT_OPCODES and instruction.framework_op:
                for shape in instruction.operand_shapes:
                    found.setdefault((instruction.opcode, *sorted(shape.dimensions)), []).append(instruction)
        return found

    def iter_text(self) -> Iterator[str]:
        """Yield the lines of the program's text."""
        from outpace.timeline.hlo.text import iter_program_text  # for one command alone

        return iter_program_text(self.graph, self.name)

    def find_neighbours(self, name: str, radius: int) -> Neighbourhood:
        """Return what is at most `radius` instructions away from the one called `name`. Raises
        KeyError where the program has none.
        """
        from outpace.timeline.hlo.neighbourhood import find_neighbourhood  # for one command alone

        return find_neighbourhood(self.graph, name, radius)

    def describe(self, name: str) -> InstructionText | None:
        """Return the text and the neighbours of the instruction called `name`; None where the
        program has none.
        """
        from outpace.timeline.hlo.text import instruction_text  # for one page alone

        instruction = self.graph.by_name.get(name)
        if instruction is None:
            return None
        users = list(dict.fromkeys(user.name for user in instruction.users))
        operands = [operand.name for operand in instruction.operands]
        return InstructionText(instruction_text(instruction), operands, users, self._lines.stack(instruction))

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
        source, function = self._lines.find_place(updater.origin)
        if not source:
            source, function = self._find_nearest_place(instruction)
        transfer, call = transfer_kind(instruction), find_library_call(instruction)
        is_library_call, cost = instruction.opcode == "custom-call", self._costs.own(instruction)
        needed, cause = self._parts.needed(instruction)
        touched = self._parts.idle_updates.get(instruction)
        return HloOp(
            instruction.opcode,
            framework_op=instruction.origin.framework_op,
            source=source,
            function=function,
            precision_bits=precision_bits(instruction),
            cost=cost,
            library=call.library if call is not None else "",
            operation=call.operation if call is not None else "",
            description=describe_instruction(instruction),
            slow_case=find_slow_case(instruction, self.graph.roots),
            alternative=self._alternative(instruction),
            transfer=transfer,
            copied_bytes=float(sum(shape.byte_size for shape in instruction.shapes[:1])) if transfer else 0.0,
            backend_config=instruction.backend_config if is_library_call else "",
            is_in_loop=instruction in self.graph.in_loops,
            is_complex=is_complex_product(instruction),
            is_aligned=is_aligned(instruction),
            is_attention=instruction in self._attentions,
            is_highest_precision=is_highest_precision(instruction),
            is_one_hot=instruction in self._one_hot_products,
            is_repeat=instruction in self._repeats,
            is_hoistable=instruction in self._hoistable_products,
            needed_share=needed,
            needed_at=self._find_nearest_place(cause)[0] if cause is not None else "",
            filled_share=1.0 if touched is None else touched.share,
            is_joinable=instruction in self._joinable_products,
            undonated_argument=argument,
            product=product_kind(instruction) if cost.product_flops > 0 or is_library_call else "",
        )
