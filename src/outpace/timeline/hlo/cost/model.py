# SPDX-License-Identifier: Apache-2.0
"""The cost of the instructions of a program, and of the program as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from threading import RLock

from outpace.timeline.hlo.cost import CONTROL_OPCODES, NO_COST, UNKNOWN_COST, Cost
from outpace.timeline.hlo.cost.arithmetic import PRODUCTS, arithmetic_flops
from outpace.timeline.hlo.cost.library_calls import library_cost
from outpace.timeline.hlo.cost.traffic import traffic_bytes
from outpace.timeline.hlo.cost.trip_counts import trip_count
from outpace.timeline.hlo.graph import Computation, HloGraph, Instruction

_DEEPEST = 60  # maximum depth of calls; deeper ones are damage
_CALLING = CONTROL_OPCODES | {"async-start", "custom-call", "fusion"}  # opcodes that cost what they call


class CostModel:
    """Costs of the instructions of one program.

    An instruction that calls a computation costs what the computation costs: a fusion and a call
    once, a loop as often as its body runs (once where that is not known), a conditional its most
    expensive branch.
    """

    def __init__(self, graph: HloGraph) -> None:
        self._graph = graph
        self._computations: dict[Computation, Cost] = {}
        self._fusions: dict[Computation, Cost] = {}
        self._depth = 0
        self._lock = RLock()  # pages are computed in threads: none may see a sum before its end

    def program(self) -> Cost:
        """Return the cost of one run of the program."""
        return self._sum(self._graph.entry)

    def instruction(self, instruction: Instruction) -> Cost:
        """Return the cost of one execution of an instruction, with all that it calls."""
        if instruction.opcode == "while":
            trips = trip_count(instruction)
            return self._sum_called(instruction).times(1 if trips is None else trips)
        if instruction.opcode == "conditional":
            return reduce(_larger, map(self.computation, instruction.called), NO_COST)
        if instruction.opcode in ("call", "async-start"):
            return self._sum_called(instruction)
        if instruction.opcode == "custom-call":
            cost = library_cost(instruction)
        else:
            called = self._fused(instruction.called[0]) if instruction.opcode == "fusion" and instruction.called else NO_COST
            flops, product = arithmetic_flops(instruction, self._computation_flops)
            is_known = called.is_complete and (product > 0 or instruction.opcode not in PRODUCTS)
            cost = Cost(flops + called.flops, product + called.product_flops, traffic_bytes(instruction), is_known)
        return cost if cost.is_plausible else UNKNOWN_COST

    def own(self, instruction: Instruction) -> Cost:
        """Return the cost of one execution of an instruction without what runs as instructions of
        their own: the bodies of loops and the branches of conditionals.
        """
        is_end = instruction.opcode.endswith(("-start", "-done", "-update"))
        return NO_COST if instruction.opcode in CONTROL_OPCODES or is_end else self.instruction(instruction)

    def computation(self, computation: Computation) -> Cost:
        """Return the cost of one run of a computation."""
        return self._once(computation, self._computations, self._sum)

    def _fused(self, computation: Computation) -> Cost:
        """Return the arithmetic of one run of a fusion's computation, or of one that is applied to
        elements: nothing inside of it lies in memory.
        """
        return self._once(computation, self._fusions, self._sum_arithmetic)

    def _once(
        self, computation: Computation, known: dict[Computation, Cost], count: Callable[[Sequence[Instruction]], Cost]
    ) -> Cost:
        """Return what is counted of a computation's instructions, counted once."""
        with self._lock:
            if computation not in known:
                known[computation] = NO_COST  # for a damaged program, whose computations call themselves
                self._depth += 1
                if self._depth <= _DEEPEST:
                    known[computation] = count(computation.instructions)
                self._depth -= 1
            return known[computation]

    def _sum_arithmetic(self, instructions: Sequence[Instruction]) -> Cost:
        flops = products = 0.0
        is_complete = True
        for instruction in instructions:
            if instruction.opcode in _CALLING:
                cost = self.instruction(instruction)
                operations, product, is_known = cost.flops, cost.product_flops, cost.is_complete
            else:
                operations, product = arithmetic_flops(instruction, self._computation_flops)
                is_known = product > 0 or instruction.opcode not in PRODUCTS
            flops, products, is_complete = flops + operations, products + product, is_complete and is_known
        return Cost(flops, products, is_complete=is_complete)

    def _computation_flops(self, computation: Computation) -> float:
        return self._fused(computation).flops

    def _sum_called(self, instruction: Instruction) -> Cost:
        return reduce(Cost.__add__, map(self.computation, instruction.called), NO_COST)

    def _sum(self, instructions: Sequence[Instruction]) -> Cost:
        return reduce(Cost.__add__, map(self.instruction, instructions), NO_COST)


def _larger(cost: Cost, other: Cost) -> Cost:
    """Return, of each property, the larger one."""
    return Cost(
        max(cost.flops, other.flops),
        max(cost.product_flops, other.product_flops),
        max(cost.bytes, other.bytes),
        cost.is_complete and other.is_complete,
    )
