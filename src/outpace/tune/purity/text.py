"""The source text of functions, as syntax trees: what other functions of the same file change, and what the program that runs has still to do,
behind the line at which each of its functions, and its script, stands now.
"""

from __future__ import annotations

import ast
import copy
import functools
import linecache
import os
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from outpace.capture.sampler import owner_of
from outpace.tune.purity.sources import BY_NAME, MUTATORS
from outpace.tune.purity.values import bound_by

Function = ast.FunctionDef | ast.Lambda
_GENERATED = "__autograph_generated_file"
_HANDING = frozenset({"items", "values", "get", "setdefault", "enumerate", "zip", "reversed", "iter", "next", "getattr"})
_BUILDS = frozenset({"__init__", "__post_init__", "__new__", "__setstate__", "build"})  # they run before anybody reads


@dataclass(eq=False)
class FileFacts:
    """Of one source file: `codes` of all its functions, and by name the line where a function

    * assigns it (`rebound`);
    * changes it in place (`changed`), also as a part of something else (`reached`: of `data.TABLE[0] = 1` both names);
    * stores an attribute of that name (`attributes`, outside of constructors; by the class whose own method does it, `ANY` for others);
    * gives it to another function (`given`: that function's name and the line).

    changing: names of functions that change what they are given. `ANY` stands for every name.
    """

    tree: ast.Module
    codes: list[types.CodeType] = field(default_factory=list)
    rebound: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)
    attributes: dict[str, dict[str, int]] = field(default_factory=dict)
    given: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    changing: set[str] = field(default_factory=set)


ANY = "*"


def of_user(owner: Any) -> bool:
    """Whether a module is the user's, or a class stands in one that is; other modules have many attributes of everyday names."""
    module = owner if isinstance(owner, types.ModuleType) else sys.modules.get(getattr(owner, "__module__", ""))
    path = str(getattr(module, "__file__", None) or "")
    return bool(path) and not owner_of(os.path.abspath(path))


def users_files() -> list[FileFacts]:
    """Of all modules that the user wrote and that are loaded."""
    paths = {str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())}
    found = (file_facts(path) for path in sorted(paths) if path.endswith(".py") and not owner_of(os.path.abspath(path)))
    return [facts for facts in found if facts is not None]


def file_facts(path: str) -> FileFacts | None:
    """Facts of a source file; None when it cannot be read."""
    return _facts("".join(linecache.getlines(path)))


@functools.cache  # a file's facts are one object, which others are compared with
def _facts(text: str) -> FileFacts | None:
    try:
        tree = ast.parse(text)
        compiled = compile(text, "<file>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    found = FileFacts(tree, list(codes(compiled)))
    classes: dict[ast.AST, str] = {
        method: node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for method in node.body
    }
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            collect(node, found, classes.get(node, ANY))
    return found


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object, and those of all functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def collect(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, found: FileFacts, kind: str = ANY) -> None:
    """Add what a function does; `kind`: the class that it is a method of."""
    name = getattr(function, "name", "")
    parameters = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    nodes = [node for node in ast.walk(function) if not isinstance(node, ast.expr_context)]
    own = parameters.union(*(bound_by(node) for node in nodes[1:]))
    outside: set[str] = set()
    for node in nodes:
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            outside |= set(node.names)
            found.rebound.update({name: node.lineno for name in node.names if name in own})
    aliases = _aliases(nodes)
    for node in (node for node in nodes if isinstance(node, ast.expr)):
        chain = _changed(node) or _changed_by_name(node)
        for spelled in _spellings(chain, aliases):
            if spelled[0] in parameters - {"self", "cls"}:
                found.changing.add(name)
            if spelled[0] not in own or spelled[0] in outside:
                found.changed.setdefault(spelled[0], node.lineno)
                for part in spelled:
                    found.reached.setdefault(part, node.lineno)
        if name not in _BUILDS:
            _collect_attributes(node, chain, parameters, kind, found)
        if isinstance(node, ast.Call):
            _collect_call(node, own - outside, name, found)


def _collect_attributes(node: ast.expr, chain: list[str], parameters: set[str], kind: str, found: FileFacts) -> None:
    """The attribute that a node stores, or changes in place in its own object: `self.table["a"] = 1`."""
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        own_object = (
            owner in ("self", "cls") and owner in parameters
        )  # else a function inside a method, which may run at any time
        found.attributes.setdefault(node.attr, {}).setdefault(kind if own_object else ANY, node.lineno)
    if chain and chain[0] in ("self", "cls") and len(chain) > 1:
        found.attributes.setdefault(chain[1], {}).setdefault(kind if chain[0] in parameters else ANY, node.lineno)


def _aliases(nodes: Sequence[ast.AST]) -> dict[str, list[list[str]]]:
    """By a function's own name: what it may stand for, `t = a.b` and `for k, t in a.b.items()`, as names."""
    found: dict[str, list[list[str]]] = {}
    for node in nodes:
        value = getattr(node, "iter" if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)) else "value", None)
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        names = [
            part.id
            for target in targets
            if isinstance(target, ast.AST)
            for part in ast.walk(target)
            if isinstance(part, ast.Name)
        ]
        for chain in _handed(value) if isinstance(value, ast.expr) else ():
            for name in names:
                if name != chain[0]:
                    found.setdefault(name, []).append(chain)
    return found


