"""What made JAX compile a function: which of its arguments differ from those of the compilation
before.

Looked at only while a compilation is heard of, so that it costs nothing where none is. JAX's own
Python function for a call that its cache does not know (`cache_miss(*args, **kwargs)`, since JAX
0.4.26 at least) is then on the stack, with the arguments as the user passed them. It is private:
where it is not found, nothing is known of the arguments, and the rest of the capture is as it was.
Standard library only.
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

MAX_FUNCTIONS = 2000  # whose last arguments are remembered
MAX_ARRAYS = 2000  # arrays of one call that are described
MAX_CHANGES = 8  # arguments that are noted: where more differ, the first ones say why
MAX_TEXT = 80
MAX_COMPARED_TEXT = 4000  # of a static value's text, in which a difference is looked for
_DEEPEST = 3  # fields of fields


@dataclass(frozen=True)
class ArgumentChange:
    """Arguments that differ, by name and path (`params['w1']`): what they were (None: the
    function's first compilation), and what they are.

    Arrays are described as `float32[16,64]`, static values as `Literal[...]`; an argument that was
    or is not there is left out.
    """

    before: Mapping[str, str] | None
    now: Mapping[str, str]


class JitArguments:
    """Remembers the arguments for which each function was compiled last."""

    def __init__(self) -> None:
        self._last: dict[tuple[Any, str], dict[str, str]] = {}

    def find_change(self, frame: FrameType | None) -> ArgumentChange | None:
        """What differs for the compilation that `frame` is part of; None where that
        cannot be seen.
        """
        while frame is not None and frame.f_code.co_name != CACHE_MISS.name:
            frame = frame.f_back
        if frame is None:
            return None
        seen = frame.f_locals
        function, args, kwargs = seen.get("fun"), seen.get("args"), seen.get("kwargs")
        if not callable(function) or not isinstance(args, tuple) or not isinstance(kwargs, dict):
            return None
        now = dict(_described(function, args, kwargs, _static(seen.values())))
        key = (_code(function), str(getattr(function, "__name__", "")))
        before = self._last.get(key)
        if before is not None or len(self._last) < MAX_FUNCTIONS:
            self._last[key] = now
        if before is None:
            return ArgumentChange(None, {})
        names = [name for name in dict.fromkeys((*before, *now)) if before.get(name) != now.get(name)][:MAX_CHANGES]
        shown = {name: _apart(before.get(name, ""), now.get(name, "")) for name in names}
        return ArgumentChange(
            {name: shown[name][0] for name in names if name in before}, {name: shown[name][1] for name in names if name in now}
        )


def _code(function: Any) -> Any:
    """What functions that are made anew from the same source share; its type for any other
    callable.
    """
    return getattr(inspect.unwrap(getattr(function, "func", function)), "__code__", type(function))


def _static(values: Any) -> tuple[frozenset[int], frozenset[str]]:
    """Numbers and names of static arguments, as JAX's description of the call to `jax.jit` among
    some values tells.
    """
    for value in values:
        numbers, names = getattr(value, "static_argnums", None), getattr(value, "static_argnames", None)
        if isinstance(numbers, tuple) and isinstance(names, tuple):
            return frozenset(numbers), frozenset(names)
    return frozenset(), frozenset()


def _described(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[frozenset[int], frozenset[str]]
) -> Iterator[tuple[str, str]]:
    """(name and path, description) of all that a call passes."""
    left = MAX_ARRAYS
    for name, value, fixed in _named(function, args, kwargs, static):
        for path, text in _static_parts(value) if fixed else _leaves(value):
            if left == 0:
                return
            left -= 1
            yield f"{name}{path}", text


def _named(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], static: tuple[frozenset[int], frozenset[str]]
) -> Iterator[tuple[str, Any, bool]]:
    """(parameter's name, value, whether it is static) of all arguments."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    for at, value in enumerate(args):
        name = plain[at] if at < len(plain) else f"{rest}[{at - len(plain)}]"
        yield name, value, at in static[0] or at - len(args) in static[0] or name in static[1]
    for name, value in kwargs.items():
        yield name, value, name in static[1]


def _leaves(value: Any) -> Iterator[tuple[str, str]]:
    """(path, description) of the arrays in a value, which JAX takes apart where it can hold
    several.
    """
    trees = sys.modules.get("jax.tree_util")
    flatten, text_of = getattr(trees, "tree_flatten_with_path", None), getattr(trees, "keystr", None)
    if hasattr(value, "shape") or flatten is None or text_of is None:
        yield "", _array(value)
        return
    for path, leaf in flatten(value)[0]:
        yield text_of(path), _array(leaf)


def _array(leaf: Any) -> str:
    """`float32[16,64]`, with what else JAX tells apart; of a Python number its type, since its
    value is not compiled in.
    """
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None:
        return f"Python {type(leaf).__name__}"
    weak = " weakly typed" if getattr(leaf, "weak_type", False) else ""
    spec = getattr(getattr(leaf, "sharding", None), "spec", None)
    return f"{dtype}[{','.join(str(size) for size in shape)}]{weak}{f' sharded {spec}' if spec else ''}"


def _static_parts(value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """(path, description) of the fields of a static value, so that the one that changes
    is named.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
    else:
        names = list(getattr(value, "_fields", ())) if isinstance(value, tuple) else []
    if not names or depth == _DEEPEST:
        yield "", f"Literal[{repr(value)[:MAX_COMPARED_TEXT]}]"
    for name in names if depth < _DEEPEST else ():
        for path, text in _static_parts(getattr(value, name, None), depth + 1):
            yield f".{name}{path}", text


def _apart(before: str, now: str) -> tuple[str, str]:
    """Two texts, cut so that where they begin to differ is left."""
    same = next((at for at, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), min(len(before), len(now)))
    begin = max(0, same - MAX_TEXT // 4) if max(len(before), len(now)) > MAX_TEXT else 0
    return _cut(before, begin), _cut(now, begin)


def _cut(text: str, begin: int) -> str:
    cut = ("…" if begin else "") + text[begin:]
    return cut if len(cut) <= MAX_TEXT else cut[: MAX_TEXT - 1] + "…"
