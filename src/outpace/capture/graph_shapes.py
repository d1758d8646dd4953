# SPDX-License-Identifier: Apache-2.0
"""Reads the shapes of the ops in the graphs that TensorFlow built.

A profile has no shapes of TensorFlow's ops. A graph has, but for a dimension that it leaves open:
the batch, for a graph that takes batches of any size. Such a dimension is written as `b`, or as a
multiple of it (`8b` after a reshape that joins the batch with 8 positions), and `?` where that does
not follow from the graph; the analysis learns `b` from the profile.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outpace.frameworks.tensorflow import GRAPH_FUNCTIONS
from outpace.store.record import AFTER, GraphShapes

_MAX_OPS = 20_000  # maximum number of ops whose shapes are read
_DEEPEST = 8  # functions inside functions
_MAX_SECONDS = 0.5  # time limit in seconds for reading (10 µs a tensor); later ops have no shapes
# types of ops that compute nothing
_NO_WORK = ("Const", "Placeholder", "NoOp", "Identity", "IdentityN", "ReadVariableOp", "Shape", "Reshape")
_DTYPES = {
    "float": "f",
    "bfloat": "bf",
    "int": "s",
    "uint": "u",
    "bool": "pred",
    "complex": "c",
}  # short names, as HLO has them
_DTYPE = re.compile(r"([a-z]+)(\d*)$")
_CALLS = {  # ops that run functions: their attributes, and the number of arguments that are not the function's
    "PartitionedCall": (("f",), 0),
    "StatefulPartitionedCall": (("f",), 0),
    "While": (("cond", "body"), 0),
    "StatelessWhile": (("cond", "body"), 0),
    "If": (("then_branch", "else_branch"), 1),
    "StatelessIf": (("then_branch", "else_branch"), 1),
}
_SOURCES = ("Placeholder", "IteratorGetNext", "OptionalGetValue")  # ops whose open dimension is the batch
# ops whose result has the open dimension of their operands
_KEEPING = re.compile(
    r"(Batch)?MatMul|Conv|Depthwise|(Max|Avg)Pool|Bias|FusedBatchNorm|Softmax|LogSoftmax|Cross|SparseSoftmax|Einsum|Transpose|"
    r"Cast|ExpandDims|Squeeze|Identity|StopGradient|PreventGradient|Add|Sub|Mul|Real|Div|Neg|Abs|Sign|Exp|Log|Pow|R?[Ss]q|Reciprocal|"
    r"Maximum|Minimum|Tanh|Sigmoid|Relu|LeakyRelu|Elu|Selu|Softplus|Softsign|Erf|Sin|Cos|Select|Greater|Less|Equal|NotEqual|Clip|Zeros|"
    r"Ones|Floor|Ceil|Round|IsFinite|Sum|Mean|Max$|Min$|Prod|All|Any|ArgM|Cum|OneHot|Gather|ResourceGather|Pack|Resize"
)
_JOINING = ("ConcatV2", "Split", "SplitV")  # these too, where another dimension is joined or split
_PRODUCTS = re.compile(r"(Batch)?MatMul|Conv[23]D$|DepthwiseConv2dNative$|Einsum$")
# ops that the optimizer may compute together with the product before them, under their own name
_FOLLOWING = re.compile(r"Bias|Add|Relu|LeakyRelu|Elu|Tanh|Sigmoid|Erf|Mul|FusedBatchNorm|Squeeze|Cast")
_MOST_FOLLOWING = 4  # ops after a product that it may compute so

Multiple = int | None  # of the batch, which the open dimension of a tensor is; None where it is not known


class ShapeReader:
    """Shapes of ops, each text stored once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._by_function: dict[str, dict[str, int]] = {}
        self._remaining_ops = _MAX_OPS
        self._deadline_s = time.monotonic() + _MAX_SECONDS

    def read(self, name: str, graph: Any) -> None:
        """Read the ops of one function and of the functions that it calls."""
        ops: dict[str, int] = {}
        _FunctionReader(self, ops).read(graph, [1] * len(graph.inputs))
        if ops:
            self._by_function[name] = ops

    def take_op(self) -> bool:
        """Whether one more op may be read."""
        self._remaining_ops -= 1
        return self._remaining_ops >= 0 and time.monotonic() < self._deadline_s

    def number(self, text: str) -> int:
        """Return the number of a text."""
        return self._numbers.setdefault(text, len(self._numbers))

    def build_shapes(self) -> GraphShapes:
        """Return the shapes of all functions that were read."""
        return GraphShapes(tuple(self._numbers), self._by_function)


@dataclass(frozen=True)
class _Tensor:
    """What is known of a tensor: its shape, open dimensions as None; the multiple of the batch that
    its open dimension is; its text.
    """

    shape: tuple[int | None, ...] | None
    multiple: Multiple
    text: str

    @property
    def is_open(self) -> bool:
        """Whether its size does not stand in the graph."""
        return self.shape is None or None in self.shape


