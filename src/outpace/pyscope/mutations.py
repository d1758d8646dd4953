# SPDX-License-Identifier: Apache-2.0
"""What statements change: names that they assign, and objects in which they change something."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from outpace._dataclass import dataclass
from outpace.pyscope.names import outer_names
from outpace.pyscope.nodes import is_read

# Methods by which containers, arrays and files are changed in place: of them those that also give a
# value, for which alone they may be called.
VALUE_METHODS = frozenset({"pop", "popitem", "popleft", "setdefault", "write"})
MUTATING_METHODS = VALUE_METHODS | {
    "append", "appendleft", "extend", "extendleft", "insert", "remove", "clear", "sort", "reverse", "rotate", "move_to_end", "add",
    "discard", "update", "difference_update", "intersection_update", "symmetric_difference_update", "fill", "set", "writelines",
    "__setitem__", "__setattr__",
}  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """A change of a variable, an attribute, or an item.

    name: of the variable, the attribute or the item (a constant key), or (`within`) of the object
        in which something changes whose name the text does not show
    line: where the statement stands
    owner: name of the object that an item is an item of
    within: `[` for an unknown item of the object, `.` for an unknown attribute; else empty
    is_variable, is_local: whether it is a variable, and one of a function
    """

    name: str
    line: int
    owner: str = ""
    within: str = ""
    is_variable: bool = False
    is_local: bool = False


def iter_mutations(node: ast.AST, function: ast.AST | None) -> Iterator[Mutation]:
    """Yield the changes that a node makes, without those of the nodes below; `function`: the one
    that it stands in.
    """
    if isinstance(node, ast.Call):
        yield from _call_mutations(node)
        return
    for target in assignment_targets(node):
        inside = list(ast.walk(function)) if function is not None else []
        outer = outer_names(inside) - outer_names(inside, (ast.Nonlocal,))
        for part in ast.walk(target):
            if not is_read(part):
                yield from _target_mutations(part, getattr(node, "lineno", 0), function is not None, outer)


def assignment_targets(node: ast.AST) -> Sequence[ast.expr]:
    """Return what a node assigns or deletes; empty for nodes that do neither."""
    if isinstance(node, (ast.Assign, ast.Delete)):
        return node.targets
    return [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.For)) else []


def mutated_object(call: ast.Call, methods: frozenset[str] = MUTATING_METHODS) -> ast.expr | None:
    """Return the object that a call changes by one of its methods; None for other calls."""
    return call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr in methods else None


def root_name(node: ast.AST) -> str:
    """Return the name that a chain of attributes, items and calls begins with; empty for none."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def last_name(node: ast.AST) -> str:
    """Return the name, attribute or constant key that a chain ends with; empty for none."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return node.id if isinstance(node, ast.Name) else ""


def _target_mutations(target: ast.AST, line: int, in_function: bool, outer: set[str]) -> Iterator[Mutation]:
    """`outer`: global names of the function."""
    if isinstance(target, ast.Name):
        yield Mutation(target.id, line, is_variable=True, is_local=in_function and target.id not in outer)
    elif isinstance(target, ast.Attribute):
        yield Mutation(target.attr, line)
    elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        yield Mutation(last_name(target), line, last_name(target.value))
    elif isinstance(target, ast.Subscript):
        yield Mutation(last_name(target.value), line, within="[")


def _call_mutations(call: ast.Call) -> Iterator[Mutation]:
    changed = mutated_object(call)
    if isinstance(call.func, ast.Name) and call.func.id == "setattr" and len(call.args) == 3:
        name = call.args[1]
        if isinstance(name, ast.Constant):
            yield Mutation(str(name.value), call.lineno)
        else:
            yield Mutation(last_name(call.args[0]), call.lineno, within=".")
    elif changed is not None:
        yield Mutation(last_name(changed), call.lineno, within="[")
