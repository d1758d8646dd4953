# SPDX-License-Identifier: Apache-2.0
"""Reads the shapes of the ops in the graphs that TensorFlow built.

A profile has no shapes of TensorFlow's ops. A graph has, but for dimensions that it leaves open,
such as the batch. Each open dimension of an argument is a symbol (`s0`), and what follows from it
in the graph is that symbol or a multiple of it (`8s0` after a reshape that joins it with 8
positions). A dimension that does not follow is `?`. The analysis learns the symbols from the
profile.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from outpace.capture.graph_dimensions import (
    Dimensions,
    Symbol,
    Tensor,
    agree,
    describe,
    equation,
    fill,
    find_dimensions,
    static_shape,
)
from outpace.capture.graph_parts import find_needed_parts, merge_needed_parts
from outpace.capture.graph_sizes import find_values
from outpace.capture.graph_variables import find_tables
from outpace.frameworks.tensorflow import GRAPH_FUNCTIONS
from outpace.store.record import AFTER, MAX_TEXT, GraphShapes

_MAX_OPS = 20_000  # maximum number of ops whose shapes are read
_DEEPEST = 8  # functions inside functions
_MAX_ROUNDS = 4  # times that a loop's body is read until what goes round no longer changes
_MAX_SECONDS = 0.5  # time limit in seconds for reading (10 µs an op); functions that are not read by then have no shapes
_NO_WORK = (
    "Const",
    "Placeholder",
    "NoOp",
    "Identity",
    "IdentityN",
    "ReadVariableOp",
    "Shape",
    "Reshape",
    "ExpandDims",
    "Squeeze",
)
_CALLS = {  # ops that run functions: their attributes, and the number of arguments that are not the function's
    "PartitionedCall": (("f",), 0),
    "StatefulPartitionedCall": (("f",), 0),
    "While": (("cond", "body"), 0),
    "StatelessWhile": (("cond", "body"), 0),
    "If": (("then_branch", "else_branch"), 1),
    "StatelessIf": (("then_branch", "else_branch"), 1),
}
_SOURCES = ("Placeholder", "IteratorGetNext", "OptionalGetValue")  # ops whose open dimensions are symbols
_PRODUCTS = re.compile(r"(Batch)?MatMul|Conv[23]D$|DepthwiseConv2dNative$|Einsum$")
# ops that the optimizer may compute together with the product before them, under their own name
_FOLLOWING = re.compile(r"Bias|Add|Relu|LeakyRelu|Elu|Tanh|Sigmoid|Erf|Mul|FusedBatchNorm|Squeeze|Cast")
_MOST_FOLLOWING = 4  # ops after a product that it may compute so


class ShapeReader:
    """Shapes of ops, each text stored once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._by_function: dict[str, dict[str, int]] = {}
        self._needed: dict[str, dict[str, tuple[float, str]]] = {}
        self._tables: dict[str, tuple[tuple[str, str, str], ...]] = {}
        self._remaining_ops, self._remaining_s = _MAX_OPS, _MAX_SECONDS

    def read(self, name: str, graph: Any) -> None:
        """Read the ops of one function and of the functions that it calls; none of them where the
        limits do not allow all.
        """
        reader, begin = _FunctionReader(self._remaining_ops, time.monotonic() + self._remaining_s), time.monotonic()
        reader.read_outermost(graph)
        self._remaining_s -= time.monotonic() - begin
        self._remaining_ops = reader.remaining_ops
        if reader.texts and reader.is_complete:
            self._by_function[name] = {
                op: -1 if text is None else self._numbers.setdefault(text, len(self._numbers))
                for op, text in reader.texts.items()
            }
            self._needed[name] = {op: part for op, part in reader.needed.items() if part is not None}
            self._tables[name] = tuple(sorted(reader.tables))

    def build_shapes(self) -> GraphShapes:
        """Return the shapes of all functions that were read."""
        needed = {name: parts for name, parts in self._needed.items() if parts}
        tables = {name: found for name, found in self._tables.items() if found}
        return GraphShapes(tuple(self._numbers), self._by_function, needed, tables)