def _handed(value: ast.expr) -> list[list[str]]:
    """What an expression hands on as it is, as names: `a.b`, also out of `a.b.items()` and `enumerate(a.b)`."""
    if not isinstance(value, ast.Call):
        chain = _chain(value)
        return [chain] if chain else []
    callee = _chain(value.func)
    if isinstance(value.func, ast.Attribute) and value.func.attr in _HANDING:
        return _handed(value.func.value)
    return [chain for given in value.args for chain in _handed(given)] if callee[-1:] and callee[-1] in _HANDING else []


def _spellings(chain: list[str], aliases: dict[str, list[list[str]]], depth: int = 3) -> Iterator[list[str]]:
    """A chain of names, and those that it is by the aliases of its first one."""
    if not chain:
        return
    yield chain
    for other in aliases.get(chain[0], ()) if depth else ():
        yield from _spellings([*other, *chain[1:]], aliases, depth - 1)


def _collect_call(node: ast.Call, own: set[str], function: str, found: FileFacts) -> None:
    """What a call inside a function may change: by name, or as an argument of a function that changes it."""
    callee = _chain(node.func)
    short = callee[-1] if callee else ""
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    names = {part.id for argument in given for part in ast.walk(argument) if isinstance(part, ast.Name)} - own
    for name in names:
        found.given.setdefault(name, []).append((short, node.lineno))
    if short == "globals":
        found.rebound.setdefault(ANY, node.lineno)
    elif short in BY_NAME and function not in _BUILDS:
        attribute = node.args[1] if len(node.args) > 1 else None
        if isinstance(attribute, ast.Constant):
            found.attributes.setdefault(str(attribute.value), {}).setdefault(ANY, node.lineno)


def _changed_by_name(node: ast.expr) -> list[str]:
    """The names of what a call changes by the names of its attributes: `setattr(name, ...)`, `vars(name)`; else empty."""
    if isinstance(node, ast.Call) and node.args and _chain(node.func)[-1:] and _chain(node.func)[-1] in BY_NAME:
        return _chain(node.args[0])
    return []


def _changed(node: ast.expr) -> list[str]:
    """The names of what a node changes in place, the outermost first: `name[..] = `, `name.x = `, `name.append(..)`; else empty."""
    if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
        return _chain(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
        return _chain(node.func.value)
    return []


def _chain(node: ast.expr) -> list[str]:
    """`a.b[0].c` as its names; empty where it begins with no name."""
    parts = []
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []


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


_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_OWN_NAMES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def rest_of_program() -> dict[FileFacts, FileFacts]:
    """By file of the user's: what the code does that the script's own thread has still to run outside of functions that it is to call; a loop
    that it is in counts as a whole. Functions can run at any time, so theirs are facts of the file itself."""
    found: dict[FileFacts, FileFacts] = {}
    frame: FrameType | None = sys._current_frames().get(
        threading.main_thread().ident or 0
    )  # a loop is tuned from another thread
    while frame is not None:
        code = frame.f_code
        file = None if owner_of(os.path.abspath(code.co_filename)) else file_facts(code.co_filename)
        if file is not None:
            module = code.co_name == "<module>"
            scopes: Sequence[ast.AST] = [file.tree] if module else definitions(code)
            for scope in scopes:
                statements = (
                    list(_rest(getattr(scope, "body", []), frame.f_lineno)) if not isinstance(scope, ast.Lambda) else []
                )
                assigned = {name: line for name, line in _assigned(statements) if module or name in code.co_cellvars}
                collect(_as_function(statements, assigned), found.setdefault(file, FileFacts(file.tree)))
        frame = frame.f_back
    return found


def _rest(body: Sequence[ast.stmt], line: int) -> Iterator[ast.stmt]:
    """The statements of a block that are not over at a line."""
    for statement in body:
        if (statement.end_lineno or statement.lineno) < line:
            continue
        blocks = list(_blocks(statement))
        if statement.lineno > line or isinstance(statement, _LOOPS) or not blocks:
            yield statement
        else:
            for block in blocks:
                yield from _rest(block, line)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _assigned(statements: Sequence[ast.AST]) -> Iterator[tuple[str, int]]:
    """Names that statements bind where they stand, with their lines: not those inside of functions and classes."""
    for node in statements:
        yield from ((name, getattr(node, "lineno", 0)) for name in bound_by(node))
        if not isinstance(node, _OWN_NAMES):
            yield from _assigned(list(ast.iter_child_nodes(node)))


def _as_function(statements: list[ast.stmt], assigned: dict[str, int]) -> ast.FunctionDef:
    """A function that does the same, so that both are read alike: it declares what it assigns."""
    declared: list[ast.stmt] = [ast.Global([name], lineno=line, col_offset=0) for name, line in assigned.items()]
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.FunctionDef("", nothing, [*declared, *statements], [], lineno=1, col_offset=0)
