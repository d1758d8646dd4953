"""Statements of a loop that need values in every step, and so wait for the device: which may come later, for many steps at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from outpace._dataclass import dataclass
from outpace.tune.loop.statement import LEAVES, Statement, assigned, innermost, order, read

if TYPE_CHECKING:
    from outpace.tune.loop.body import Body


_READS = frozenset({"float", "int", "bool", "print", "str", "round"})  # functions that read the value of what they are given
_READING = frozenset({"item", "tolist", "numpy"})  # methods that read a value
_WAITING = _READING | {"block_until_ready"}
_FUNCTIONS = ("asarray", "array", "device_get", "block_until_ready")


@dataclass(frozen=True)
class Sync:
    """A place where a value is read. line: in the loop's file; said: the expression; each: in every step."""

    line: int
    said: str
    each: bool = True


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
    if any(isinstance(each, LEAVES) for statement in [*moved] for each in ast.walk(statement)):
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
        if isinstance(node.func, ast.Name) and node.func.id in _READS:
            reads = results & read(node.args)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _WAITING:
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


AT_ONCE = 50  # steps whose values are read together
_CALLS = _READS | {"format"}
_ON_BATCH = frozenset({"train_on_batch", "test_on_batch"})
_PURE = _CALLS | {"len", "abs", "min", "max", "sum", "repr"}


@dataclass(frozen=True, eq=False)
class Movable:
    """A statement that may come later. later: its text then; given: what it needs of its step, as (name, expression)."""

    line: int
    last: int
    later: str
    given: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class Syncs:
    """Of the innermost loop around the step, which begins at a line. kept: (line, why) of statements that must stay where they are."""

    file: str
    line: int
    found: tuple[Sync, ...]
    movable: tuple[Movable, ...]
    kept: tuple[tuple[int, str], ...]


def syncs_of(statement: Statement) -> Syncs:
    """Look at the loop of a statement."""
    frame = statement.frame
    loop = innermost(statement.node, frame.f_lineno)
    assert loop is not None
    values = {**frame.f_globals, **frame.f_locals}
    tensors = {name for name in _stored(loop.body) if _is_tensor(values.get(name))}
    found: list[Sync] = []
    movable: list[Movable] = []
    kept: list[tuple[int, str]] = []
    for each in _plain(loop.body):
        here = [Sync(node.lineno, ast.unparse(node)) for node in _reads(each, tensors)]
        asked = [Sync(node.lineno, f"{ast.unparse(node.func)}(...)") for node in ast.walk(each) if _asks_keras(node)]
        found += [*here, *asked]
        kept += [
            (sync.line, f"{sync.said} gives its loss and metrics back as numbers; fit reads them once an epoch")
            for sync in asked
        ]
        if not here:
            continue
        made = _postponed(each, loop, _stored([statement.node]))
        if isinstance(made, str):
            kept.append((each.lineno, made))
        else:
            movable.append(made)
    return Syncs(statement.file, loop.lineno, tuple(found), tuple(movable), tuple(kept))


def _plain(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements that run in every step, without those of a step that became a function of its own."""
    return [each for each in body if isinstance(each, (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign))]


def _stored(body: Sequence[ast.AST]) -> set[str]:
    nodes = (node for statement in body for node in ast.walk(statement))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "numpy") and hasattr(value, "dtype") and hasattr(value, "shape")


def _reads(node: ast.AST, tensors: set[str]) -> Iterator[ast.expr]:
    """The outermost expressions below a node that read a value."""
    if isinstance(node, ast.Call) and _is_read(node, tensors):
        inner = [each for child in ast.iter_child_nodes(node) for each in _reads(child, tensors)]
        yield from inner or [node]
        return
    if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Name) and node.value.id in tensors:
        yield node.value
        return
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.Lambda, ast.FunctionDef)):
            yield from _reads(child, tensors)


def _asks_keras(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether a call makes a step of a Keras model that gives numbers back."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ON_BATCH


def _is_read(call: ast.Call, tensors: set[str]) -> bool:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr in _READING and not call.args
    if not (isinstance(call.func, ast.Name) and call.func.id in _CALLS):
        return False
    return any(
        (isinstance(each, ast.Name) and each.id in tensors)
        or (isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "result")
        for each in call.args
    )


def _postponed(statement: ast.stmt, loop: ast.For | ast.While, stored: set[str]) -> Movable | str:
    """The statement as it may come later, or why it must not."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return "what it assigns is needed in the step, or is added up: keep a tensor, and read it where it is needed"
    if isinstance(call.func, ast.Attribute) and call.func.attr == "append" and isinstance(call.func.value, ast.Name):
        name = call.func.value.id
        others = [each for each in loop.body if each is not statement]
        if name in read(others) or (isinstance(loop, ast.While) and name in read([loop.test])):
            return f"{name} is read in the loop"
    elif not (isinstance(call.func, ast.Name) and call.func.id == "print"):
        return f"{ast.unparse(call.func)} is a call whose effect in each step is not known"
    later = _Later(stored)
    arguments = ast.Expr(later.visit(_copy(call)))
    return Movable(
        statement.lineno, statement.end_lineno or statement.lineno, ast.unparse(arguments), tuple(later.given.items())
    )


class _Later(ast.NodeTransformer):
    """Takes what depends on the moment out of a call: names that the loop assigns stay names, other calls and attributes become some."""

    def __init__(self, stored: set[str]) -> None:
        self.stored, self.given = stored, dict[str, str]()
        self._outer = True

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.stored and isinstance(node.ctx, ast.Load):
            self.given[node.id] = node.id
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self._kept(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if self._outer:
            self._outer = False
            if isinstance(node.func, ast.Attribute):
                self.visit(node.func.value)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _READING and not node.args:
            node.func.value = self.visit(node.func.value)
            return node
        elif not (isinstance(node.func, ast.Name) and node.func.id in _PURE):
            return self._kept(node)
        node.args = [self.visit(each) for each in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return node

    def _kept(self, node: ast.expr) -> ast.AST:
        """An expression that is evaluated in its step."""
        text = ast.unparse(node)
        name = next((name for name, said in self.given.items() if said == text), None)
        if name is None:
            words = [each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)]
            wanted = words[0] if words else "value"
            taken = {*self.stored, *self.given}
            name = next(each for each in (wanted, *(f"{wanted}_{at}" for at in range(2, 100))) if each not in taken)
            self.given[name] = text
        return ast.copy_location(ast.Name(name, ast.Load()), node)


def _copy(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body
