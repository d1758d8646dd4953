"""The Python functions that a traced function calls (py_function, numpy_function), and what their code says about them.

A graph knows such a function by a token, and TensorFlow's registry the function by its token, for as long as the function lives. The
registry is private: where it does not answer, the function counts as one that cannot be read.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from outpace.tune.data.purity.reading import doubt, doubt_of_generator
from outpace.tune.data.purity.site import called_name

PYTHON_OPS = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless"})
_TENSORFLOW = "/tensorflow/python/"


@dataclass(frozen=True)
class PythonCall:
    """One Python function that a graph calls: its `token` there, its `name`, file and line of its definition (None: not known), and what
    speaks against its being a function of its arguments (`doubt`, None: nothing in its code does)."""

    token: str
    name: str
    file: str | None
    line: int | None
    doubt: str | None
    function: Any


def python_calls(nodes: Iterable[Any]) -> tuple[PythonCall, ...]:
    """The Python functions behind the nodes of a graph and its library, each once."""
    all_nodes = list(nodes)
    tokens = dict.fromkeys(node.attr["token"].s.decode() for node in all_nodes if node.op in PYTHON_OPS)
    generators = any(node.op == "GeneratorDataset" for node in all_nodes)
    return tuple(_call(token, generators) for token in tokens)


def _call(token: str, generator: bool) -> PythonCall:
    function = _registered(token)
    code = getattr(inspect.unwrap(function) if inspect.isfunction(function) else function, "__code__", None)
    name = str(getattr(function, "__name__", None) or type(function).__name__)
    if function is None:
        return PythonCall(
            token, token, None, None, f"{token} is not in TensorFlow's registry of Python functions, so it cannot be read", None
        )
    made = _generator(function) if generator else None
    if made is not None:
        code, name = getattr(inspect.unwrap(made), "__code__", None), called_name(made)
        against = doubt_of_generator(made)
    elif generator:
        against = "it feeds a Python generator (from_generator) that was not found"
    elif code is not None and _TENSORFLOW in code.co_filename:
        against = f"{name} is TensorFlow's own, around a function that was not found"
    else:
        against = doubt(function)
    return PythonCall(token, name, getattr(code, "co_filename", None), getattr(code, "co_firstlineno", None), against, function)


def _generator(function: Any) -> Any:
    """The user's generator function behind one of the three functions that `from_generator` makes; None where it is not found."""
    cells = (cell.cell_contents for cell in getattr(function, "__closure__", None) or ())
    for holder in (getattr(function, "__self__", None), *cells):
        if type(holder).__name__ == "_GeneratorState":
            return getattr(holder, "_generator", None)
    return None


def _registered(token: str) -> Any:
    """The user's function behind a token; None where the registry does not know it."""
    try:
        from tensorflow.python.ops import script_ops

        found = script_ops._py_funcs.get(token)
    except Exception:
        return None
    return _unwrapped(getattr(found, "_func", found))


def _unwrapped(function: Any) -> Any:
    """Behind the closures that TensorFlow puts around a function (no conversion by AutoGraph; composite tensors)."""
    for _ in range(4):
        code = getattr(function, "__code__", None)
        if code is None or _TENSORFLOW not in code.co_filename:
            return function
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        inner = next((cells[name] for name in ("func", "original_func", "f") if name in cells), None)
        if inner is None:
            return function
        function = inner.cell_contents
    return function
