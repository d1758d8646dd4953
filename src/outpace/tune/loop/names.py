"""Names that statements read and assign."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

LEAVES = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await)  # by which a step can be left
FIXED = (*LEAVES, ast.Global, ast.Nonlocal)  # what means something else in a function of its own
_INNER = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def order(body: Sequence[ast.AST]) -> tuple[list[str], list[str]]:
    """Names that are read before they are assigned, and those that are assigned, in order."""
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    for statement in body:
        for name, stored in _names(statement):
            if stored:
                writes[name] = None
            elif name not in writes:
                reads[name] = None
    return list(reads), list(writes)


def read(body: Sequence[ast.AST]) -> set[str]:
    """Names that are read."""
    return {name for statement in body for name, stored in _names(statement) if not stored}


def assigned(body: Sequence[ast.AST]) -> list[str]:
    """Names that are assigned, in order."""
    return order(body)[1]


def read_outside(node: ast.AST, first: int, last: int) -> Iterator[str]:
    """Names that are read, but between two lines, and those of functions that are their own."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not first <= node.lineno <= last:
        yield node.id
    own: set[str] = set()
    around = first <= getattr(node, "end_lineno", 0) and getattr(node, "lineno", 0) <= first
    if isinstance(node, _FUNCTIONS) and not around:
        own = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
        own |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    for child in ast.iter_child_nodes(node):
        yield from (name for name in read_outside(child, first, last) if name not in own)


def _names(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """Names in the order in which they are evaluated, about; whether they are assigned."""
    if isinstance(node, ast.Name):
        yield node.id, isinstance(node.ctx, (ast.Store, ast.Del))
        return
    if isinstance(node, (*_INNER, *_FUNCTIONS)):
        inner = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        inner |= {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
        yield from ((each.id, False) for each in ast.walk(node) if isinstance(each, ast.Name) and each.id not in inner)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, True
        return
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, False
    children: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For)):
        value = node.iter if isinstance(node, ast.For) else node.value
        children.sort(key=lambda child: child is not value)
    for child in children:
        yield from _names(child)
