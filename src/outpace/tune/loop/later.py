"""The statements of a loop that need values of arrays in every step, and wait for the device: they may come later, for many steps at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace.tune.loop.names import assigned, order, read

if TYPE_CHECKING:
    from outpace.tune.loop.body import Body

_CALLS = frozenset({"float", "int", "bool", "print", "str", "round"})
_METHODS = frozenset({"item", "tolist", "block_until_ready", "numpy"})
_FUNCTIONS = ("asarray", "array", "device_get", "block_until_ready")
_LEAVES = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await)


@dataclass(frozen=True)
class Sync:
    """A place where a value is read. said: the expression; line: in the loop's file; each: in every step."""

    line: int
    said: str
    each: bool


@dataclass(frozen=True, eq=False)
class Later:
    """syncs: where values are read. first, last: the statements after the step, counted from 0, that can come later; names: what they need of
    each step. why: why none can; empty otherwise."""

    syncs: tuple[Sync, ...]
    first: int = 0
    last: int = 0
    names: tuple[str, ...] = ()
    why: str = ""


def later_of(body: Body) -> Later:
    """Of what comes after the step of a loop."""
    results = {*assigned(body.steps)}
    made = list(body.after)
    found: list[Sync] = []
    at: list[int] = []
    for number, statement in enumerate(made):
        here = list(
            {sync.line: sync for sync in reversed(list(_syncs(statement, results)))}.values()
        )  # of a line the outermost
        found += here
        if any(each.each for each in here):
            at.append(number)
        results |= {name for name in assigned([statement]) if results & read([statement]) and not here}
    if not at:
        return Later(tuple(found), why="no statement of the loop needs the value of an array in every step")
    return _movable(body, made, tuple(found), at)


def _movable(body: Body, made: Sequence[ast.stmt], found: tuple[Sync, ...], at: Sequence[int]) -> Later:
    """Which statements move: from the first one on to the last one that needs a value, or what was made of one."""
    first, last = at[0], at[-1]
    own: set[str] = set()
    for number in range(first, len(made)):
        if number in at or own & read([made[number]]):
            last = number
            own |= set(assigned([made[number]]))
    moved, rest = made[first : last + 1], [*body.before, *body.steps, *made[:first], *made[last + 1 :]]
    line = moved[0].lineno
    if any(isinstance(each, _LEAVES) for statement in [*moved] for each in ast.walk(statement)):
        return Later(found, why=f"the loop can be left by what begins at line {line}")
    if any(isinstance(each, ast.Return) for statement in rest for each in ast.walk(statement)):
        return Later(found, why="the loop can return in the midst of a step")
    if not all(isinstance(each, (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign)) for each in moved):
        return Later(found, why=f"what is done at line {line} decides what the loop does")
    needed, written = order(moved)
    every = {*assigned([body.loop.target]), *assigned(rest)}
    common = (set(written) | set(_touched(moved, body.names, every))) & ({*read(rest), *read([body.loop.iter])} | every)
    if common:
        return Later(found, why=f"{sorted(common)[0]}, which line {line} changes, is needed by other statements of the loop")
    state = next((name for name in needed if name in body.carried), None)
    if state is not None:
        return Later(found, why=f"line {line} reads {state}, which would be held for many steps")
    return Later(found, first, last, tuple(name for name in needed if name in every))


def _touched(moved: Sequence[ast.stmt], names: Mapping[str, Any], every: set[str]) -> Iterator[str]:
    """Names of objects of the program that statements may change or read: neither what the loop assigns, nor its functions and modules."""
    for name in read(moved):
        value = names.get(name)
        if (
            name not in every
            and not callable(value)
            and type(value).__name__ != "module"
            and not isinstance(value, (int, float, str))
        ):
            yield name


def _syncs(statement: ast.stmt, results: set[str]) -> Iterator[Sync]:
    """The calls of a statement that read values of results."""
    for node, each in _calls(statement, not isinstance(statement, (ast.If, ast.For, ast.While, ast.Try))):
        if isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            reads = results & read(node.args)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            reads = results & read([node.func.value, *node.args])
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _FUNCTIONS:
            root = ast.unparse(node.func.value)
            reads = results & read(node.args) if root in ("np", "numpy", "jax", "onp") else set()
        else:
            continue
        if reads:
            yield Sync(node.lineno, ast.unparse(node), each)


def _calls(node: ast.AST, each: bool) -> Iterator[tuple[ast.Call, bool]]:
    """Calls, the outermost of those that read a value; whether they are made in every step."""
    if isinstance(node, ast.If):
        yield from ((call, True) for call, _ in _calls(node.test, True))
        for inner in (*node.body, *node.orelse):
            yield from _calls(inner, False)
        return
    if isinstance(node, ast.Call):
        yield node, each
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.Lambda)):
            yield from _calls(child, each)
