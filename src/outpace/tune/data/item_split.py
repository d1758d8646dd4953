"""Divides the source of a generator: what it computes for an item from the item alone becomes a function, whose results can be kept.

Divided is the body of the loop around its only `yield`: as many of its first statements as are a function of the names that they read
(`purity/`), or all of it where the whole element is.
"""

from __future__ import annotations

import ast
import linecache
import textwrap
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from outpace._dataclass import dataclass
from outpace.model.errors import RebuildError
from outpace.tune.loop.statement import FIXED, order
from outpace.tune.purity import text
from outpace.tune.purity.reading import doubt

GUARD = "flags.writeable = False"  # of an array that is kept: whoever changes it shall fail


@dataclass(frozen=True, eq=False)
class ItemSplit:
    """A function `name` of the names `given` (`helper`, its source, without a decorator), and the generator with a call of it (`generator`).

    returned: the names that it gives; empty where it gives the whole element.
    """

    user: types.FunctionType
    name: str
    given: tuple[str, ...]
    returned: tuple[str, ...]
    helper: str
    generator: str

    def guarded(self, arrays: Sequence[str]) -> str:
        """The function's source, whose arrays (by name) nobody can change."""
        lines = self.helper.rstrip().splitlines()
        guards = [f"    {array}.{GUARD}" for array in arrays]
        return "\n".join([*lines[:-1], *guards, lines[-1]]) + "\n"

    def made(self, keep: Callable[[Any], Any]) -> Any:
        """The generator function, with `keep` around the function of an item."""
        free = self.user.__code__.co_freevars
        body = f"{self.helper}\n{self.name} = _keep({self.name})\n{self.generator}\nreturn {self.user.__name__}\n"
        return _run(f"def _made({', '.join((*free, '_keep'))}):\n{textwrap.indent(body, '    ')}", self.user, {"_keep": keep})


def item_split(user: types.FunctionType) -> ItemSplit:
    """Divide a generator function without parameters. Raises RebuildError with the reason."""
    node = _definition(user)
    yielded = [each for each in ast.walk(node) if isinstance(each, (ast.Yield, ast.YieldFrom))]
    if len(yielded) != 1 or not isinstance(yielded[0], ast.Yield) or yielded[0].value is None:
        raise RebuildError(f"{user.__name__} has not one plain yield.")
    loop = _innermost(node, yielded[0])
    if loop is None:
        raise RebuildError(f"{user.__name__} yields in no for loop over its items.")
    whole = _whole(user, node, loop, yielded[0])
    if whole is not None:
        return whole
    for count in range(_most(loop.body), 0, -1):
        found = _first(user, node, loop.body[:count])
        if found is not None:
            return found
    raise RebuildError(f"What {user.__name__} does for an item begins with nothing that depends on the item alone.")


def _definition(user: types.FunctionType) -> ast.FunctionDef:
    nodes = [node for node in text.definitions(user.__code__) if isinstance(node, ast.FunctionDef)]
    if len(nodes) != 1 or nodes[0].decorator_list:
        raise RebuildError(f"The source of {user.__name__} is not at hand, or it is decorated.")
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
    if any(isinstance(each, inner) for each in ast.walk(nodes[0]) if each is not nodes[0]):
        raise RebuildError(f"{user.__name__} defines functions of its own.")
    if any(isinstance(each, ast.Constant) and each.end_lineno != each.lineno for each in ast.walk(nodes[0])):
        raise RebuildError(f"{user.__name__} holds text of several lines.")
    return nodes[0]


def _innermost(node: ast.AST, yielded: ast.AST) -> ast.For | None:
    """The innermost loop around a node, where it is a `for`."""
    loops = [each for each in ast.walk(node) if isinstance(each, (ast.For, ast.While)) and yielded in ast.walk(each)]
    return loops[-1] if loops and isinstance(loops[-1], ast.For) else None


def _most(body: Sequence[ast.stmt]) -> int:
    """How many of the first statements leave the loop in no way."""
    leaves = (at for at, each in enumerate(body) if any(isinstance(inner, FIXED) for inner in ast.walk(each)))
    return next(leaves, len(body))


