"""What of a Python function would be frozen in a graph: state that it reads or changes in each call, which a traced function does once."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
import types
from collections.abc import Iterator, Sequence
from typing import Any

_CHANGES = frozenset(
    {"append", "extend", "insert", "add", "update", "pop", "popleft", "appendleft", "remove", "clear", "setdefault", "write"}
)
_READS = frozenset({"numpy", "item", "tolist"})  # a tensor's value, which a graph does not have
_CALLS = frozenset({"float", "int", "bool", "print", "input", "open", "next"})
_CHANCE = ("random.", "np.random.", "numpy.random.", "time.", "datetime.", "os.")
_SCALARS = (int, float, bool, str)
_DEEPEST = 4


def frozen(function: Any, calls: Sequence[tuple[Any, ...]] = ()) -> str | None:
    """What would be frozen, as the end of a sentence that begins with "it"; None for nothing. calls: the arguments of some."""
    for values in zip(*calls, strict=False):
        if all(isinstance(value, _SCALARS) for value in values) and len(set(values)) > 1:
            return "is given Python numbers that change, for each of which a graph would be made"
    return next(_found(function, 0, set()), None)


def _found(function: Any, depth: int, seen: set[Any]) -> Iterator[str]:
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None or code in seen or depth > _DEEPEST:
        return
    seen.add(code)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        yield f"calls {getattr(function, '__name__', function)}, whose source is not at hand"
        return
    names = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    own = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    changing = _attributes(function)
    for node in ast.walk(tree):
        yield from _of(node, own)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr in changing:
            yield f"reads {ast.unparse(node)}, which the program assigns again"
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names and node.id not in own:
            yield from _constant(node.id, names[node.id], function)
            if isinstance(names[node.id], types.FunctionType) and _users(names[node.id]):
                yield from _found(names[node.id], depth + 1, seen)


def _of(node: ast.AST, own: set[str]) -> Iterator[str]:
    """What a node of the function's source does to Python's state."""
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        yield f"assigns {', '.join(node.names)} outside of itself"
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            base = _base(target)
            if isinstance(target, (ast.Attribute, ast.Subscript)) and base not in own:
                yield f"assigns {ast.unparse(target)}"
    if isinstance(node, ast.Call):
        text = ast.unparse(node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES and _base(node.func) not in own:
            yield f"calls {text}, which changes what lives on after the step"
        if isinstance(node.func, ast.Attribute) and node.func.attr in _READS:
            yield f"calls {text}(), which needs a value that a graph does not have"
        if text in _CALLS or text.startswith(_CHANCE):
            yield f"calls {text}(), which a graph does only once"


def _constant(name: str, value: Any, function: Any) -> Iterator[str]:
    """A number of Python's that is assigned more than once."""
    if isinstance(value, _SCALARS) and _assigned(name, function) > 1:
        yield f"reads {name}, which the program assigns again"


def _file(function: Any) -> ast.Module:
    """The file of a function; empty where it is not at hand."""
    try:
        return ast.parse("".join(linecache.getlines(inspect.getsourcefile(function) or "")))
    except (SyntaxError, TypeError, ValueError):
        return ast.Module([], [])


def _attributes(function: Any) -> set[str]:
    """The attributes that a function's file assigns, but in constructors."""
    found: set[str] = set()
    todo: list[ast.AST] = [_file(function)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        if not (isinstance(node, ast.FunctionDef) and node.name in ("__init__", "build")):
            todo += ast.iter_child_nodes(node)
    return found


def _assigned(name: str, function: Any) -> int:
    """How often a file assigns a name; an assignment inside of a loop or a function counts as several."""
    tree = _file(function)
    plain = sum(_stores(node, name) for node in tree.body)
    nested = [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While))]
    return plain + sum(_stores(node, name) for node in nested)


def _stores(node: ast.AST, name: str) -> int:
    return sum(isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store) for each in ast.walk(node))


def _base(node: ast.AST) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _users(function: types.FunctionType) -> bool:
    from outpace.capture import frames

    return frames.users(function.__code__.co_filename)
