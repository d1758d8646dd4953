"""Names of a loop that nobody reads before they are set anew: an edit may leave them out."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from outpace.tune.texts.place import Loop, Place, loops_of

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # whose variables are their own


def dead_names(text: str, place: Place) -> frozenset[str]:
    """Names whose every use stands in the body of a loop, in the loop's own scope, the first of them an assignment that always happens."""
    tree = ast.parse(text)
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
    return _set_first(loop.body, name)


def _scope(tree: ast.Module, loop: Loop) -> ast.AST:
    """The innermost function or class around a loop; the module where there is none."""
    found: ast.AST = tree
    for each in ast.walk(tree):  # outer ones come first
        if isinstance(each, _SCOPES) and any(node is loop for node in ast.walk(each)):
            found = each
    return found


def _visible(node: ast.AST, name: str) -> Iterator[ast.AST]:
    """All nodes in which a name is that of the first one's scope: not those of functions that have one of their own."""
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


def _set_first(body: Sequence[ast.stmt], name: str) -> bool:
    """Whether the first statement that mentions a name sets it, whatever happens, without reading it."""
    for statement in body:
        if not _mentions(statement, name):
            continue
        if isinstance(statement, ast.With):
            return not any(_mentions(item.context_expr, name) for item in statement.items) and (
                any(_plain(item.optional_vars, name) for item in statement.items) or _set_first(statement.body, name)
            )
        if isinstance(statement, ast.Assign):
            return not _mentions(statement.value, name) and any(_plain(target, name) for target in statement.targets)
        return isinstance(statement, ast.AnnAssign) and statement.value is not None and not _mentions(statement.value, name)
    return False


def _plain(target: ast.AST | None, name: str) -> bool:
    """Whether a target sets the name itself."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(_plain(each, name) for each in target.elts)
    return isinstance(target, ast.Name) and target.id == name


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))
