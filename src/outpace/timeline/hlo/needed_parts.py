# SPDX-License-Identifier: Apache-2.0
"""What becomes of results: which part of an array anything reads, and which part can be other than
0.

XLA computes whole arrays. A program that takes the last position of what a layer computed for all
of them reads one part of many, and the gradient of that is an array of zeros with one part filled,
by which the layer's products are multiplied again. Both are followed through the program, dimension
by dimension: slices and gathers read a part of an array, padding and scatters fill a part of one,
and most ops keep the dimensions of what they take.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from outpace._caching import once
from outpace.timeline.hlo.array_parts import (
    Factor,
    Part,
    Sizes,
    build_part,
    dimension_share,
    has_rank,
    merge_parts,
    place_in,
    reshape_part,
    some_positions,
    whole_array,
)
from outpace.timeline.hlo.cost.arithmetic import DOTS
from outpace.timeline.hlo.graph import SILENT_OPCODES, Computation, HloGraph, Instruction
from outpace.timeline.hlo.op_dimensions import KEEPING, MERGING, OF_FIRST, RESHAPING, dot_dimensions, result_dimensions
from outpace.timeline.hlo.products import product_flops

_FEW = 0.1  # maximum share of an array's rows that a scatter fills, for an update of all of them to be mostly idle
_DEEPEST = 20  # maximum depth of fusions and calls
_IN_PLACE = ("scatter", "dynamic-update-slice")  # write a part of an array that they take over
_START_INDICES, _BATCHING = 3, 5  # fields of GatherDimensionNumbers
_SCATTERED = 3  # field of ScatterDimensionNumbers


class NeededParts:
    """The part of each array of a program that is read, and the part that can be other than 0."""

    def __init__(self, graph: HloGraph) -> None:
        self._graph = graph
        self._filled: dict[Instruction, Part] = {}  # what is missing is filled whole
        self._zeros: set[Instruction] = set()
        self._dropped: dict[Instruction, Instruction] = {}  # what is multiplied by zeros alone, or not at all read: by what
        self._read: dict[Instruction, Part | None] = {}  # None: all of it; what is missing is read by nobody
        fused = {body for i in graph.instructions if (body := _body(i)) is not None}
        for computation in graph.computations.values():
            if computation not in fused:
                self._fill(computation)
                self._follow_reads(computation)

    def needed(self, instruction: Instruction) -> tuple[float, Instruction | None]:
        """Return (share of an instruction's work that anything needs, the instruction by which the
        rest is not needed); (1, None) where all of it is.

        The parts of a fusion count by the operations of their products, without any by the elements
        that they go over.
        """
        parts = [instruction, *(_body(instruction) or Computation(())).instructions]
        works = {part: product_flops(part) for part in parts}
        if not any(works.values()):
            works = {part: float(_elements(part)) for part in parts[1:] or parts}
        found = {part: (work, *self._needed_of(part)) for part, work in works.items() if work}
        whole = sum(work for work, _, _ in found.values())
        if not whole:
            return 1.0, None
        _, _, cause = max(found.values(), key=lambda item: item[0] * (1 - item[1]))
        return sum(work * share for work, share, _ in found.values()) / whole, cause

    def _needed_of(self, i: Instruction) -> tuple[float, Instruction | None]:
        """Return the same of an instruction by itself."""
        if (dropped_by := self._drops_all(i)) is not None:
            return 0.0, dropped_by
        known = [(part.share, part.cause) for part in [self._read.get(i)] if part is not None]
        source = i.operands[0] if i.opcode == "reduce" and i.operands else i
        if (product := self._filled_product(i)) is not None:
            known.append((product[0], product[1].cause))
        elif source in self._filled and i.opcode not in (*_IN_PLACE, *DOTS):
            known.append((self._filled[source].share, self._filled[source].cause))
        least: tuple[float, Instruction | None] = min(known, key=lambda item: item[0], default=(1.0, None))
        return least

    def _drops_all(self, i: Instruction) -> Instruction | None:
        """Return the instruction by which nothing of a result is needed; None where something is.
        The result of a product with zeros alone is known before.
        """
        if i not in self._read:
            return self._dropped.get(i)
        return next((o for o in i.operands[:2] if o in self._zeros), None) if dot_dimensions(i) is not None else None

    @once
    def idle_updates(self) -> dict[Instruction, Part]:
        """Instructions that go over all rows of an array though the gradient of few of them can be
        other than 0, as an optimizer's do over the table of an embedding, with the filled part: the
        gradient itself, and what takes it, to the program's results.
        """
        found: dict[Instruction, Part] = {}
        outer = (computation for computation in self._graph.computations.values() if not computation.callers)
        for i in (i for computation in outer for i in computation.instructions):
            if not i.shapes or i.opcode in ("tuple", "get-tuple-element", "parameter"):
                continue
            size = i.shapes[0].element_count
            sources = [o for o in i.operands if o.shapes and o.shapes[0].element_count == size]
            part = next((p for o in sources if (p := found.get(o) or self._scattered(o)) is not None), None)
            if part is not None and not any(map(product_flops, i.parts)):
                found[i] = part
        if not any(user.opcode == "tuple" or user in self._graph.roots for i in found for user in i.users):
            return {}
        gradients = {o: p for i in found for o in i.operands if (p := self._scattered(o)) is not None}
        bases = {o: p for i, p in gradients.items() for o in i.operands if o in self._zeros}
        return {**bases, **gradients, **found}

    def _scattered(self, array: Instruction) -> Part | None:
        """Return the part of an array that a scatter filled, where that is little."""
        part = self._filled.get(array)
        return part if part is not None and part.cause.opcode == "scatter" and part.share <= _FEW else None

    def _filled_product(self, product: Instruction) -> tuple[float, Part] | None:
        """Return (share of a product's multiplications with nothing but numbers that can be other
        than 0, the part of an operand that limits it).
        """
        numbers = dot_dimensions(product)
        parts = [self._filled.get(operand) for operand in product.operands[:2]]
        known = [part for part in parts if part is not None]
        if numbers is None or len(parts) < 2 or not known:
            return None
        free, shared = 1.0, []
        for at, part in enumerate(parts):
            dimensions = part.dimensions if part is not None else ()
            common = {*numbers[at], *numbers[2 + at]}
            shared.append(math.prod(dimension_share(d) for n, d in enumerate(dimensions) if n in common))
            free *= math.prod(dimension_share(d) for n, d in enumerate(dimensions) if n not in common)
        return free * min(shared), min(known, key=lambda part: part.share)

    def _fill(self, computation: Computation, operands: Sequence[Instruction] = (), depth: int = 0) -> None:
        """Find what is filled of the arrays of a computation that is fused with these operands, or
        called otherwise.
        """
        for i in computation.instructions:
            if i.opcode == "parameter":
                if i.parameter_number < len(operands):
                    self._pass_on(operands[i.parameter_number], i)
            elif (body := _body(i)) is not None and depth < _DEEPEST:
                self._fill(body, i.operands, depth + 1)
                if body.root is not None and body.root.opcode != "tuple":
                    self._pass_on(body.root, i)
            elif i.opcode == "get-tuple-element":
                if (element := _element(i)) is not None:
                    self._pass_on(element, i)
            elif i.opcode == "constant":
                self._zeros.update([i] if i.is_zero else [])
            elif i.opcode in ("pad", "scatter", "dynamic-update-slice") or any(
                o in self._filled or o in self._zeros for o in i.operands
            ):
                self._fill_result(i)

    def _pass_on(self, source: Instruction, target: Instruction) -> None:
        part = self._filled.get(source)
        if part is not None and has_rank(target, part):
            self._filled[target] = part
        if source in self._zeros:
            self._zeros.add(target)

    def _fill_result(self, i: Instruction) -> None:
        """Find what is filled of a result."""
        if self._is_zero(i):
            self._zeros.add(i)
            return
        part = self._started(i) if i.opcode in ("pad", "scatter", "dynamic-update-slice") else self._carried(i)
        if part is not None and has_rank(i, part):
            self._filled[i] = part

    def _is_zero(self, i: Instruction) -> bool:
        """Whether all of a result is 0, since what it is computed from is."""
        zeros = [operand in self._zeros for operand in i.operands]
        if i.opcode == "multiply" or (len(zeros) == 2 and dot_dimensions(i) is not None):
            return any(zeros)
        if i.opcode in ("reduce", *MERGING):
            return bool(zeros) and all(zeros[1:] if i.opcode == "select" else zeros)
        return i.opcode in ("broadcast", "transpose", "slice", *RESHAPING, *KEEPING, *OF_FIRST) and zeros[:1] == [True]

    def _started(self, i: Instruction) -> Part | None:
        """Return the part that padding, a scatter or an update fills of an array of zeros."""
        if len(i.operands) < 2 or not i.shapes or not all(operand.shapes for operand in i.operands[:2]):
            return None
        result = i.shapes[0].dimensions
        if i.opcode == "pad":
            if i.operands[1] not in self._zeros:
                return None
            array, inner = i.operands[0].shapes[0].dimensions, self._filled.get(i.operands[0])
            before = inner.dimensions if inner is not None else whole_array(array)
            return build_part(map(place_in, before, array, result, i.ranges), i)
        base = i.operands[0]
        if base not in self._zeros and base not in self._filled:
            return None
        filled = _scattered_sizes(i) if i.opcode == "scatter" else i.operands[1].shapes[0].dimensions
        new = build_part((some_positions(r, i, min(1.0, size / max(r, 1))) for size, r in zip(filled, result, strict=False)), i)
        return new if base in self._zeros else merge_parts([self._filled[base], new])

    def _carried(self, i: Instruction) -> Part | None:
        """Return the part of a result that can be other than 0, by what it is computed from."""
        if i.opcode in DOTS or dot_dimensions(i) is not None:
            return self._carry_product(i)
        parts = [self._mapped(i, at) for at in range(len(i.operands))]
        if i.opcode in ("multiply", "and"):
            known = [part for part in parts if part is not None]
            return min(known, key=lambda part: part.share, default=None)
        if i.opcode in MERGING:
            used = range(1, 3) if i.opcode == "select" else range(len(parts))
            terms = [parts[at] for at in used if at < len(parts) and i.operands[at] not in self._zeros]
            return merge_parts(terms)
        is_single = i.opcode in (*KEEPING, *OF_FIRST, *RESHAPING, "transpose", "broadcast", "slice", "reduce")
        if i.opcode == "reduce" and (len(i.operands) != 2 or i.operands[1] not in self._zeros):
            return None  # a maximum may start elsewhere
        return parts[0] if is_single and parts else None

    def _carry_product(self, i: Instruction) -> Part | None:
        """Return the part of a product that can be other than 0: rows and columns of the factors'
        filled parts, and of a batch those of the factor with fewer.
        """
        numbers = dot_dimensions(i)
        if numbers is None or len(i.operands) > 2:
            return None  # a library's product may add an array
        known = sorted((part for at in range(2) if (part := self._mapped(i, at)) is not None), key=lambda part: part.share)
        if not known:
            return None
        dimensions, batches = list(known[0].dimensions), len(numbers[2])
        for part in known[1:]:
            dimensions[batches:] = [min(pair, key=dimension_share) for pair in zip(dimensions, part.dimensions, strict=False)][
                batches:
            ]
        return build_part(dimensions, known[0].cause)

    def _mapped(self, i: Instruction, at: int) -> Part | None:
        """Return the filled part of an operand, in the dimensions of the result."""
        operand = i.operands[at] if at < len(i.operands) else None
        part = self._filled.get(operand) if operand is not None else None
        if part is None or operand is None or not i.shapes or not operand.shapes:
            return None
        before, after = operand.shapes[0].dimensions, i.shapes[0].dimensions
        if i.opcode in RESHAPING:
            return build_part(reshape_part(part.dimensions, operand, i), part.cause)
        becomes = result_dimensions(i, at)
        if becomes is None:
            return None
        dimensions = whole_array(after)
        for number, (dimension, new) in enumerate(zip(part.dimensions, becomes, strict=False)):
            # A slice may be of the filled positions alone.
            if new is not None and new < len(dimensions) and before[number] == after[new]:
                dimensions[new] = dimension
        return build_part(dimensions, part.cause)

    def _follow_reads(self, computation: Computation, result: Part | None = None, depth: int = 0) -> None:
        """Find what is read of the arrays of a computation, of whose result this part is read; of a
        fused one that returns a tuple, who takes an element of that has told it.
        """
        root = computation.root
        if root is not None:
            self._read[root] = result
        for i in reversed(computation.instructions):
            if i not in self._read or (i is root and depth and i.opcode == "tuple"):
                if i in self._dropped:
                    self._drop(i.operands, self._dropped[i])
                continue  # nobody reads it, or the program is damaged
            self._read_operands(i, depth)

    def _read_operands(self, i: Instruction, depth: int) -> None:
        """Add what an instruction that is read needs of its operands."""
        part, body = self._read[i], _body(i)
        if body is not None and depth < _DEEPEST:
            self._follow_reads(body, part, depth + 1)
            for parameter in (p for p in body.parameters if p.parameter_number < len(i.operands)):
                operand = i.operands[parameter.parameter_number]
                if parameter in self._read:
                    self._add_read(operand, self._read[parameter])
                elif parameter in self._dropped:
                    self._drop([operand], self._dropped[parameter])
        elif i.opcode == "get-tuple-element" and (element := _element(i)) is not None:
            self._add_read(element, part)
            self._read.setdefault(i.operands[0], None)
        else:
            is_product = len(i.operands) == 2 and (i.opcode == "multiply" or dot_dimensions(i) is not None)
            for at, operand in enumerate(i.operands):
                if is_product and i.operands[1 - at] in self._zeros and operand not in self._zeros:
                    self._drop([operand], i)
                else:
                    self._add_read(operand, self._read_by(i, at, part))

    def _drop(self, arrays: Sequence[Instruction], cause: Instruction) -> None:
        """Note that an instruction needs nothing of some arrays."""
        for array in arrays:
            self._dropped.setdefault(array, cause)

    def _read_by(self, i: Instruction, at: int, result: Part | None) -> Part | None:
        """Return the part of an operand that an instruction needs for a part of its result: of a
        factor no more than what the other factor's zeros leave.
        """
        part = _read_of_operand(i, at, result)
        other = self._filled.get(i.operands[1 - at]) if at < 2 and len(i.operands) > 1 else None
        numbers = dot_dimensions(i)
        if other is None or not (numbers or i.opcode == "multiply") or not i.operands[at].shapes:
            return part
        sizes = i.operands[at].shapes[0].dimensions
        dimensions = list(part.dimensions) if part is not None else whole_array(sizes)
        pairs = [(n, n) for n in range(len(sizes))]
        if numbers is not None:
            pairs = [pair for first in (0, 2) for pair in zip(numbers[first + at], numbers[first + 1 - at], strict=False)]
        pairs = [(own, others) for own, others in pairs if own < len(dimensions) and others < len(other.dimensions)]
        if math.prod(dimension_share(other.dimensions[n]) for _, n in pairs) < math.prod(
            dimension_share(dimensions[n]) for n, _ in pairs
        ):
            for own, others in pairs:
                dimensions[own] = other.dimensions[others]
        return build_part(dimensions, other.cause if part is None else part.cause)

    def _add_read(self, array: Instruction, part: Part | None) -> None:
        part = part if part is not None and has_rank(array, part) else None
        self._read[array] = merge_parts([self._read[array], part]) if array in self._read else part


def _read_of_operand(i: Instruction, at: int, part: Part | None) -> Part | None:
    """Return the part of an operand that an instruction reads for a part of its result; None for
    all of it.
    """
    operand = i.operands[at]
    if not operand.shapes or not i.shapes:
        return None
    before, after = operand.shapes[0].dimensions, i.shapes[0].dimensions
    if i.opcode == "gather" and at == 0:
        return _gathered(i, before)
    if part is not None and i.opcode in RESHAPING:
        return build_part(reshape_part(part.dimensions, i, operand), part.cause)
    takes = i.opcode in ("slice", "dynamic-slice") and at == 0
    becomes = result_dimensions(i, at) if part is not None or takes else None
    dimensions = whole_array(before)
    for number, new in enumerate(becomes or ()):
        if new is None or new >= len(after):
            continue
        dimension = (Factor(after[new]),) if part is None else part.dimensions[new]
        if before[number] == after[new]:
            dimensions[number] = dimension
        elif takes:
            place: Hashable = i.ranges[number] if number < len(i.ranges) else i
            dimensions[number] = place_in(dimension, after[new], before[number], place)
    return build_part(dimensions, i if takes or part is None else part.cause)


def _gathered(i: Instruction, array: Sizes) -> Part | None:
    """Return the part of an array that a gather can read."""
    sizes, numbers = i.gather_slice_sizes, i.gather_dimension_numbers
    indexed = {*numbers.numbers(_START_INDICES), *numbers.numbers(_BATCHING)}
    count = i.shapes[0].element_count / max(math.prod(sizes), 1)
    parts = list(zip(sizes, array, strict=False))
    shares = [min(1.0, (count if at in indexed else 1) * size / max(whole, 1)) for at, (size, whole) in enumerate(parts)]
    return (
        build_part((some_positions(whole, i, share) for (_, whole), share in zip(parts, shares, strict=True)), i)
        if len(parts) == len(array)
        else None
    )


def _scattered_sizes(i: Instruction) -> list[float]:
    """Return how many positions of each dimension a scatter can fill."""
    if len(i.operands) != 3 or not i.operands[1].shapes or not i.operands[2].shapes:
        return [float(size) for size in i.shapes[0].dimensions]
    indexed = i.scatter_dimension_numbers.numbers(_SCATTERED)
    filled = i.operands[2].shapes[0].element_count
    others = math.prod(size for at, size in enumerate(i.shapes[0].dimensions) if at not in indexed)
    count = filled / max(others, 1)
    return [
        min(float(size), math.ceil(count)) if at in indexed else float(size) for at, size in enumerate(i.shapes[0].dimensions)
    ]


def _elements(i: Instruction) -> int:
    """Return how many elements an instruction goes over; 0 for one that does nothing, or only makes
    a number an array.
    """
    if i.opcode in SILENT_OPCODES or i.opcode == "broadcast" or not i.shapes:
        return 0
    if i.opcode in _IN_PLACE:
        return i.operands[-1 if i.opcode == "scatter" else 1].shapes[0].element_count if len(i.operands) > 1 else 0
    arrays = (*i.shapes, *i.operand_shapes[:1]) if i.opcode in ("reduce", "reduce-window") else i.shapes
    return max(shape.element_count for shape in arrays)


def _body(i: Instruction) -> Computation | None:
    """Return the computation that an instruction runs once, and no other does; None for others."""
    return i.called[0] if i.opcode in ("fusion", "call") and i.called and len(i.called[0].callers) == 1 else None


def _element(i: Instruction) -> Instruction | None:
    """Return the instruction whose result an element of a tuple is, where that is known; the first
    element of a library's product is the product.
    """
    source = i.operands[0] if i.operands else None
    if source is None or (source.opcode == "custom-call" and i.tuple_index == 0 and dot_dimensions(source) is not None):
        return source
    body = _body(source)
    holder = source if body is None else body.root
    if holder is None or holder.opcode != "tuple" or i.tuple_index >= len(holder.operands):
        return None
    return holder.operands[i.tuple_index]
