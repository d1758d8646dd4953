# SPDX-License-Identifier: Apache-2.0
"""Names that source reads and assigns.

Functions of `nodes` look at these alone: the caller chooses by `ast.walk` or
`nodes.iter_scope` whether inner scopes count. Functions of `body` follow statements in the order
in which they are evaluated, about, and take inner scopes as readers.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence

from outpace.pyscope.nodes import COMPREHENSIONS, DEFINITIONS, FUNCTIONS, is_read, is_stored


def used_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that nodes read, assign or delete, as often as they do."""
    return (node.id for node in nodes if isinstance(node, ast.Name))


def stored_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that nodes assign, as often as they do."""
    return used_names(filter(is_stored, nodes))


def stored_texts(node: ast.AST) -> list[str]:
    """Return the names, attributes and items that a node assigns as text, as often as it does."""
    return [ast.unparse(part) for part in filter(is_stored, ast.walk(node))]


def outer_names(nodes: Iterable[ast.AST], kinds: tuple[type[ast.AST], ...] = (ast.Global, ast.Nonlocal)) -> set[str]:
    """Return the names that `global` and `nonlocal` statements declare."""
    return {name for node in nodes if isinstance(node, kinds) for name in getattr(node, "names", ())}


def imported_names(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Return the names that absolute imports bind, each with the full name that it stands for."""
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for item in node.names:
                names[item.asname or item.name.partition(".")[0]] = item.name if item.asname else item.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update({item.asname or item.name: f"{node.module}.{item.name}" for item in node.names})
    return names


def mentions(node: ast.AST, name: str) -> bool:
    """Whether a name stands anywhere in a node."""
    return name in used_names(ast.walk(node))


def required_names(body: Iterable[ast.AST]) -> list[str]:
    """Return the names that are read before they are assigned, in order."""
    assigned = set[str]()
    required: dict[str, None] = {}
    for name, stored in _iter_uses(body):
        if stored:
            assigned.add(name)
        elif name not in assigned:
            required[name] = None
    return list(required)


def assigned_names(body: Iterable[ast.AST]) -> list[str]:
    """Return the names that are assigned or deleted, in order."""
    return list(dict.fromkeys(name for name, stored in _iter_uses(body) if stored))


def read_names(body: Iterable[ast.AST]) -> set[str]:
    """Return the names that are read."""
    return {name for name, stored in _iter_uses(body) if not stored}


def read_names_outside(node: ast.AST, first: int, last: int) -> Iterator[str]:
    """Yield the names that are read anywhere but in these lines, without those that functions bind
    which do not hold the lines.
    """
    if isinstance(node, ast.Name) and is_read(node) and not first <= node.lineno <= last:
        yield node.id
    around = first <= getattr(node, "end_lineno", 0) and getattr(node, "lineno", 0) <= first
    inner = _inner_names(node) if isinstance(node, FUNCTIONS) and not around else set()
    for child in ast.iter_child_nodes(node):
        yield from (name for name in read_names_outside(child, first, last) if name not in inner)


def unused_name(wanted: str, used: Collection[str]) -> str:
    """Return a name that is not used yet: the wanted one, or that with a number."""
    return next(name for name in (wanted, *(f"{wanted}_{number}" for number in range(2, 100))) if name not in used)


def _inner_names(scope: ast.AST) -> set[str]:
    """Return the parameters and assigned names of a function or comprehension, and of all in it."""
    nodes = list(ast.walk(scope))
    return {node.arg for node in nodes if isinstance(node, ast.arg)} | set(stored_names(nodes))


def _iter_uses(body: Iterable[ast.AST]) -> Iterator[tuple[str, bool]]:
    """Yield names in the order in which they are evaluated, about, and whether they are stored."""
    for node in body:
        if isinstance(node, ast.Name):
            yield node.id, not is_read(node)
        elif isinstance(node, (*FUNCTIONS, *COMPREHENSIONS)):
            inner = _inner_names(node)
            yield from ((name, False) for name in used_names(ast.walk(node)) if name not in inner)
            if isinstance(node, DEFINITIONS):
                yield node.name, True
        else:
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                yield node.target.id, False
            yield from _iter_uses(_ordered_parts(node))


def _ordered_parts(node: ast.AST) -> Sequence[ast.AST]:
    """Return the parts of a node; of an assignment and a loop the value before the target."""
    value = getattr(node, "iter" if isinstance(node, ast.For) else "value", None)
    assigns = isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For))
    return sorted(ast.iter_child_nodes(node), key=lambda child: assigns and child is not value)
