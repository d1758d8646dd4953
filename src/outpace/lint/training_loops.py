# SPDX-License-Identifier: Apache-2.0
"""Training code of a file: its `tf.function`s, the code inside them, loops with one step per
iteration, and the results of steps.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterable, Iterator
from functools import cached_property

from outpace.lint.functions import PYTHON_CALLS, FunctionResolver
from outpace.lint.source import SourceFile
from outpace.pyscope.mutations import assignment_targets
from outpace.pyscope.names import used_names
from outpace.pyscope.nodes import DEFINITIONS, FUNCTIONS, SCOPES, Definition, Function, iter_scope

LOOP_NODES = (ast.For, ast.AsyncFor, ast.While)
Loop = ast.For | ast.AsyncFor | ast.While
_DEEPEST = 6  # maximum depth of calls from a loop to the code that it runs
_UPDATES = frozenset({"apply_gradients", "minimize", "train_on_batch"})
_COMPILED_METHODS = frozenset({"train_step", "test_step", "predict_step", "call"})
_V1 = frozenset({"disable_eager_execution", "disable_v2_behavior", "Session", "InteractiveSession"})


class TrainingLoops:
    """Training code as the file's text shows it."""

    def __init__(self, source: SourceFile, functions: FunctionResolver) -> None:
        self.source = source
        self.functions = functions

    @cached_property
    def is_eager(self) -> bool:
        """Whether the file trains with TensorFlow 2's eager execution at all (no graph mode of
        version 1).
        """
        names = (self.source.qualified_name(node) for node in self.source.nodes if isinstance(node, ast.Attribute))
        return self.source.imports("tensorflow", "keras") and not any(
            name.startswith("tensorflow.") and name.rpartition(".")[2] in _V1 for name in names
        )

    @cached_property
    def tf_functions(self) -> dict[Function, ast.AST]:
        """Functions that `tf.function` wraps, each with the decorator or call that wraps it."""
        functions: dict[Function, ast.AST] = {}
        for node in self.source.nodes:
            if isinstance(node, DEFINITIONS):
                for item in node.decorator_list:
                    if self.is_tf_function(item):
                        functions[node] = item
            elif isinstance(node, ast.Call) and self.is_tf_function(node) and node.args:
                target = self.functions.resolve_function(node.args[0])
                if target is not None:
                    functions.setdefault(target, node)
        return functions

    @cached_property
    def graph_functions(self) -> set[ast.AST]:
        """Functions that run inside a graph: wrapped ones, Keras' own steps, and all functions that
        these use.
        """
        todo: list[ast.AST] = [*self.tf_functions, *self._keras_methods()]
        functions: set[ast.AST] = set()
        while todo:
            function = todo.pop()
            if function not in functions and function not in self.python_functions:
                functions.add(function)
                todo += self.functions.references(function)
        return functions

    @cached_property
    def python_functions(self) -> set[ast.AST]:
        """Functions that `py_function` and similar ops run as Python."""
        calls = (node for node in self.source.nodes if self.source.called_name(node) in PYTHON_CALLS)
        targets = (self.functions.resolve_function(_argument(node, "func")) for node in calls if isinstance(node, ast.Call))
        return {target for target in targets if target is not None}

    @cached_property
    def step_functions(self) -> set[ast.AST]:
        """Functions that perform one training step at each call (not a loop of steps)."""
        everything = [node for node in self.source.nodes if isinstance(node, FUNCTIONS)]
        functions: set[ast.AST] = set()
        for node in everything:
            if any(self._updates(item) and not self.enclosing_loop(item) for item in iter_scope(node)):
                functions.add(node)
        growing = True
        while growing:
            more = {node for node in everything if node not in functions and self._uses(node, functions)}
            functions |= more
            growing = bool(more)
        return functions

    @cached_property
    def loop_bodies(self) -> dict[Loop, list[ast.AST]]:
        """Loops with one step per iteration, each with the nodes that run in every iteration (not
        those under an `if`, `try` or inner loop).
        """
        bodies: dict[Loop, list[ast.AST]] = {}
        for node in self.source.nodes:
            if isinstance(node, LOOP_NODES):
                body = list(iter_unconditional(node, self.performs_step))
                if any(map(self.performs_step, body)):
                    bodies[node] = body
        return bodies

    def is_tf_function(self, node: ast.AST) -> bool:
        """Whether an expression is `tf.function`, with or without arguments, also through
        `functools.partial`.
        """
        if isinstance(node, ast.Call):
            partly = self.source.called_name(node) == "functools.partial" and bool(node.args)
            return self.is_tf_function(node.args[0] if partly else node.func)
        return self.source.qualified_name(node) == "tensorflow.function"

    def performs_step(self, node: ast.AST) -> bool:
        """Whether a node updates a model, or calls a function that does."""
        return self._updates(node) or self.is_step_call(node)

    def is_step_call(self, node: ast.AST) -> bool:
        """Whether a node calls a function that performs a step; a function from another file must
        have a name that shows it.
        """
        if not isinstance(node, ast.Call):
            return False
        target = self.resolve_method(node.func)
        if target is not None:
            return target in self.step_functions or "train_step" in getattr(target, "name", "")
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return "train_step" in name or any(self.functions.resolve_function(item) in self.step_functions for item in node.args)

    def resolve_method(self, node: ast.AST) -> Function | None:
        """Return the function that an expression names; for `object.name` the only method of that
        name in the file.
        """
        function = self.functions.resolve_function(node)
        if function is None and isinstance(node, ast.Attribute) and not self.source.qualified_name(node):
            candidates = [item for item in self.source.nodes if isinstance(item, ast.FunctionDef) and item.name == node.attr]
            methods = [item for item in candidates if isinstance(self.source.parents.get(item), ast.ClassDef)]
            function = methods[0] if len(methods) == 1 else None
        return function

    def iter_reached(
        self, body: Iterable[ast.AST], stops: Container[ast.AST], *, inner_loops: bool = False
    ) -> Iterator[tuple[ast.AST, tuple[ast.Call, ...]]]:
        """Yield the nodes that run in every iteration, including those of the file's functions that
        are called, each with the calls that lead to it; each function once.

        stops: functions that are not followed.
        inner_loops: also what runs in every iteration of loops inside.
        """
        seen: set[ast.AST] = set()
        todo: list[tuple[ast.AST, tuple[ast.Call, ...]]] = [(node, ()) for node in body]
        while todo:
            node, way = todo.pop(0)
            yield node, way
            if inner_loops and isinstance(node, LOOP_NODES):
                todo += ((item, way) for item in iter_unconditional(node))
            function = self.resolve_method(node.func) if isinstance(node, ast.Call) and len(way) < _DEEPEST else None
            if function is None or isinstance(function, ast.Lambda) or function in stops or function in seen:
                continue
            assert isinstance(node, ast.Call)
            seen.add(function)
            todo += ((item, (*way, node)) for item in iter_unconditional(function))

    def enclosing_loop(self, node: ast.AST) -> Loop | None:
        """Return the innermost loop around a node in the same function."""
        for above in self.source.iter_ancestors(node):
            if isinstance(above, FUNCTIONS):
                return None
            if isinstance(above, LOOP_NODES):
                return above
        return None

    def gradient_tape(self, node: ast.AST) -> ast.AST | None:
        """Return the `tf.GradientTape` call that a `with` enters, or None."""
        items = node.items if isinstance(node, ast.With) else []
        return next(
            (item.context_expr for item in items if self.source.called_name(item.context_expr) == "tensorflow.GradientTape"),
            None,
        )

    def find_step_tensors(self, body: list[ast.AST]) -> set[str]:
        """Return the names in a training loop that refer to tensors of the step: its results,
        values recorded by a tape, and values computed from these.
        """
        names: set[str] = set()
        for node in body:
            if isinstance(node, (ast.Assign, ast.AugAssign)) and self._holds_tensor(node, names):
                names |= {name for target in assignment_targets(node) for name in used_names(ast.walk(target))}
        return names

    def _holds_tensor(self, node: ast.Assign | ast.AugAssign, names: set[str]) -> bool:
        if forces_sync(node.value):
            return False
        if any(self.gradient_tape(above) is not None for above in self.source.iter_ancestors(node)):
            return any(isinstance(item, ast.Call) for item in ast.walk(node.value))
        return any(
            self.is_step_call(item) or (isinstance(item, ast.Name) and item.id in names) for item in ast.walk(node.value)
        ) and not isinstance(node.value, (ast.List, ast.Dict, ast.ListComp))

    def _updates(self, node: ast.AST) -> bool:
        """Whether a node changes a model's weights by itself."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        return node.func.attr in _UPDATES and not self.source.qualified_name(node.func)

    def _uses(self, function: Function, steps: set[ast.AST]) -> bool:
        calls = (node for node in iter_scope(function) if isinstance(node, ast.Call) and self.enclosing_loop(node) is None)
        callees = (item for node in calls for item in [node.func, *node.args] if isinstance(item, (ast.Name, ast.Attribute)))
        return any(self.resolve_method(item) in steps for item in callees)

    def _keras_methods(self) -> Iterator[ast.AST]:
        """Yield the methods that Keras may compile: of its classes' subclasses, and of those of
        classes that the file does not show.
        """
        for node in self.source.nodes:
            if isinstance(node, ast.ClassDef) and any(self._may_be_of_keras(base, ()) for base in node.bases):
                yield from (item for item in node.body if isinstance(item, ast.FunctionDef) and item.name in _COMPILED_METHODS)

    def _may_be_of_keras(self, base: ast.expr, below: tuple[ast.ClassDef, ...]) -> bool:
        definition = self.functions.resolve(base)
        if isinstance(definition, ast.ClassDef):
            return definition not in below and any(
                self._may_be_of_keras(item, (*below, definition)) for item in definition.bases
            )
        return getattr(base, "id", "") != "object" and not self.source.qualified_name(base).startswith("tensorflow.")


def forces_sync(node: ast.AST) -> bool:
    """Whether an expression converts tensors to Python numbers: it waits for them, and its result
    is no tensor.
    """
    for item in ast.walk(node):
        if isinstance(item, ast.Call):
            name = item.func.attr if isinstance(item.func, ast.Attribute) else getattr(item.func, "id", "")
            if name in ("numpy", "item", "float", "int", "len", "str", "time"):
                return True
    return False


def reads_metadata(source: SourceFile, name: ast.Name) -> bool:
    """Whether only a tensor's shape or type is read, which needs no waiting."""
    parent = source.parents.get(name)
    return isinstance(parent, ast.Attribute) and parent.attr in ("shape", "dtype", "name", "device", "keys")


