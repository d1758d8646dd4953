# SPDX-License-Identifier: Apache-2.0
"""Finds what TensorFlow's graphs do with variables: rows that they look up, and gradients that they
compute several times.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Any

from outpace.capture.graph_parts import GRADIENT_SCOPE, SIZE_OPS, Describe

_LOOKUPS = ("Gather", "GatherV2", "ResourceGather")
_SUMS = ("L2Loss", "Sum", "Mean", "Max")
# ops that may read all rows of what they are given, in a graph of their own
_CALLS = re.compile(r"(Stateful)?PartitionedCall$|(Stateless)?(While|If|Case)$")
_PRODUCTS = re.compile(r"(Batch)?MatMul|Einsum$|Mul$")
_UPDATES = re.compile(r"Assign(Add|Sub)?VariableOp$|ResourceApply")  # ops that change all of a variable
_WEIGHT_GRADIENT = re.compile(r"BiasAddGrad$|BackpropFilter|FusedBatchNormGrad")


def find_tables(ops: Sequence[Any], describe: Describe) -> set[tuple[str, str, str]]:
    """Return (shape, op that looks up rows in it, other op of the forward pass that takes all of
    it; "" for none) of each look-up of rows in a variable, of which the forward pass takes all for
    a penalty at most: a product, say, needs all rows. A shape that other arrays have, too, is left
    out.

    What stands before the first gradient op is the forward pass.
    """
    variables: dict[int, int] = {}  # by tensor that holds the value of a variable: the variable
    shapes, readers, needed_whole = dict[int, str](), dict[int, str](), set[int]()
    lookups: list[tuple[int, str]] = []
    others: set[str] = set()  # shapes of other arrays of the forward pass
    is_forward = True
    for op in ops:
        is_gradient = GRADIENT_SCOPE.search(op.name) is not None
        is_forward = is_forward and not is_gradient
        source = id(op.inputs[0]) if op.inputs else 0
        if op.type == "ReadVariableOp":
            variables[id(op.outputs[0])] = source
            shapes[source] = str(describe(op.outputs[0]))
        elif op.type == "Identity" and source in variables:
            variables[id(op.outputs[0])] = variables[source]
        elif _CALLS.match(op.type):
            needed_whole.update(id(tensor) for tensor in op.inputs if tensor.dtype.name == "resource")
        elif op.type in _LOOKUPS:
            lookups.append((variables.get(source, source), op.name))
        elif _UPDATES.match(op.type):
            shapes.setdefault(source, str(describe(op.inputs[-1])))  # the gradient
        elif op.type not in SIZE_OPS and (is_forward or (_PRODUCTS.match(op.type) and not is_gradient)):
            taken = [variables[id(tensor)] for tensor in op.inputs if id(tensor) in variables]
            readers.update(dict.fromkeys(taken, op.name))
            needed_whole.update(taken if not _is_penalty(op) else ())
            others.update(str(describe(tensor)) for tensor in op.outputs if is_forward and not taken)
    others.update(shapes[variable] for variable in needed_whole if variable in shapes)
    known = [(variable, name) for variable, name in lookups if shapes.get(variable, "") not in ("", *others)]
    return {(shapes[variable], name, readers.get(variable, "")) for variable, name in known}


def _is_penalty(op: Any) -> bool:
    """Whether an op makes one number of all of a variable, by itself or with the sum behind it."""
    if op.type in _SUMS:
        return bool(op.outputs[0].shape.rank == 0)
    if op.type not in ("Square", "Abs") and not (op.type == "Mul" and op.inputs[0] is op.inputs[1]):
        return False
    after = [one for one in op.outputs[0].consumers() if not GRADIENT_SCOPE.search(one.name)]
    return all(one.type in _SUMS and one.outputs[0].shape.rank == 0 for one in after)


def find_repeated_gradient(ops: Sequence[Any]) -> tuple[int, Any] | None:
    """Return (how often the gradients of the weights are computed, an op of a repetition) where
    most of them are computed several times, of the same forward ops; else None.
    """
    found: dict[tuple[Any, str], list[Any]] = {}
    for op in ops:
        match = GRADIENT_SCOPE.search(op.name)
        if match is None or not _WEIGHT_GRADIENT.search(op.type) or not _is_read(op):
            continue
        # The name of a gradient op has the scope of its forward op, which may be that of several.
        of_normalisation = "BatchNorm" in op.type
        forward = op.name[match.end() :].rpartition("/")[0] if op.type == "BiasAddGrad" else id(op.inputs[of_normalisation])
        found.setdefault((forward, op.type), []).append(op)
    several = [alike for (forward, _), alike in found.items() if forward and len(alike) > 1]
    if not several or 2 * len(several) < len(found):
        return None
    times = statistics.mode(map(len, several))
    return times, next(alike for alike in several if len(alike) == times)[-1]


def _is_read(op: Any) -> bool:
    """Whether anything reads the gradients of the weights that an op computes: the gradient may be
    asked of other variables alone.
    """
    weights = op.outputs[1:3] if "BatchNorm" in op.type else op.outputs
    return any(tensor.consumers() for tensor in weights)
