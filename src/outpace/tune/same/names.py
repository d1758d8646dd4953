"""Names of a loop that nobody reads before they are set anew: an edit may leave them out."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from enum import Enum

from outpace.tune.texts.parsed import parsed
from outpace.tune.texts.place import Loop, Place, loops_of

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # whose variables are their own


def dead_names(text: str, place: Place) -> frozenset[str]:
    """Names whose every use stands in the body of a loop, in the loop's own scope, and none of
    which a pass may read before it sets it.
    """
    tree = parsed(text)
    for name, path, node in loops_of(tree):
        if (name, path) == (place.function, place.path):
            return frozenset(each for each in _stored(node) if _dead(tree, node, each))
    return frozenset()


def _stored(loop: Loop) -> set[str]:
    return {each.id for each in ast.walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _dead(tree: ast.Module, loop: Loop, name: str) -> bool:
    inside = {id(each) for each in ast.walk(loop)}
    scope = _scope(tree, loop)
    if isinstance(scope, ast.ClassDef):  # its names are read as attributes
        return False
    if any(isinstance(each, (ast.Global, ast.Nonlocal)) and name in each.names for each in ast.walk(tree)):
        return False
    for each in _visible(scope, name):
        if isinstance(each, _SCOPES) and id(each) in inside and _mentions(each, name):
            return False  # a closure may outlive the pass
        if isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load) and id(each) not in inside:
            return False
    target = [loop.target] if isinstance(loop, ast.For) else []
    if any(isinstance(each, ast.Name) and each.id == name for root in target for each in ast.walk(root)):
        return True
    return _first_use(loop.body, name) is not _Use.READ


def _scope(tree: ast.Module, loop: Loop) -> ast.AST:
    """The innermost function or class around a loop; the module where there is none."""
    found: ast.AST = tree
    for each in ast.walk(tree):  # outer ones come first
        if isinstance(each, _SCOPES) and any(node is loop for node in ast.walk(each)):
            found = each
    return found


def _visible(node: ast.AST, name: str) -> Iterator[ast.AST]:
    """All nodes in which a name is that of the first one's scope: not those of functions that have
    one of their own.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTIONS) and _binds(child, name):
            outer = [*child.args.defaults, *child.args.kw_defaults, *getattr(child, "decorator_list", [])]
            for each in outer:
                if each is not None:
                    yield each
                    yield from _visible(each, name)
        else:
            yield child
            yield from _visible(child, name)


def _binds(function: _Function, name: str) -> bool:
    """Whether a function has a parameter or a variable of this name."""
    given = function.args
    more = [each for each in (given.vararg, given.kwarg) if each is not None]
    if any(each.arg == name for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, *more)):
        return True
    waiting: list[ast.AST] = [*function.body] if isinstance(function.body, list) else []
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store):
            return True
        if not isinstance(each, (*_SCOPES, *_COMPREHENSIONS)):
            waiting += ast.iter_child_nodes(each)
    return False


class _Use(Enum):
    """What statements do with a name first: set it, read it, or perhaps neither."""

    SET = "set"
    READ = "read"
    NONE = "none"


def _first_use(statements: Sequence[ast.stmt], name: str) -> _Use:
    """Of statements one after the other; READ where it may be read unset, SET where it is set
    whatever happens.
    """
    uses = (_use(each, name) for each in statements)
    return next((each for each in uses if each is not _Use.NONE), _Use.NONE)


def _use(statement: ast.stmt, name: str) -> _Use:
    if not _mentions(statement, name):
        return _Use.NONE
    if isinstance(statement, ast.Assign):
        return _set_of(statement.targets, [statement.value], name)
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return _set_of([statement.target], [statement.value], name)
    if isinstance(statement, ast.With):
        given = _set_of([each.optional_vars for each in statement.items], [each.context_expr for each in statement.items], name)
        return _first_use(statement.body, name) if given is _Use.NONE else given
    if isinstance(statement, ast.For):
        given = _set_of([statement.target], [statement.iter], name)
        inside = _Use.NONE if given is _Use.SET else _first_use(statement.body, name)
        uses = {given, inside, _first_use(statement.orelse, name)}
        return _Use.READ if _Use.READ in uses else _Use.NONE  # it may have no item
    if isinstance(statement, ast.If) and not _mentions(statement.test, name):
        both = {_first_use(statement.body, name), _first_use(statement.orelse, name)}
        return _Use.READ if _Use.READ in both else both.pop() if len(both) == 1 else _Use.NONE
    return _Use.READ


def _set_of(targets: Sequence[ast.AST | None], values: Sequence[ast.expr], name: str) -> _Use:
    if any(_mentions(each, name) for each in values):
        return _Use.READ
    if any(_plain(each, name) for each in targets):
        return _Use.SET
    return _Use.READ if any(each is not None and _mentions(each, name) for each in targets) else _Use.NONE


def _plain(target: ast.AST | None, name: str) -> bool:
    """Whether a target sets the name itself."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(_plain(each, name) for each in target.elts)
    return isinstance(target, ast.Name) and target.id == name


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))
