# SPDX-License-Identifier: Apache-2.0
"""What statements do first with a name, whichever way they take: a stricter question than
`names.required_names`, which takes branches and loops as if they ran.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from enum import Enum

from outpace.pyscope.names import mentions


class FirstUse(Enum):
    """What statements do with a name first: set it, read it, or perhaps neither."""

    SET = "set"
    READ = "read"
    NONE = "none"


def first_use(statements: Sequence[ast.stmt], name: str) -> FirstUse:
    """Of statements one after the other; READ where it may be read unset, SET where it is set
    whatever happens.
    """
    uses = (_statement_use(statement, name) for statement in statements)
    return next((use for use in uses if use is not FirstUse.NONE), FirstUse.NONE)


def _statement_use(statement: ast.stmt, name: str) -> FirstUse:
    if not mentions(statement, name):
        return FirstUse.NONE
    if isinstance(statement, ast.Assign):
        return _assignment_use(statement.targets, [statement.value], name)
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return _assignment_use([statement.target], [statement.value], name)
    if isinstance(statement, ast.With):
        header = _assignment_use(
            [item.optional_vars for item in statement.items], [item.context_expr for item in statement.items], name
        )
        return first_use(statement.body, name) if header is FirstUse.NONE else header
    if isinstance(statement, ast.For):
        header = _assignment_use([statement.target], [statement.iter], name)
        inside = FirstUse.NONE if header is FirstUse.SET else first_use(statement.body, name)
        uses = {header, inside, first_use(statement.orelse, name)}
        return FirstUse.READ if FirstUse.READ in uses else FirstUse.NONE  # it may have no item
    if isinstance(statement, ast.If) and not mentions(statement.test, name):
        both = {first_use(statement.body, name), first_use(statement.orelse, name)}
        return FirstUse.READ if FirstUse.READ in both else both.pop() if len(both) == 1 else FirstUse.NONE
    return FirstUse.READ


def _assignment_use(targets: Sequence[ast.AST | None], values: Sequence[ast.expr], name: str) -> FirstUse:
    if any(mentions(node, name) for node in values):
        return FirstUse.READ
    if any(_plain(node, name) for node in targets):
        return FirstUse.SET
    return FirstUse.READ if any(node is not None and mentions(node, name) for node in targets) else FirstUse.NONE


def _plain(target: ast.AST | None, name: str) -> bool:
    """Whether a target sets the name itself."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(_plain(element, name) for element in target.elts)
    return isinstance(target, ast.Name) and target.id == name
