# SPDX-License-Identifier: Apache-2.0
"""Which names and calls in the source of a map's function are more than functions of their
arguments.

Names are looked up through the real function (its globals and closure): variables, tables,
generators and layers are state. Calls of TensorFlow's random and Python functions are known by
name; what other calls do is seen in the traced graph, whose impure operations know the line that
made them.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import libcst as cst

from outpace.tune.purity import evidence, traced

_PYTHON = ("py_function", "numpy_function", "py_func", "eager_py_func")
_RESOURCES = ("resource", "variant")
_STATIC = {"shape", "dtype", "ndim", "rank", "element_spec"}
_STATE = {"Layer", "KerasVariable", "SeedGenerator", "TrackableResource"}  # of Keras and TensorFlow, which have no common base


class Purity:
    """Answers for one function. `line_of` gives the lines of a node of its source."""

    def __init__(self, function: Any, wrapper: Any, line_of: Callable[[cst.CSTNode], range]) -> None:
        self._function, self._line_of = function, line_of
        closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        self._closure = {name: cell.cell_contents for name, cell in closure.items()}
        self._lines = impure_lines(wrapper, function.__code__.co_filename)
        self._explained: set[int] = set()
        self._python = any(call.token not in evidence.clean(wrapper) for call in traced.facts(wrapper).calls)

    def learn(self, body: cst.CSTNode) -> None:
        """Note which of the impure lines hold a call or name that is known to be impure: others on
        that line need no suspicion.
        """
        for node in _nodes(body):
            known = (
                self._known_impure(node)
                if isinstance(node, cst.Call)
                else isinstance(node, cst.Name) and self.state(node.value)
            )
            if known:
                self._explained |= set(self._line_of(node))

    def state(self, name: str) -> bool:
        """Whether a name from outside of the function stands for state."""
        found = self._outside(name)
        return found is not None and _is_state(found)

    def impure(self, call: cst.Call) -> bool:
        """Whether a call gives something else each time, or runs Python."""
        if self._known_impure(call):
            return True
        return bool((set(self._line_of(call)) & self._lines) - self._explained)

    def _known_impure(self, call: cst.Call) -> bool:
        target = self._resolved(call.func)
        name = str(getattr(target, "__name__", "")).lower()
        module = str(getattr(target, "__module__", ""))
        if name.startswith(_PYTHON):
            return self._python  # the source does not tell which of several
        return "random" in name and "stateless" not in name and module.startswith(("tensorflow", "keras"))

    def _resolved(self, node: cst.BaseExpression) -> Any:
        if isinstance(node, cst.Name):
            return self._outside(node.value)
        if isinstance(node, cst.Attribute):
            owner = self._resolved(node.value)
            return getattr(owner, node.attr.value, None) if owner is not None and not _is_state(owner) else None
        return None

    def _outside(self, name: str) -> Any:
        if name in self._function.__code__.co_varnames:
            return None
        if name in self._closure:
            return self._closure[name]
        return self._function.__globals__.get(name, getattr(builtins, name, None))


def impure_lines(wrapper: Any, file: str) -> set[int]:
    """Lines of a file that made the impure operations of a traced function, and those that read
    captured state. What the graph split takes for clean (Python functions that repeat themselves,
    constant tables) is clean here.
    """
    graph, function = wrapper.function.graph, wrapper.function
    library = {function.signature.name: function for function in graph.as_graph_def().library.function}
    clean = evidence.clean(wrapper)
    constant = traced.constant_tables(wrapper)
    inner = graph.inputs[len(graph.inputs) - len(function.captured_inputs) :]
    state = {
        tensor.op.name
        for tensor, outer in zip(inner, function.captured_inputs, strict=True)
        if outer.dtype.name in _RESOURCES and id(outer) not in constant
    }
    found: set[int] = set()
    for op in graph.get_operations():
        if op.type != "Placeholder" and (any(i.op.name in state for i in op.inputs) or traced.impure(op, library, clean)):
            found |= {frame.lineno for frame in op.traceback or () if frame.filename == file}
    return found


def static(node: cst.BaseExpression) -> bool:
    """Whether an expression gives a property of a tensor (its shape), which is no tensor and cannot
    be cached.
    """
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        if isinstance(node, cst.Attribute) and node.attr.value in _STATIC:
            return True
        node = node.value
    return False


def _is_state(value: Any) -> bool:
    """Whether an object's state may change while a training runs; a table that is filled once is
    none.
    """
    import tensorflow as tf

    if isinstance(value, (tf.Variable, tf.Module, tf.random.Generator)):
        return True
    names = {base.__name__ for base in type(value).__mro__}
    return bool(names & _STATE) and "InitializableLookupTableBase" not in names


def _nodes(node: cst.CSTNode) -> list[cst.CSTNode]:
    found = [node]
    for child in node.children:
        found += _nodes(child)
    return found