class _FunctionReader:
    """Reads the ops of one function, with those of the functions that it calls.

    texts: by the op's name; None for a name with two texts.
    needed: the part of each op's result that is read, by its name (`find_needed_parts`).
    tables: variables of which it looks up rows (`find_tables`).
    """

    def __init__(self, remaining_ops: int, deadline_s: float) -> None:
        self.texts: dict[str, str | None] = {}
        self.needed: dict[str, tuple[float, str] | None] = {}
        self.tables: set[tuple[str, str, str]] = set()
        self.remaining_ops, self._deadline_s = remaining_ops, deadline_s
        self._symbols = self._depth = self._loops = 0
        self.is_complete = True

    def read_outermost(self, graph: Any) -> None:
        """Read a function whose arguments' open dimensions are symbols."""
        self._read(graph, [self._add_symbols(static_shape(tensor)) for tensor in graph.inputs])

    def _add_symbols(self, dimensions: Dimensions) -> Dimensions:
        if dimensions is None:
            return None
        first = self._symbols
        self._symbols += dimensions.count(None)
        numbers = iter(range(first, self._symbols))
        return tuple(Symbol(next(numbers)) if one is None else one for one in dimensions)

    def _read(self, graph: Any, arguments: Sequence[Dimensions]) -> list[Dimensions]:
        """Read a graph whose arguments have these dimensions; return those of its results."""
        known = {
            id(tensor): describe(tensor, fill(static_shape(tensor), given))
            for tensor, given in zip(graph.inputs, arguments, strict=False)
        }
        products: dict[int, tuple[frozenset[str], int]] = {}  # by tensor: texts of the products before it, and ops since
        self._depth += 1
        for op in graph.get_operations() if self._depth <= _DEEPEST else ():
            self.remaining_ops -= 1
            if self.remaining_ops < 0 or time.monotonic() > self._deadline_s:
                self.is_complete = False
                break
            inputs = [_describe(tensor, known) for tensor in op.inputs]
            for tensor, dimensions in zip(op.outputs, self._find_dimensions(op, inputs, graph), strict=True):
                known.setdefault(id(tensor), describe(tensor, dimensions))
            if len(op.outputs) == 1 and (values := find_values(op, inputs)) is not None:
                known[id(op.outputs[0])] = replace(known[id(op.outputs[0])], values=values)
            if op.type not in _NO_WORK and op.type not in _CALLS:
                outputs = (known[id(tensor)] for tensor in op.outputs)
                self._add(op, " ".join((op.type, *equation(op), *map(str, inputs), "->", *map(str, outputs))), products)
        if self.is_complete and time.monotonic() < self._deadline_s:
            ops = graph.get_operations()
            if not self._loops:  # a loop may look up all rows, one after the other
                self.tables |= find_tables(ops, lambda tensor: _describe(tensor, known))
            parts = find_needed_parts(ops, graph.outputs, lambda tensor: _describe(tensor, known))
            self.needed = merge_needed_parts(self.needed, parts)
        self._depth -= 1
        return [known[id(tensor)].dimensions if id(tensor) in known else None for tensor in graph.outputs]

    def _add(self, op: Any, text: str, products: dict[int, tuple[frozenset[str], int]]) -> None:
        """Add the text of an op, with the product that may be computed with it where there is but
        one.
        """
        before = [found for tensor in op.inputs if (found := products.get(id(tensor)))]
        if _PRODUCTS.match(op.type):
            products[id(op.outputs[0])] = frozenset((text,)), 0
        elif before and _FOLLOWING.match(op.type):
            texts, count = frozenset().union(*(found[0] for found in before)), max(found[1] for found in before)
            if count < _MOST_FOLLOWING:
                products[id(op.outputs[0])] = texts, count + 1
                text += f" {AFTER} {next(iter(texts))}" if len(texts) == 1 else ""
        if len(text) <= MAX_TEXT and self.texts.setdefault(op.name, text) != text:
            self.texts[op.name] = None

    def _find_dimensions(self, op: Any, inputs: list[Tensor], graph: Any) -> list[Dimensions]:
        """Return the dimensions of each output of an op."""
        shapes: list[Dimensions] = [static_shape(tensor) for tensor in op.outputs]
        if op.type in _CALLS:
            found = self._read_called(op, inputs, graph)
            return (
                [fill(shape, other) for shape, other in zip(shapes, found, strict=True)]
                if len(found) == len(shapes)
                else shapes
            )
        if op.type in _SOURCES:
            return [self._add_symbols(shape) for shape in shapes]
        if op.type == "IdentityN":
            return [one.dimensions for one in inputs]
        if not any(shape is not None and None in shape for shape in shapes):
            return shapes
        return [find_dimensions(op, inputs, tensor) for tensor in op.outputs]

    def _read_called(self, op: Any, inputs: list[Tensor], graph: Any) -> list[Dimensions]:
        """Read the functions that an op calls, and return the dimensions of its results where they
        agree.
        """
        names, first = _CALLS[op.type]
        functions = {str(name): function for name, function in GRAPH_FUNCTIONS.of(graph, {}).items()}
        arguments, results = [one.dimensions for one in inputs[first:]], []
        for attribute in names:
            inner = getattr(functions.get(op.get_attr(attribute).name), "graph", None)
            if inner is None:
                return []
            self._loops += attribute in ("cond", "body")
            found = self._read(inner, arguments)
            for _ in range(_MAX_ROUNDS if attribute == "body" else 0):
                if found == arguments:
                    break
                arguments = [agree(one, other) for one, other in zip(arguments, found, strict=False)]
                found = self._read(inner, arguments)
            self._loops -= attribute in ("cond", "body")
            results.append(found if attribute != "cond" else arguments)
            if attribute == "body" and found != arguments:
                return []
        return results[-1] if all(found == results[0] for found in results[:-1] if names[0] != "cond") else []


def _describe(tensor: Any, known: Mapping[int, Tensor]) -> Tensor:
    """Return what is known of a tensor, by what was read of it, else by the graph alone."""
    return known.get(id(tensor)) or describe(tensor, static_shape(tensor))
