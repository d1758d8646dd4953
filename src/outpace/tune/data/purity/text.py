"""The source text of a function, as a syntax tree, and what other functions of the same file change."""

from __future__ import annotations

import ast
import copy
import functools
import linecache
import types
from collections.abc import Iterator
from dataclasses import dataclass, field

from outpace.tune.data.purity.sources import MUTATORS

Function = ast.FunctionDef | ast.Lambda
_GENERATED = "__autograph_generated_file"
_BUILDS = frozenset({"__init__", "__post_init__", "__new__", "__setstate__", "build"})  # they run before anybody reads


@dataclass
class FileFacts:
    """Of one source file: `codes` of all its functions, and by name the line where a function assigns it (`rebound`), changes it in place
    (`changed`) or stores an attribute of that name (`attributes`, outside of constructors)."""

    tree: ast.Module
    codes: list[types.CodeType] = field(default_factory=list)
    rebound: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    attributes: dict[str, int] = field(default_factory=dict)


def file_facts(path: str) -> FileFacts | None:
    """Facts of a source file; None when it cannot be read."""
    return _facts("".join(linecache.getlines(path)))


@functools.lru_cache(maxsize=64)
def _facts(text: str) -> FileFacts | None:
    try:
        tree = ast.parse(text)
        compiled = compile(text, "<file>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    found = FileFacts(tree, list(_codes(compiled)))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            _collect(node, found)
    return found


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _collect(function: ast.FunctionDef | ast.AsyncFunctionDef, found: FileFacts) -> None:
    own = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    outside: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            outside |= set(node.names)
            found.rebound.update({name: node.lineno for name in node.names if name in own})
    for node in (node for node in ast.walk(function) if isinstance(node, ast.expr)):
        name = _changed(node)
        if name is not None and (name not in own or name in outside):
            found.changed.setdefault(name, node.lineno)
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and function.name not in _BUILDS:
            found.attributes.setdefault(node.attr, node.lineno)


def _changed(node: ast.expr) -> str | None:
    """The name whose value a node changes in place: `name[..] = `, `name.x = `, `name.append(..)`."""
    if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
        return _root(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
        return _root(node.func)
    return None


def _root(node: ast.expr) -> str | None:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def definitions(code: types.CodeType) -> list[Function]:
    """The syntax of a function (several where lambdas with the same arguments stand on one line). Empty when there is no source, or it is
    no longer what runs."""
    facts = file_facts(code.co_filename)
    if facts is None or code not in facts.codes:
        return []
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    found = [
        node for node in ast.walk(facts.tree) if isinstance(node, (ast.FunctionDef, ast.Lambda)) and _is(node, code, names)
    ]
    found = [node for node in found if isinstance(node, ast.Lambda) and _compiles_to(node, code)] or found
    return [_Plain().visit(copy.deepcopy(node)) for node in found] if generated(code) else found


def generated(code: types.CodeType) -> bool:
    """Whether AutoGraph made the function of another: functions inside a function that tf.data traces are converted with it."""
    return _GENERATED in code.co_filename


class _Plain(ast.NodeTransformer):
    """Takes AutoGraph's wrapping off what it generated: `ag__.converted_call(f, (x,), None, scope)` is `f(x)`, `ag__.ld(x)` is `x`."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if name == "ag__.ld":
            return node.args[0]
        if name == "ag__.with_function_scope" and isinstance(node.args[0], ast.Lambda):
            return node.args[0].body
        if name == "ag__.converted_call" and isinstance(node.args[1], ast.Tuple):
            named = node.args[2]
            keywords = named.keywords if isinstance(named, ast.Call) else []  # dict(a=1), or None
            return ast.copy_location(ast.Call(node.args[0], node.args[1].elts, keywords), node)
        return node


def _compiles_to(node: ast.Lambda, code: types.CodeType) -> bool:
    alone = compile(ast.Expression(node), "<lambda>", "eval", dont_inherit=True)
    return any(
        isinstance(c, types.CodeType) and (c.co_code, c.co_names) == (code.co_code, code.co_names) for c in alone.co_consts
    )


def _is(node: Function, code: types.CodeType, names: tuple[str, ...]) -> bool:
    if isinstance(node, ast.Lambda):
        first = node.lineno if code.co_name == "<lambda>" else -1
    else:
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        first = first if node.name == code.co_name else -1
    listed = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return first == code.co_firstlineno and tuple(argument.arg for argument in listed) == names
