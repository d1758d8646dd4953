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
_SUMMING = ("L2Loss", "Square", "Abs", "Mul", "Sum", "Mean", "Max")  # ops of a penalty on all of a variable
_UPDATES = re.compile(r"Assign(Add|Sub)?VariableOp$|ResourceApply")  # ops that change all of a variable
_WEIGHT_GRADIENT = re.compile(r"BiasAddGrad$|BackpropFilter|FusedBatchNormGrad")


def find_tables(ops: Sequence[Any], describe: Describe) -> set[tuple[str, str, str]]:
    """Return (shape, op that looks up rows in it, other op of the forward pass that takes all of
    it; "" for none) of each look-up of rows in a variable, of which the forward pass takes all for
    a penalty at most: a product, say, needs all rows.

    What stands before the first gradient op is the forward pass.
    """
    variables: dict[int, int] = {}  # by tensor that holds the value of a variable: the variable
    shapes, readers, needed_whole = dict[int, str](), dict[int, str](), set[int]()
    lookups: list[tuple[int, str]] = []
    is_forward = True
    for op in ops:
        is_forward = is_forward and not GRADIENT_SCOPE.search(op.name)
        source = id(op.inputs[0]) if op.inputs else 0
        if op.type == "ReadVariableOp":
            variables[id(op.outputs[0])] = source
            shapes[source] = str(describe(op.outputs[0]))
        elif op.type == "Identity" and source in variables:
            variables[id(op.outputs[0])] = variables[source]
        elif op.type in _LOOKUPS:
            lookups.append((variables.get(source, source), op.name))
        elif _UPDATES.match(op.type):
            shapes.setdefault(source, str(describe(op.inputs[-1])))  # the gradient
        elif op.type not in SIZE_OPS and is_forward:
            taken = [variables[id(tensor)] for tensor in op.inputs if id(tensor) in variables]
            readers.update(dict.fromkeys(taken, op.name))
            needed_whole.update(taken if op.type not in _SUMMING else ())
    known = [(variable, name) for variable, name in lookups if variable in shapes and variable not in needed_whole]
    return {(shapes[variable], name, readers.get(variable, "")) for variable, name in known}


def find_repeated_gradient(ops: Sequence[Any]) -> tuple[int, Any] | None:
    """Return (how often the gradients of the weights are computed, an op of a repetition) where
    most of them are computed several times, of the same forward ops; else None.
    """
    found: dict[tuple[str, str], list[Any]] = {}
    for op in ops:
        if (match := GRADIENT_SCOPE.search(op.name)) and _WEIGHT_GRADIENT.search(op.type):
            found.setdefault((op.name[match.end() :].rpartition("/")[0], op.type), []).append(op)
    several = [alike for (forward, _), alike in found.items() if forward and len(alike) > 1]
    if not several or 2 * len(several) < len(found):
        return None
    times = statistics.mode(map(len, several))
    return times, next(alike for alike in several if len(alike) == times)[-1]
