# SPDX-License-Identifier: Apache-2.0
"""The innermost loop around a step, taken apart, as patches write it anew, with several steps per
call.
"""

from __future__ import annotations

import ast
import operator
import os
from collections.abc import Mapping
from types import FrameType
from typing import Any

from outpace._dataclass import dataclass
from outpace.pyscope.nodes import iter_calls
from outpace.tune.loop.body import Body
from outpace.tune.loop.step import Outline

USUAL, MOST = 16, 32  # steps per call: where an epoch's length is not known, and in any case


@dataclass(frozen=True, eq=False)
class Taken:
    """inside: whether it stands in the function that holds the outermost loop."""

    body: Body
    inside: bool

    def place(self, line: int) -> str:
        """A line of the loop's file, as the user knows it."""
        return f"{os.path.relpath(self.body.file)}:{line}"

    def per_call(self, dataset: Any) -> int:
        """Steps per call: what divides an epoch well, where its length is known. dataset: what the
        steps read; None for nothing of tf.data.
        """
        known = length_of(self.body.loop.iter, self.body.names)
        known = known or (max(int(dataset.cardinality()), 0) if dataset is not None else 0)
        return size_for(known, self.body.period)


def taken_of(frame: FrameType, outermost: FrameType, outline: Outline | None, *, jax: bool) -> Taken | str:
    """The innermost loop around a frame; why it is left as it is. outermost: the frame that runs
    the outermost one.
    """
    if outline is not None and outline.aside:
        return "the step stands in a function that the loop calls, and is compiled first"
    body = kind_of(jax=jax).around(frame, outline)
    return body if isinstance(body, str) else Taken(body, body.frame is outermost)


def kind_of(*, jax: bool) -> type[Body]:
    """How loops of a framework come apart."""
    if jax:
        return Body
    from outpace.tune.loop.tensors import TensorBody

    return TensorBody


def length_of(node: ast.expr, names: Mapping[str, Any]) -> int:
    """Items of what a loop goes over, as far as that is known without going over it; 0 for not
    known.
    """
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        lengths = [length_of(each, names) for each in node.args]
        if node.func.id in ("enumerate", "reversed", "list", "tuple", "sorted", "zip") and lengths:
            return min(lengths) if node.func.id == "zip" else lengths[0]
        if node.func.id == "range" and not any(iter_calls(*node.args)):
            try:
                return len(eval(compile(ast.Expression(node), "<range>", "eval"), {"range": range}, dict(names)))
            except Exception:  # a name that has no value yet, or something else than a number
                return 0
        return 0
    value = names.get(node.id) if isinstance(node, ast.Name) else None
    try:
        return operator.length_hint(value) if value is not None else 0
    except Exception:  # of the user's own class
        return 0


def size_for(length: int, period: int = 0) -> int:
    """Steps per call: as few calls as an epoch of a length allows, those of single steps that are
    left over included. period: every how many steps they end in any case. 0 for what is not known.
    """

    def calls(steps: int, size: int) -> int:
        return steps // size + steps % size

    def cost(size: int) -> int:
        known = length or period
        return known // period * calls(period, size) + calls(known % period, size) if period else calls(known, size)

    return min(range(1, MOST + 1), key=lambda size: (cost(size), size)) if length or period else USUAL
