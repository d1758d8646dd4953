# SPDX-License-Identifier: Apache-2.0
"""Finds what made JAX compile a function: the arguments that differ from those of the previous
compilation. Standard library only.

The arguments are read only when JAX reports a compilation, so that calls without one cost nothing.
JAX's own Python function for a call that its cache does not have (`cache_miss(*args, **kwargs)`,
since JAX 0.4.26 at least) is then on the stack, with the arguments as the user passed them. It is
private: where it is not found, the arguments are unknown, and the rest of the capture is
unaffected.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from outpace._dataclass import dataclass
from outpace.frameworks.jax import CACHE_MISS

MAX_FUNCTIONS = 2000  # functions whose last arguments are stored
MAX_ARRAYS = 2000  # described arrays per call
MAX_CHANGES = 8  # recorded arguments per compilation; where more differ, the first ones show why
MAX_TEXT = 80
MAX_COMPARED_TEXT = 4000  # characters of a static value's text that are compared
_MAX_DEPTH = 3  # depth of nested fields


@dataclass(frozen=True)
class ArgumentChange:
    """Arguments in which two compilations of a function differ, by name and path (`params['w1']`).

    before: descriptions in the previous compilation; None at the function's first compilation.
    now: descriptions in this compilation.

    Arrays are described as `float32[16,64]`, static values as `Literal[...]`. An argument that one
    of the two calls does not have is left out there.
    """

    before: Mapping[str, str] | None
    now: Mapping[str, str]


class JitArguments:
    """Stores the arguments with which each function was compiled last."""

    def __init__(self) -> None:
        self._last_arguments: dict[tuple[Any, str], dict[str, str]] = {}

    def find_change(self, frame: FrameType | None) -> ArgumentChange | None:
        """Return what differs in the compilation that is running below `frame`; None where it
        cannot be seen.
        """
        while frame is not None and frame.f_code.co_name != CACHE_MISS.name:
            frame = frame.f_back
        if frame is None:
            return None
        variables = frame.f_locals
        function, args, kwargs = variables.get("fun"), variables.get("args"), variables.get("kwargs")
        if not callable(function) or not isinstance(args, tuple) or not isinstance(kwargs, dict):
            return None
        now = dict(_iter_descriptions(function, args, kwargs, _find_static_arguments(variables.values())))
        key = (_code_key(function), str(getattr(function, "__name__", "")))
        before = self._last_arguments.get(key)
        if before is not None or len(self._last_arguments) < MAX_FUNCTIONS:
            self._last_arguments[key] = now
        if before is None:
            return ArgumentChange(None, {})
        names = [name for name in dict.fromkeys((*before, *now)) if before.get(name) != now.get(name)][:MAX_CHANGES]
        texts = {name: _cut_to_difference(before.get(name, ""), now.get(name, "")) for name in names}
        return ArgumentChange(
            {name: texts[name][0] for name in names if name in before}, {name: texts[name][1] for name in names if name in now}
        )


def _code_key(function: Any) -> Any:
    """Return what functions share that were created repeatedly from the same source: their code, or
    the type of any other callable.
    """
    return getattr(inspect.unwrap(getattr(function, "func", function)), "__code__", type(function))


def _find_static_arguments(values: Any) -> tuple[frozenset[int], frozenset[str]]:
    """Return the numbers and names of static arguments, from JAX's description of the `jax.jit`
    call among the local variables `values`.
    """
    for value in values:
        numbers, names = getattr(value, "static_argnums", None), getattr(value, "static_argnames", None)
        if isinstance(numbers, tuple) and isinstance(names, tuple):
            return frozenset(numbers), frozenset(names)
    return frozenset(), frozenset()


def _iter_descriptions(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[frozenset[int], frozenset[str]]
) -> Iterator[tuple[str, str]]:
    """Yield (name and path, description) of each value that a call passes, `MAX_ARRAYS` at most."""
    remaining = MAX_ARRAYS
    for name, value, is_static in _iter_arguments(function, args, kwargs, static):
        for path, text in _iter_static_fields(value) if is_static else _iter_leaves(value):
            if remaining == 0:
                return
            remaining -= 1
            yield f"{name}{path}", text


def _iter_arguments(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[frozenset[int], frozenset[str]]
) -> Iterator[tuple[str, Any, bool]]:
    """Yield (parameter's name, value, whether it is static) of each argument."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional_names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest_name = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    for index, value in enumerate(args):
        name = positional_names[index] if index < len(positional_names) else f"{rest_name}[{index - len(positional_names)}]"
        yield name, value, index in static[0] or index - len(args) in static[0] or name in static[1]
    for name, value in kwargs.items():
        yield name, value, name in static[1]


def _iter_leaves(value: Any) -> Iterator[tuple[str, str]]:
    """Yield (path, description) of each array in a value; JAX flattens a value that can contain
    several.
    """
    trees = sys.modules.get("jax.tree_util")
    flatten, text_of = getattr(trees, "tree_flatten_with_path", None), getattr(trees, "keystr", None)
    if hasattr(value, "shape") or flatten is None or text_of is None:
        yield "", _describe_array(value)
        return
    for path, leaf in flatten(value)[0]:
        yield text_of(path), _describe_array(leaf)


def _describe_array(leaf: Any) -> str:
    """Return the description of an array: `float32[16,64]`, and what else JAX distinguishes; of a
    Python number its type, because its value is not compiled in.
    """
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None:
        return f"Python {type(leaf).__name__}"
    weak = " weakly typed" if getattr(leaf, "weak_type", False) else ""
    spec = getattr(getattr(leaf, "sharding", None), "spec", None)
    return f"{dtype}[{','.join(str(size) for size in shape)}]{weak}{f' sharded {spec}' if spec else ''}"


def _iter_static_fields(value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield (path, description) of each field of a static value, so that the one that changed is
    named.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
    else:
        names = list(getattr(value, "_fields", ())) if isinstance(value, tuple) else []
    if not names or depth == _MAX_DEPTH:
        yield "", f"Literal[{repr(value)[:MAX_COMPARED_TEXT]}]"
    for name in names if depth < _MAX_DEPTH else ():
        for path, text in _iter_static_fields(getattr(value, name, None), depth + 1):
            yield f".{name}{path}", text


def _cut_to_difference(before: str, now: str) -> tuple[str, str]:
    """Return two texts, cut so that the first difference remains visible."""
    common = next((index for index, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), min(len(before), len(now)))
    begin = max(0, common - MAX_TEXT // 4) if max(len(before), len(now)) > MAX_TEXT else 0
    return _cut_text(before, begin), _cut_text(now, begin)


def _cut_text(text: str, begin: int) -> str:
    """Return the text from `begin` on, `MAX_TEXT` characters at most, with an ellipsis for each
    cut.
    """
    shortened = ("…" if begin else "") + text[begin:]
    return shortened if len(shortened) <= MAX_TEXT else shortened[: MAX_TEXT - 1] + "…"