def _whole(user: types.FunctionType, node: ast.FunctionDef, loop: ast.For, yielded: ast.Yield) -> ItemSplit | None:
    """All statements of the loop, which end in the `yield`, as a function that gives the element."""
    last = loop.body[-1]
    if not (isinstance(last, ast.Expr) and last.value is yielded) or _most(loop.body) != len(loop.body) - 1:
        return None
    assert yielded.value is not None
    value = ast.unparse(yielded.value)
    given = _given(user, [*loop.body[:-1], ast.Expr(yielded.value)])
    name = f"{user.__name__}_item"
    helper = f"def {name}({', '.join(given)}):\n{_lines(user, loop.body[:-1])}    return {value}\n"
    if not _works(loop.body) or _doubtful(user, helper, name):
        return None
    return ItemSplit(user, name, given, (), helper, _with(user, node, loop.body, f"yield {name}({', '.join(given)})"))


def _first(user: types.FunctionType, node: ast.FunctionDef, body: Sequence[ast.stmt]) -> ItemSplit | None:
    """The first statements of the loop as a function that gives what they assign."""
    given, writes = _given(user, body), order(body)[1]
    first, last = body[0].lineno, body[-1].end_lineno or body[-1].lineno
    elsewhere = {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and not first <= each.lineno <= last
    }
    returned = tuple(name for name in writes if name in elsewhere)
    name = f"{user.__name__}_item"
    helper = f"def {name}({', '.join(given)}):\n{_lines(user, body)}    return {', '.join(returned)}\n"
    if not returned or not _works(body) or _doubtful(user, helper, name):
        return None
    call = f"{', '.join(returned)} = {name}({', '.join(given)})"
    return ItemSplit(user, name, given, returned, helper, _with(user, node, body, call))


def _given(user: types.FunctionType, body: Sequence[ast.stmt]) -> tuple[str, ...]:
    """The generator's own names that statements read."""
    own = {*user.__code__.co_varnames, *user.__code__.co_cellvars}
    return tuple(name for name in order(body)[0] if name in own)


def _works(body: Sequence[ast.stmt]) -> bool:
    return any(isinstance(each, ast.Call) for statement in body for each in ast.walk(statement))


def _doubtful(user: types.FunctionType, helper: str, name: str) -> bool:
    """Whether something speaks against its being a function of its arguments."""
    free = user.__code__.co_freevars
    scope = f"def _made({', '.join(free)}):\n{textwrap.indent(helper, '    ')}    return {name}\n"
    return doubt(_run(scope, user, {})) is not None


def _run(scope: str, user: types.FunctionType, more: dict[str, Any]) -> Any:
    """What the function `_made` of a text returns, given the values of the user's free names; its source is at hand for who asks."""
    file = f"{user.__code__.co_filename}#{user.__name__}#{len(linecache.cache)}"
    linecache.cache[file] = (len(scope), None, scope.splitlines(keepends=True), file)
    made: dict[str, Any] = {}
    exec(compile(scope, file, "exec", dont_inherit=True), user.__globals__, made)
    cells = zip(user.__code__.co_freevars, user.__closure__ or (), strict=True)
    return made["_made"](**{name: cell.cell_contents for name, cell in cells}, **more)


def _lines(user: types.FunctionType, body: Sequence[ast.stmt]) -> str:
    """The source of statements, as the body of a function."""
    if not body:
        return ""
    lines = linecache.getlines(user.__code__.co_filename)[body[0].lineno - 1 : body[-1].end_lineno]
    return textwrap.indent(textwrap.dedent("".join(lines)).rstrip() + "\n", "    ")


def _with(user: types.FunctionType, node: ast.FunctionDef, body: Sequence[ast.stmt], statement: str) -> str:
    """The generator's source with one statement in the place of several."""
    return textwrap.dedent("".join(_replaced(user, node, body, statement)))


def _replaced(user: types.FunctionType, node: ast.FunctionDef, body: Sequence[ast.stmt], statement: str) -> Iterator[str]:
    lines = linecache.getlines(user.__code__.co_filename)
    yield from lines[node.lineno - 1 : body[0].lineno - 1]
    yield f"{' ' * body[0].col_offset}{statement}\n"
    yield from lines[body[-1].end_lineno or body[-1].lineno : node.end_lineno]
