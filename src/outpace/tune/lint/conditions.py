"""Tests of `if`: decided where the file fixes their values, otherwise a condition that two branches may share."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from outpace.tune.lint.values import Condition, Constant, Value

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_OPPOSITE: dict[type[ast.cmpop], ast.cmpop] = {ast.NotEq: ast.Eq(), ast.IsNot: ast.Is(), ast.NotIn: ast.In()}


def condition(test: ast.expr) -> Condition:
    """The test's text with its negations taken off, and what it must give for the branch to run."""
    wanted = True
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, wanted = test.operand, not wanted
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _OPPOSITE:
        test = ast.Compare(test.left, [_OPPOSITE[type(test.ops[0])]], test.comparators)
        wanted = not wanted
    return ast.unparse(test), wanted


def truth(test: ast.expr, value_of: Callable[[ast.expr], Value]) -> bool | None:
    """What a test gives where the file fixes it; None where it does not. A script's `__name__` is `__main__`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = truth(test.operand, value_of)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = [truth(part, value_of) for part in test.values]
        deciding = isinstance(test.op, ast.Or)
        if deciding in parts:
            return deciding
        return None if None in parts else not deciding
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compared(test, value_of)
    known = value_of(test) if isinstance(test, (ast.Constant, ast.Name, ast.Attribute)) else None
    return bool(known.value) if isinstance(known, Constant) else None


def _compared(test: ast.Compare, value_of: Callable[[ast.expr], Value]) -> bool | None:
    if isinstance(test.left, ast.Name) and test.left.id == "__name__":
        return isinstance(test.ops[0], ast.Eq)
    first, second = value_of(test.left), value_of(test.comparators[0])
    if not isinstance(first, Constant) or not isinstance(second, Constant):
        return None
    try:
        return bool(_COMPARE[type(test.ops[0])](first.value, second.value))
    except TypeError:
        return None
