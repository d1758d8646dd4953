# SPDX-License-Identifier: Apache-2.0
"""What of a Python function a graph would not do: effects, and values that it does not have.

What the function reads is no reason here: whether that changes while the program trains is seen
where the edited script is compared with the original (`tune/same/frozen.py`).
"""

from __future__ import annotations

import ast
import inspect
import random
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from outpace.pyscope.mutations import MUTATING_METHODS, VALUE_METHODS, assignment_targets, mutated_object, root_name
from outpace.pyscope.names import outer_names, stored_names
from outpace.pyscope.nodes import is_read
from outpace.tune.texts.indentation import dedent_code
from outpace.tune.texts.parsed import parsed

_READS = frozenset({"numpy", "item", "tolist"})  # a tensor's value, which a graph does not have
_CALLS = frozenset({"float", "int", "bool", "print", "input", "open", "next"})
_CHANCE = ("random.", "numpy.random.", "secrets.", "time.", "datetime.", "os.")
_SEEDS = (".set_seed", ".set_random_seed")  # of a framework: in a graph, only while it is traced
_SCALARS = (int, float, bool, str)
_DEEPEST = 4


def effect_of(function: Any, calls: Sequence[tuple[Any, ...]] = ()) -> str | None:
    """What a graph would not do, as the end of a sentence that begins with "it"; None for nothing.
    calls: the arguments of some.
    """
    for values in zip(*calls, strict=False):
        if all(isinstance(value, _SCALARS) for value in values) and len(set(values)) > 1:
            return "is given Python numbers that change, for each of which a graph would be made"
    return next(_found(function, 0, set(), calls[0] if calls else ()), None)


def _found(function: Any, depth: int, seen: set[Any], given: Sequence[Any] = ()) -> Iterator[str]:
    """`given`: the arguments of a call, as far as they are known."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None or code in seen or depth > _DEEPEST:
        return
    seen.add(code)
    try:
        tree = parsed(dedent_code(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        yield f"calls {getattr(function, '__name__', function)}, whose source is not at hand"
        return
    names = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    own = set(stored_names(ast.walk(tree))) - outer_names(ast.walk(tree))
    known = {**names, **dict(zip(code.co_varnames, given, strict=False))}
    kept = {each.value for each in ast.walk(tree) if isinstance(each, (ast.Assign, ast.AnnAssign, ast.Return))}
    for node in ast.walk(tree):
        yield from _of(node, own, known, node in kept)
        if isinstance(node, ast.Call) and (drawn := _chance(node.func, known)):
            yield f"calls {drawn}(), which a graph does only once"
        method = _held(node.func, known) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        if isinstance(node, ast.Call) and isinstance(method, types.FunctionType) and _users(method):
            yield from (f"calls {ast.unparse(node.func)}, which {why}" for why in _found(method, depth + 1, seen))
        if isinstance(node, ast.Name) and is_read(node) and node.id not in own:
            called = names.get(node.id)
            if isinstance(called, types.FunctionType) and _users(called):
                yield from _found(called, depth + 1, seen)


def _of(node: ast.AST, own: set[str], known: Mapping[str, Any], kept: bool) -> Iterator[str]:
    """What a node of the function's source does to Python's state. `kept`: what it gives gets a
    name, or is returned.
    """
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        yield f"assigns {', '.join(node.names)} outside of itself"
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        for target in assignment_targets(node):
            if isinstance(target, (ast.Attribute, ast.Subscript)) and root_name(target) not in own:
                yield f"assigns {ast.unparse(target)}"
    if isinstance(node, ast.Call):
        text = ast.unparse(node.func)
        # `updates, state = optimizer.update(...)` changes nothing: what it gives is its purpose
        changed = mutated_object(node, VALUE_METHODS if kept else MUTATING_METHODS)
        if changed is not None and root_name(changed) not in own and not _library(_held(changed, known)):
            yield f"calls {text}, which changes what lives on after the step"
        if isinstance(node.func, ast.Attribute) and node.func.attr in _READS:
            yield f"calls {text}(), which needs a value that a graph does not have"
        if text in _CALLS:
            yield f"calls {text}(), which a graph does only once"


def _chance(called: ast.expr, known: Mapping[str, Any]) -> str:
    """What a call draws from, or asks, outside of the frameworks: by the real objects behind its
    names. Empty for nothing.
    """
    text = ast.unparse(called)
    base, _, rest = text.partition(".")
    value = known.get(base)
    whole = f"{value.__name__}.{rest}" if isinstance(value, types.ModuleType) else text
    if whole.startswith(_CHANCE) or whole.endswith(_SEEDS):
        return text
    for name in rest.split(".") if rest else ():
        if _draws(value):
            return text
        value = getattr(value, name, None) if not isinstance(value, types.ModuleType) else None
    own = getattr(value, "__self__", None) if isinstance(value, (types.BuiltinMethodType, types.MethodType)) else None
    module = getattr(value, "__module__", "") if isinstance(value, types.BuiltinFunctionType) else ""
    return text if _draws(own) or f"{module or ''}.".startswith(_CHANCE) else ""


def _held(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """What a name, or what is called of it, stands for; no code of the user's runs for that. None
    where it cannot be told.
    """
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if not isinstance(node, ast.Attribute):
        return None
    owner = _held(node.value, known)
    kinds = owner.__mro__ if isinstance(owner, type) else type(owner).__mro__
    for held in (getattr(owner, "__dict__", {}), *(vars(kind) for kind in kinds)):
        if node.attr in held:
            return held[node.attr]
    return None


def _draws(value: Any) -> bool:
    """Whether a value is a generator of random numbers of Python's or NumPy's."""
    numpy = sys.modules.get("numpy.random")
    kinds = (random.Random, numpy.Generator, numpy.RandomState) if numpy is not None else (random.Random,)
    return isinstance(value, kinds)


def _library(value: Any) -> bool:
    """Whether a value is a module of a library, whose functions are no methods: `tf.fill`."""
    from outpace.capture import frames

    return isinstance(value, types.ModuleType) and not frames.is_user_file(getattr(value, "__file__", None) or "<built-in>")


def _users(function: types.FunctionType) -> bool:
    from outpace.capture import frames

    return frames.is_user_file(function.__code__.co_filename)
