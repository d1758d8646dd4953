# SPDX-License-Identifier: Apache-2.0
"""Values of the abstract interpretation in `dataset_analysis.py`: data sets with their stages,
functions, objects and constants; and evaluation of `if` tests where the file determines their
values.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from outpace.pyscope.nodes import Function

Condition = tuple[str, bool]  # (text of a test, required result)
MAX_PATHS = 16


@dataclass(frozen=True, eq=False)
class Stage:
    """One operation of a data set as the file writes it.

    `op` is TensorFlow's name (`map`, `batch`, `TFRecordDataset`; `unknown` where the file does not
    show the source). `inputs` are the stages that feed it, the chain that it was called on first.
    `conditions` are the tests under which the line runs, in addition to those of its inputs.
    `yields_batches` marks sources that batch by themselves; `is_nested` marks a stage created
    inside another stage's function.
    """

    op: str
    call: ast.AST
    inputs: tuple[Stage, ...] = ()
    arguments: dict[str, ast.expr] = field(default_factory=dict)
    constants: dict[str, object] = field(default_factory=dict)
    function: ast.AST | None = None
    conditions: frozenset[Condition] = frozenset()
    yields_batches: bool = False
    is_nested: bool = False

    def iter_upstream(self) -> Iterator[Stage]:
        """Yield all stages that feed this one, the nearest first."""
        for stage in self.inputs:
            yield stage
            yield from stage.iter_upstream()

    def iter_chain(self) -> Iterator[Stage]:
        """Yield this stage and those on its own chain (first inputs only), the nearest first."""
        stage: Stage | None = self
        while stage is not None:
            yield stage
            stage = stage.inputs[0] if stage.inputs else None


@dataclass(frozen=True)
class DatasetPath:
    """One control-flow path to a data set: its last stage, and the tests that must hold on the
    path.
    """

    stage: Stage
    conditions: frozenset[Condition] = frozenset()

    def add_conditions(self, conditions: frozenset[Condition]) -> DatasetPath | None:
        """Return the path with more conditions, or None where they contradict each other."""
        combined = self.conditions | conditions
        if any((text, not value) in combined for text, value in combined):
            return None
        return DatasetPath(self.stage, combined)


@dataclass(frozen=True)
class DatasetValue:
    """A data set with the possible paths to it (at most MAX_PATHS)."""

    paths: tuple[DatasetPath, ...]

    def add_condition(self, condition: Condition) -> DatasetValue | None:
        """Return the part of the data set that remains under a condition; None
        where no path does.
        """
        paths = tuple(narrowed for path in self.paths if (narrowed := path.add_conditions(frozenset((condition,)))) is not None)
        return DatasetValue(paths) if paths else None


@dataclass(frozen=True)
class DefinitionValue:
    """A function or class of the file; `owner` is the object where a method was
    looked up on one.
    """

    node: Function | ast.ClassDef
    owner: InstanceValue | None = None


@dataclass(frozen=True, eq=False)
class InstanceValue:
    """An object of a class of the file, with the attributes that were assigned to it."""

    cls: ast.ClassDef
    members: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class SequenceValue:
    """A tuple or list of values."""

    values: tuple[Value, ...]


@dataclass(frozen=True)
class ConstantValue:
    """A number, text or truth value that the file determines."""

    value: object


Value = DatasetValue | DefinitionValue | InstanceValue | SequenceValue | ConstantValue | None
Scope = dict[str, Value]


def merge_values(first: Value, second: Value) -> Value:
    """Return a value that is either of the two."""
    if isinstance(first, DatasetValue) and isinstance(second, DatasetValue):
        return DatasetValue(tuple(dict.fromkeys(first.paths + second.paths))[:MAX_PATHS])
    if isinstance(first, SequenceValue) and isinstance(second, SequenceValue) and len(first.values) == len(second.values):
        return SequenceValue(tuple(merge_values(one, two) for one, two in zip(first.values, second.values, strict=True)))
    if isinstance(first, DatasetValue) or isinstance(second, DatasetValue):
        return first if isinstance(first, DatasetValue) else second
    return first if first == second else None


def restrict_value(value: Value, condition: Condition) -> Value:
    """Return a value restricted to a condition."""
    if isinstance(value, DatasetValue):
        return value.add_condition(condition)
    if isinstance(value, SequenceValue):
        return replace(value, values=tuple(restrict_value(item, condition) for item in value.values))
    return value


def merge_scopes(
    before: Scope, branch_inputs: list[Scope], scopes: list[Scope], returns: list[bool], condition: Condition
) -> Scope:
    """Return the names after an `if`: unchanged ones as before, changed ones with the test under
    which each value holds.
    """
    text, truth = condition
    if all(returns):
        return before
    if any(returns):
        continuing = returns.index(False)
        return {
            name: restrict_value(value, (text, truth if continuing == 0 else not truth))
            for name, value in scopes[continuing].items()
        }
    after: Scope = {}
    for name in {**scopes[0], **scopes[1]}:
        first, second = scopes[0].get(name), scopes[1].get(name)
        if name in before and first is branch_inputs[0][name] and second is branch_inputs[1][name]:
            after[name] = before[name]
        else:
            after[name] = merge_values(restrict_value(first, (text, truth)), restrict_value(second, (text, not truth)))
    return after


@dataclass(frozen=True)
class DatasetUse:
    """Use of a data set. `kind` is `fit`, `evaluate`, `validation`, a `loop`, `next`, or
    `elsewhere` (passed on to unknown code).
    """

    kind: str
    node: ast.AST
    value: DatasetValue


@dataclass
class Frame:
    """State of one function during evaluation: its names, the tests that hold, its
    return values.
    """

    scope: Scope
    parent: Frame | None = None
    conditions: frozenset[Condition] = frozenset()
    returns: list[Value] = field(default_factory=list)
    is_nested: bool = False

    def find(self, name: str) -> Value:
        """Return the value of a name in this frame or an enclosing one."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.scope:
                return frame.scope[name]
            frame = frame.parent
        return None


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


def parse_condition(test: ast.expr) -> Condition:
    """Return the test's text without negations, and the result that it must have for the branch to
    run.
    """
    truth = True
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, truth = test.operand, not truth
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _OPPOSITE:
        test = ast.Compare(test.left, [_OPPOSITE[type(test.ops[0])]], test.comparators)
        truth = not truth
    return ast.unparse(test), truth


def evaluate_test(test: ast.expr, value_of: Callable[[ast.expr], Value]) -> bool | None:
    """Return the result of a test where the file determines it; None otherwise. The `__name__` of a
    script is `__main__`.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = evaluate_test(test.operand, value_of)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = [evaluate_test(part, value_of) for part in test.values]
        deciding = isinstance(test.op, ast.Or)
        if deciding in parts:
            return deciding
        return None if None in parts else not deciding
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _evaluate_comparison(test, value_of)
    value = value_of(test) if isinstance(test, (ast.Constant, ast.Name, ast.Attribute)) else None
    return bool(value.value) if isinstance(value, ConstantValue) else None


def _evaluate_comparison(test: ast.Compare, value_of: Callable[[ast.expr], Value]) -> bool | None:
    if isinstance(test.left, ast.Name) and test.left.id == "__name__":
        return isinstance(test.ops[0], ast.Eq)
    first, second = value_of(test.left), value_of(test.comparators[0])
    if not isinstance(first, ConstantValue) or not isinstance(second, ConstantValue):
        return None
    try:
        return bool(_COMPARE[type(test.ops[0])](first.value, second.value))
    except TypeError:
        return None
