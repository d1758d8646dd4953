# SPDX-License-Identifier: Apache-2.0
"""Analysis of the data sets of a file through assignments, branches, loops, helper functions and
attributes of objects.

This is a bounded abstract interpretation. Each function is evaluated where it is called, with what
is known of its arguments; functions that the file never calls are evaluated once with unknown
arguments. Code that is not understood has the value "unknown", about which no rule reports.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from outpace.lint.calls import MULTI_DATASET_SOURCES, CallEvaluator, dotted_name, find_dataset_names
from outpace.lint.functions import FunctionResolver
from outpace.lint.source import SourceFile
from outpace.lint.values import (
    ConstantValue,
    DatasetPath,
    DatasetUse,
    DatasetValue,
    DefinitionValue,
    Frame,
    InstanceValue,
    Scope,
    SequenceValue,
    Stage,
    Value,
    evaluate_test,
    merge_scopes,
    merge_values,
    parse_condition,
    restrict_value,
)  # fmt: skip
from outpace.pyscope.nodes import DEFINITIONS, FUNCTIONS, Function

_MOST_STATEMENTS = 20_000
_DEEPEST = 12


class DatasetAnalysis:
    """All stages of a file, and the uses of data sets. `final_stages` are the stages that no other
    stage of the file continues.
    """

    def __init__(self, source: SourceFile, functions: FunctionResolver) -> None:
        self.source = source
        self.functions = functions
        self.stages: list[Stage] = []
        self.uses: list[DatasetUse] = []
        self.call_stack: list[ast.AST] = []
        self._called: set[ast.AST] = set()
        self._closures: dict[ast.AST, Frame] = {}
        self._evident = find_dataset_names(source)
        self._budget = _MOST_STATEMENTS
        self._calls = CallEvaluator(self)
        if source.imports("tensorflow", "keras", "tensorflow_datasets", "tf_keras"):
            self._run()

    @property
    def final_stages(self) -> list[Stage]:
        """Return the stages that no other stage continues."""
        continued = {id(before) for stage in self.stages for before in stage.inputs}
        return [stage for stage in self.stages if id(stage) not in continued]

    def find_uses(self, *kinds: str) -> list[tuple[DatasetUse, Stage]]:
        """Return the uses of these kinds, each with the last stage of the data set that is used."""
        return [(use, path.stage) for use in self.uses if use.kind in kinds for path in use.value.paths]

    def _run(self) -> None:
        module = Frame({})
        self.execute(self.source.tree.body, module)
        for node in self.source.nodes:
            around = self.source.parents.get(node)
            if isinstance(node, FUNCTIONS) and node not in self._called and isinstance(around, ast.Module):
                self.call_function(DefinitionValue(node), {}, module)
            elif isinstance(node, ast.ClassDef) and isinstance(around, ast.Module):
                self._methods(node, module)

    def _methods(self, cls: ast.ClassDef, module: Frame) -> None:
        """Evaluate the methods of a class that the file never calls, on a separate object."""
        instance = InstanceValue(cls)
        for item in cls.body:
            if isinstance(item, DEFINITIONS) and item not in self._called:
                self.call_function(DefinitionValue(item, instance), {}, module)

    def call_function(self, function: DefinitionValue, bound: Scope, frame: Frame) -> Value:
        """Return a function's value for these parameters; unknown where it recurses or the budget
        is spent.
        """
        node = function.node
        if isinstance(node, ast.ClassDef) or node in self.call_stack or len(self.call_stack) >= _DEEPEST or self._budget <= 0:
            return None
        self._called.add(node)
        inner = Frame(dict(bound), self._closures.get(node, frame), frame.conditions, is_nested=frame.is_nested)
        self._declare(node, inner)
        if function.owner is not None:
            inner.scope[next(iter(_names(node)), "self")] = function.owner
        self.call_stack.append(node)
        try:
            if isinstance(node, ast.Lambda):
                return self.evaluate(node.body, inner)
            self.execute(node.body, inner)
        finally:
            self.call_stack.pop()
        result: Value = None
        for number, value in enumerate(inner.returns):
            result = value if number == 0 else merge_values(result, value)
        return result

    def _declare(self, node: Function, frame: Frame) -> None:
        """Bind the parameters without an argument: to unknown, or to a data set where their
        annotation names one.
        """
        for item in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            if frame.scope.get(item.arg) is None:
                frame.scope[item.arg] = None
                if self.source.qualified_name(item.annotation) == "tensorflow.data.Dataset":
                    frame.scope[item.arg] = self.add_unknown_stage(item, frame)

    def add_unknown_stage(self, node: ast.AST, frame: Frame) -> DatasetValue:
        """Return a data set whose source the file does not show."""
        stage = Stage("unknown", node, is_nested=frame.is_nested)
        self.stages.append(stage)
        return DatasetValue((DatasetPath(stage),))

    # Statement handlers return True where the statement ends its block.

    def execute(self, body: Sequence[ast.stmt], frame: Frame) -> bool:
        """Evaluate statements in order; return whether they leave the function."""
        for statement in body:
            self._budget -= 1
            if self._budget <= 0:
                return True
            handler = getattr(self, f"_do_{type(statement).__name__}", None)
            if handler is None:
                self._children(statement, frame)
            elif handler(statement, frame):
                return True
        return False

    def _do_FunctionDef(self, node: ast.FunctionDef, frame: Frame) -> None:
        frame.scope[node.name] = DefinitionValue(node)
        self._closures[node] = frame

    def _do_ClassDef(self, node: ast.ClassDef, frame: Frame) -> None:
        frame.scope[node.name] = DefinitionValue(node)

    def _do_Return(self, node: ast.Return, frame: Frame) -> bool:
        value = self.evaluate(node.value, frame) if node.value is not None else None
        for condition in frame.conditions:
            value = restrict_value(value, condition)
        frame.returns.append(value)
        return True

    def _do_Raise(self, node: ast.Raise, frame: Frame) -> bool:
        return True

    def _do_Assign(self, node: ast.Assign, frame: Frame) -> None:
        value = self.evaluate(node.value, frame)
        for target in node.targets:
            self._assign(target, value, frame)

    def _do_AnnAssign(self, node: ast.AnnAssign, frame: Frame) -> None:
        if node.value is not None:
            self._assign(node.target, self.evaluate(node.value, frame), frame)

    def _do_AugAssign(self, node: ast.AugAssign, frame: Frame) -> None:
        self.evaluate(node.value, frame)
        self._assign(node.target, None, frame)

    def _do_If(self, node: ast.If, frame: Frame) -> bool:
        decided = evaluate_test(node.test, lambda test: self.evaluate(test, frame))
        if decided is not None:
            return self.execute(node.body if decided else node.orelse, frame)
        self.evaluate(node.test, frame)
        text, truth = parse_condition(node.test)
        before, conditions = frame.scope, frame.conditions
        ended, scopes, narrow = [], [], []
        for body, holds in ((node.body, (text, truth)), (node.orelse, (text, not truth))):
            narrow.append(
                {
                    name: value.add_condition(holds) if isinstance(value, DatasetValue) else value
                    for name, value in before.items()
                }
            )
            frame.scope, frame.conditions = dict(narrow[-1]), conditions | {holds}
            ended.append(self.execute(body, frame))
            scopes.append(frame.scope)
        frame.scope, frame.conditions = merge_scopes(before, narrow, scopes, ended, (text, truth)), conditions
        return all(ended)

    def _do_For(self, node: ast.For | ast.AsyncFor, frame: Frame) -> None:
        value = self.evaluate(node.iter, frame)
        if isinstance(value, DatasetValue):
            self.uses.append(DatasetUse("loop", node, value))
        self._assign(node.target, None, frame)
        self.execute(node.body, frame)
        self.execute(node.orelse, frame)

    _do_AsyncFor = _do_For

    def _do_While(self, node: ast.While, frame: Frame) -> None:
        self.evaluate(node.test, frame)
        self.execute(node.body, frame)

    def _do_With(self, node: ast.With | ast.AsyncWith, frame: Frame) -> bool:
        for item in node.items:
            self.evaluate(item.context_expr, frame)
            if item.optional_vars is not None:
                self._assign(item.optional_vars, None, frame)
        return self.execute(node.body, frame)

    _do_AsyncWith = _do_With

    def _do_Try(self, node: ast.Try, frame: Frame) -> bool:
        ended = self.execute([*node.body, *node.orelse], frame)
        after = frame.scope
        for handler in node.handlers:
            frame.scope = dict(after)
            if not self.execute(handler.body, frame):
                after = {name: merge_values(after.get(name), frame.scope.get(name)) for name in {**after, **frame.scope}}
        frame.scope = after
        return self.execute(node.finalbody, frame) or (ended and not node.handlers)

    def _assign(self, target: ast.expr, value: Value, frame: Frame) -> None:
        if isinstance(target, ast.Name):
            frame.scope[target.id] = value
        elif isinstance(target, ast.Attribute):
            owner = self.evaluate(target.value, frame)
            if isinstance(owner, InstanceValue):
                owner.members[target.attr] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            for number, item in enumerate(target.elts):
                self._assign(item, _part(value, number, len(target.elts)), frame)

    # Expression handlers return the known value of the expression.

    def evaluate(self, node: ast.expr | None, frame: Frame) -> Value:
        """Return the known value of an expression, after evaluation of the calls in it."""
        handler = getattr(self, f"_of_{type(node).__name__}", None)
        if handler is not None:
            value: Value = handler(node, frame)
            return value
        if node is not None:
            self._children(node, frame)
        return None

    def _children(self, node: ast.AST, frame: Frame) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._add_escape(self.evaluate(child, frame), child)

    def _add_escape(self, value: Value, node: ast.AST) -> None:
        if isinstance(value, DatasetValue):
            self.uses.append(DatasetUse("elsewhere", node, value))

    def _of_Constant(self, node: ast.Constant, frame: Frame) -> Value:
        return ConstantValue(node.value)

    def _of_Name(self, node: ast.Name, frame: Frame) -> Value:
        value = frame.find(node.id)
        return self._guess_dataset(node, frame) if value is None else value

    def _of_Attribute(self, node: ast.Attribute, frame: Frame) -> Value:
        return self.get_attribute(node, self.evaluate(node.value, frame), frame)

    def get_attribute(self, node: ast.Attribute, owner: Value, frame: Frame) -> Value:
        """Return an attribute of a value that is already known."""
        if isinstance(owner, InstanceValue):
            if node.attr in owner.members:
                return owner.members[node.attr]
            method = next((item for item in owner.cls.body if isinstance(item, FUNCTIONS) and _name(item) == node.attr), None)
            if method is not None:
                return DefinitionValue(method, None if _is_static_method(method) else owner)
        return self._guess_dataset(node, frame) if owner is None or isinstance(owner, InstanceValue) else None

    def _guess_dataset(self, node: ast.Name | ast.Attribute, frame: Frame) -> Value:
        """Return a data set where the function uses the unknown value as only a tf.data set can be
        used, unknown otherwise.
        """
        scope = self.source.enclosing_function(node) or self.source.tree
        if dotted_name(node) not in self._evident.get(scope, ()):
            return None
        value = self.add_unknown_stage(node, frame)
        if isinstance(node, ast.Name):
            frame.scope[node.id] = value
        return value

    def _of_Lambda(self, node: ast.Lambda, frame: Frame) -> Value:
        self._closures[node] = frame
        return DefinitionValue(node)

    def _of_NamedExpr(self, node: ast.NamedExpr, frame: Frame) -> Value:
        value = self.evaluate(node.value, frame)
        self._assign(node.target, value, frame)
        return value

    def _of_IfExp(self, node: ast.IfExp, frame: Frame) -> Value:
        decided = evaluate_test(node.test, lambda test: self.evaluate(test, frame))
        if decided is not None:
            return self.evaluate(node.body if decided else node.orelse, frame)
        text, truth = parse_condition(node.test)
        conditions, values = frame.conditions, []
        for branch, holds in ((node.body, (text, truth)), (node.orelse, (text, not truth))):
            frame.conditions = conditions | {holds}
            values.append(restrict_value(self.evaluate(branch, frame), holds))
        frame.conditions = conditions
        return merge_values(*values)

    def _of_Tuple(self, node: ast.Tuple | ast.List, frame: Frame) -> Value:
        return SequenceValue(tuple(self.evaluate(item, frame) for item in node.elts))

    _of_List = _of_Tuple

    def _of_Subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        value, index = self.evaluate(node.value, frame), self.evaluate(node.slice, frame)
        if isinstance(value, SequenceValue) and isinstance(index, ConstantValue) and isinstance(index.value, int):
            return value.values[index.value] if -len(value.values) <= index.value < len(value.values) else None
        return value if isinstance(value, DatasetValue) and _has_many_datasets(value) else None

    def _of_Call(self, node: ast.Call, frame: Frame) -> Value:
        return self._calls.evaluate(node, frame)


def _part(value: Value, number: int, count: int) -> Value:
    """Return the value for one of the names that a value is unpacked into."""
    if isinstance(value, SequenceValue):
        return value.values[number] if len(value.values) == count else None
    return value if isinstance(value, DatasetValue) and _has_many_datasets(value) else None


def _names(node: Function) -> list[str]:
    return [item.arg for item in [*node.args.posonlyargs, *node.args.args]]


def _name(node: Function) -> str:
    return "" if isinstance(node, ast.Lambda) else node.name


def _is_static_method(node: Function) -> bool:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return any(isinstance(item, ast.Name) and item.id == "staticmethod" for item in decorators)


def _has_many_datasets(value: DatasetValue) -> bool:
    return all(path.stage.op in MULTI_DATASET_SOURCES for path in value.paths)