def _argument(call: ast.Call, name: str) -> ast.expr | None:
    return next((word.value for word in call.keywords if word.arg == name), call.args[0] if call.args else None)


def is_short(loop: Loop) -> bool:
    """Whether a loop goes over what is written out there: sizes, stages, files by name."""
    return not isinstance(loop, ast.While) and isinstance(loop.iter, (ast.Tuple, ast.List, ast.Set, ast.Dict))


def iter_unconditional(scope: Loop | Definition, is_step: Callable[[ast.AST], bool] = lambda node: True) -> Iterator[ast.AST]:
    """Yield the nodes that run in every iteration of a loop, or call of a function: without
    branches, inner loops, and bodies of nested functions.

    is_step: whether a node is the step of a loop. Iterations that a `continue` before it ends have
    no step, and do not count; what stands behind a `continue` that comes after it is left out.
    """
    has_step = False
    for statement in scope.body:
        for node in _iter_evaluated(statement):
            has_step = has_step or is_step(node)
            yield node
        if has_step and _may_skip(statement, isinstance(scope, LOOP_NODES)):
            return


def _may_skip(node: ast.AST, in_loop: bool) -> bool:
    """Whether a statement may skip the rest of an iteration or call, and leave a loop running."""
    if isinstance(node, SCOPES):
        return False
    if isinstance(node, ast.Continue if in_loop else ast.Return):
        return True
    inner = () if in_loop and isinstance(node, LOOP_NODES) else ast.iter_child_nodes(node)
    return any(_may_skip(part, in_loop) for part in inner)


def _iter_evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and the parts of it that run whenever it does."""
    yield node
    if isinstance(node, SCOPES):
        return
    tests = {ast.If: "test", ast.While: "test", ast.IfExp: "test", ast.For: "iter", ast.AsyncFor: "iter", ast.Match: "subject"}
    parts: list[ast.AST]
    if isinstance(node, ast.BoolOp):
        parts = [node.values[0]]
    elif name := tests.get(type(node)):
        parts = [getattr(node, name)]
    else:
        parts = [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.ExceptHandler)]
    for part in parts:
        yield from _iter_evaluated(part)
