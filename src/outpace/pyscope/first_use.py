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
    uses = (_of_statement(each, name) for each in statements)
    return next((each for each in uses if each is not FirstUse.NONE), FirstUse.NONE)


def _of_statement(statement: ast.stmt, name: str) -> FirstUse:
    if not mentions(statement, name):
        return FirstUse.NONE
    if isinstance(statement, ast.Assign):
        return _set_of(statement.targets, [statement.value], name)
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return _set_of([statement.target], [statement.value], name)
    if isinstance(statement, ast.With):
        given = _set_of([each.optional_vars for each in statement.items], [each.context_expr for each in statement.items], name)
        return first_use(statement.body, name) if given is FirstUse.NONE else given
    if isinstance(statement, ast.For):
        given = _set_of([statement.target], [statement.iter], name)
        inside = FirstUse.NONE if given is FirstUse.SET else first_use(statement.body, name)
        uses = {given, inside, first_use(statement.orelse, name)}
        return FirstUse.READ if FirstUse.READ in uses else FirstUse.NONE  # it may have no item
    if isinstance(statement, ast.If) and not mentions(statement.test, name):
        both = {first_use(statement.body, name), first_use(statement.orelse, name)}
        return FirstUse.READ if FirstUse.READ in both else both.pop() if len(both) == 1 else FirstUse.NONE
    return FirstUse.READ


def _set_of(targets: Sequence[ast.AST | None], values: Sequence[ast.expr], name: str) -> FirstUse:
    if any(mentions(each, name) for each in values):
        return FirstUse.READ
    if any(_plain(each, name) for each in targets):
        return FirstUse.SET
    return FirstUse.READ if any(each is not None and mentions(each, name) for each in targets) else FirstUse.NONE


def _plain(target: ast.AST | None, name: str) -> bool:
    """Whether a target sets the name itself."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(_plain(each, name) for each in target.elts)
    return isinstance(target, ast.Name) and target.id == name