class _FunctionReader:
    """Reads the ops of one function, with those of the functions that it calls, into `ops`: the
    number of each op's text by the op's name, -1 for a name with two texts.
    """

    def __init__(self, reader: ShapeReader, ops: dict[str, int]) -> None:
        self._reader, self._ops = reader, ops
        self._depth = 0

    def read(self, graph: Any, arguments: Sequence[Multiple]) -> list[Multiple]:
        """Read a graph whose arguments' open dimensions are multiples of the batch; return the
        multiples of its results.
        """
        known: dict[int, _Tensor] = {}
        products: dict[int, tuple[str, int]] = {}  # by tensor: text of the product before it, and ops since
        multiples = {id(tensor): multiple for tensor, multiple in zip(graph.inputs, arguments, strict=False)}
        self._depth += 1
        for op in graph.get_operations() if self._depth <= _DEEPEST else ():
            if not self._reader.take_op():
                break
            inputs = [known.get(id(tensor)) or _describe(tensor, None) for tensor in op.inputs]
            of_results = self._find_multiples(op, inputs, graph)
            outputs = [
                _describe(tensor, multiples.get(id(tensor), multiple))
                for tensor, multiple in zip(op.outputs, of_results, strict=True)
            ]
            known.update((id(tensor), described) for tensor, described in zip(op.outputs, outputs, strict=True))
            if op.type in _NO_WORK or op.type in _CALLS:
                continue
            text = " ".join((op.type, *_equation(op), *(one.text for one in inputs), "->", *(one.text for one in outputs)))
            before = next((found for tensor in op.inputs if (found := products.get(id(tensor)))), None)
            if _PRODUCTS.match(op.type):
                products[id(op.outputs[0])] = text, 0
            elif before and before[1] < _MOST_FOLLOWING and _FOLLOWING.match(op.type):
                products[id(op.outputs[0])] = before[0], before[1] + 1
                text = f"{text} {AFTER} {before[0]}"
            self._add(op.name, text)
        self._depth -= 1
        return [known[id(tensor)].multiple if id(tensor) in known else None for tensor in graph.outputs]

    def _add(self, name: str, text: str) -> None:
        number = self._reader.number(text)
        if self._ops.setdefault(name, number) != number:
            self._ops[name] = -1

    def _find_multiples(self, op: Any, inputs: list[_Tensor], graph: Any) -> list[Multiple]:
        """Return, for each output of an op, the multiple of the batch that its open dimension
        is.
        """
        count = len(op.outputs)
        if op.type in _CALLS:
            return self._read_called(op, inputs, graph)
        if op.type in _SOURCES:
            return [1] * count
        # operands of an op have equal sizes, but for a gather, whose result has that of its indices
        opened = {one.multiple for one in inputs if one.is_open}
        known = opened - {None} if "Gather" not in op.type else opened
        multiple = known.pop() if len(known) == 1 else None
        if multiple is None:
            return [None] * count
        shapes = [_shape(tensor) for tensor in op.outputs]
        if op.type == "Reshape":
            return [_reshape(inputs[0], shape) for shape in shapes]
        if op.type in _JOINING:
            open_shape = next(one.shape for one in inputs if one.multiple is not None)
            return [multiple if _differ(open_shape, shape) else None for shape in shapes]
        return [multiple if _KEEPING.match(op.type) else None] * count

    def _read_called(self, op: Any, inputs: list[_Tensor], graph: Any) -> list[Multiple]:
        """Read the functions that an op calls, and return the multiples of its results where they
        agree.
        """
        names, first = _CALLS[op.type]
        functions = {str(name): function for name, function in GRAPH_FUNCTIONS.of(graph, {}).items()}
        arguments, results = [one.multiple for one in inputs[first:]], []
        for attribute in names:
            called = functions.get(op.get_attr(attribute).name)
            inner = getattr(called, "graph", None)
            if inner is None:
                return [None] * len(op.outputs)
            found = self.read(inner, arguments)
            if attribute == "body" and found != arguments:  # what changes from iteration to iteration
                arguments = [one if one == other else None for one, other in zip(arguments, found, strict=False)]
                found = self.read(inner, arguments)
            results.append(found if attribute != "cond" else arguments)
        agree = all(found == results[0] for found in results) and len(results[0]) == len(op.outputs)
        return results[0] if agree else [None] * len(op.outputs)


def _shape(tensor: Any) -> tuple[int | None, ...] | None:
    """Return the shape of a tensor; None where not even the number of its dimensions is known."""
    shape = tensor.shape
    return None if shape.rank is None else tuple(shape.as_list())


def _describe(tensor: Any, multiple: Multiple) -> _Tensor:
    """Return what is known of a tensor whose open dimension is a multiple of the batch."""
    shape = _shape(tensor)
    multiple = multiple if shape is not None and shape.count(None) == 1 else None
    letter = _DTYPE.fullmatch(tensor.dtype.name)
    dtype = _DTYPES.get(letter[1], letter[1]) + letter[2] if letter else tensor.dtype.name
    unknown = "?" if multiple is None else "b" if multiple == 1 else f"{multiple}b"
    return _Tensor(
        shape, multiple, f"{dtype}[{'?' if shape is None else ','.join(unknown if n is None else str(n) for n in shape)}]"
    )


def _reshape(before: _Tensor, after: tuple[int | None, ...] | None) -> Multiple:
    """Return the multiple of the batch in the result of a reshape."""
    if before.shape is None or after is None or before.multiple is None or after.count(None) != 1:
        return None
    elements, size = (math.prod(n for n in shape if n is not None) for shape in (before.shape, after))
    multiple, rest = divmod(before.multiple * elements, size) if size else (None, 1)
    return None if rest else multiple


def _differ(before: tuple[int | None, ...] | None, after: tuple[int | None, ...] | None) -> bool:
    """Whether a known dimension of a shape changed, so that the open one did not."""
    return (
        before is not None
        and after is not None
        and any(a != b for a, b in zip(before, after, strict=False) if None not in (a, b))
    )


def _equation(op: Any) -> tuple[str, ...]:
    """Return the equation of an `Einsum`."""
    return (op.get_attr("equation").decode().replace(" ", ""),) if op.type == "Einsum" else ()
