# SPDX-License-Identifier: Apache-2.0
"""JAX code of a file: its compiled functions, the arrays that it computes, and where these become
Python numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cached_property

from outpace.lint.functions import FunctionResolver
from outpace.lint.source import SourceFile
from outpace.lint.training_loops import LOOP_NODES, TrainingLoops, forces_sync, reads_metadata
from outpace.pyscope.mutations import assignment_targets
from outpace.pyscope.names import used_names
from outpace.pyscope.nodes import DEFINITIONS, FUNCTIONS, Function, is_read, iter_scope

_JITS = ("jax.jit", "jax.pmap", "equinox.filter_jit", "flax.nnx.jit")
_LOOPS = tuple(f"jax.lax.{name}" for name in ("scan", "while_loop", "fori_loop", "map", "associative_scan"))
_BRANCHES = ("jax.lax.cond", "jax.lax.switch")
_COMPUTING = tuple(f"jax.{name}." for name in ("numpy", "lax", "nn", "random", "scipy", "image"))
# functions of these packages that tell what is known without computing
_DESCRIBING = (
    *("size", "ndim", "shape", "dtype", "finfo", "iinfo", "issubdtype", "result_type", "promote_types", "can_cast"),
    *("isscalar", "iscomplexobj", "isrealobj"),
)
_GRADIENTS = (
    *("jax.grad", "jax.value_and_grad", "jax.vjp", "flax.nnx.grad", "flax.nnx.value_and_grad"),
    *("equinox.filter_grad", "equinox.filter_value_and_grad"),
)
_CACHES = ("functools.cache", "functools.lru_cache")
_NUMBERS = ("int", "float", "bool")


class JaxCode:
    """JAX code as the file's text shows it."""

    def __init__(self, source: SourceFile, functions: FunctionResolver, loops: TrainingLoops) -> None:
        self._source = source
        self._functions = functions
        self._loops = loops
        self._arrays: dict[ast.AST, set[str]] = {}
        self._given_to_host: dict[ast.AST, set[ast.AST]] = {}

    @cached_property
    def compiled_functions(self) -> set[ast.AST]:
        """Functions that run inside a compiled program, and all that these use."""
        todo: list[ast.AST] = []
        for node in self._source.nodes:
            if isinstance(node, DEFINITIONS) and any(map(self.is_jit, node.decorator_list)):
                todo.append(node)
            elif isinstance(node, ast.Call) and self.is_jit(node.func):
                todo += (target for item in ast.walk(node) if (target := self._function(item)) is not None)
        functions: set[ast.AST] = set()
        while todo:
            function = todo.pop()
            if function not in functions:
                functions.add(function)
                todo += self._functions.references(function)
        return functions

    @cached_property
    def functions_with_cache(self) -> set[ast.AST]:
        """Functions whose results are kept, by their arguments."""
        return {
            node
            for node in self._source.nodes
            if isinstance(node, DEFINITIONS)
            and any(
                (self._source.called_name(item) or self._source.qualified_name(item)) in _CACHES for item in node.decorator_list
            )
        }

    def is_compiled(self, node: ast.AST) -> bool:
        """Whether a node runs inside a compiled program."""
        return any(
            isinstance(above, FUNCTIONS) and above in self.compiled_functions for above in self._source.iter_ancestors(node)
        )

    def is_jit(self, node: ast.AST) -> bool:
        """Whether an expression is `jax.jit`, with or without arguments, also through
        `functools.partial`.
        """
        if isinstance(node, ast.Call):
            partly = self._source.called_name(node) == "functools.partial" and bool(node.args)
            return self.is_jit(node.args[0] if partly else node.func)
        return self._source.qualified_name(node) in _JITS

    def is_new_jit(self, node: ast.AST, way: Sequence[ast.Call]) -> bool:
        """Whether a node compiles a function that is made there, too, and that is called where it
        is made, or returned to such a place: what is handed on may be called many times.

        way: the calls that lead to the node.
        """
        if isinstance(node, DEFINITIONS):
            return any(map(self.is_jit, node.decorator_list)) and self._is_only_called(node, way)
        if not isinstance(node, ast.Call) or self._source.called_name(node) not in _JITS or not node.args:
            return False
        is_new = isinstance(node.args[0], (ast.Lambda, ast.Call)) or self._is_local(node.args[0])
        return is_new and self._is_only_called(node, way)

    def is_new_loop(self, node: ast.AST) -> bool:
        """Whether a node runs a loop or branch of `lax` whose functions are defined there."""
        if not isinstance(node, ast.Call) or self._source.called_name(node) not in (*_LOOPS, *_BRANCHES):
            return False
        return any(isinstance(item, ast.Lambda) or self._is_local(item) for item in node.args)

    def is_loop(self, node: ast.AST) -> bool:
        """Whether a node runs a loop of `lax`."""
        return self._source.called_name(node) in _LOOPS

    def runs_compiled(self, node: ast.AST) -> bool:
        """Whether a node calls a compiled function."""
        if not isinstance(node, ast.Call):
            return False
        made = self._functions.resolve(node.func) if isinstance(node.func, ast.Name) else None
        return self._loops.resolve_method(node.func) in self.compiled_functions or (
            isinstance(made, ast.Call) and self.is_jit(made.func)
        )

    def runs_step(self, node: ast.AST) -> bool:
        """Whether a node calls a compiled function that is one step, as far as the file shows: one
        with a loop of `lax` may take as long as a whole training, unless it is the gradient of what
        loops, as of a recurrent layer.
        """
        if not isinstance(node, ast.Call) or not self.runs_compiled(node):
            return False
        function = self._loops.resolve_method(node.func)
        made = self._functions.resolve(node.func) if function is None else None
        if isinstance(made, ast.Call) and made.args:
            function = self._functions.resolve_function(made.args[0])
        used = self._iter_used(function) if function is not None else []
        loops = [item for item in used if isinstance(item, ast.Call) and self.is_loop(item)]
        bodies = [body for loop in loops for item in loop.args if (body := self._function(item)) is not None]
        return not loops or (
            any(map(self._is_gradient, used))
            and not any(self._is_gradient(item) for body in bodies for item in self._iter_used(body))
        )

    def reads_number(self, node: ast.AST) -> bool:
        """Whether a node converts what JAX computed to a Python number, or copies it to the
        host.
        """
        if not isinstance(node, ast.Call):
            return False
        if self._source.called_name(node) == "jax.device_get":
            return any(map(self._holds_array, node.args))
        if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
            return self._holds_array(node.func.value)
        is_number = isinstance(node.func, ast.Name) and node.func.id in _NUMBERS
        return is_number and len(node.args) == 1 and self._holds_array(node.args[0])

    def is_needed_by_host(self, read: ast.AST) -> bool:
        """Whether a number that is read goes into a call of an object that the file does not show,
        and whose result is used: a simulator's step, a look-up.
        """
        scope = self._source.enclosing_function(read) or self._source.tree
        if scope not in self._given_to_host:
            calls = filter(self._is_of_host, (node for node in iter_scope(scope) if isinstance(node, ast.Call)))
            self._given_to_host[scope] = {part for call in calls for part in _iter_given(call)}
        parent = self._source.parents.get(read)
        names = {target.id for target in getattr(parent, "targets", ()) if isinstance(target, ast.Name)}
        given = self._given_to_host[scope]
        return read in given or any(getattr(part, "id", "") in names for part in given)

    def _is_of_host(self, call: ast.Call) -> bool:
        """Whether a call is of an object that the file does not show, and its result is used."""
        return not (
            isinstance(call.func, ast.Name)
            or self._source.called_name(call)
            or isinstance(self._source.parents.get(call), ast.Expr)
            or self._loops.resolve_method(call.func) is not None
            or self.runs_compiled(call)
        )

    def _function(self, node: ast.AST) -> Function | None:
        return self._functions.resolve_function(node) if isinstance(node, (ast.Name, ast.Lambda)) else None

    def _is_gradient(self, node: ast.AST) -> bool:
        return self._source.called_name(node) in _GRADIENTS

    def _iter_used(self, function: ast.AST) -> list[ast.AST]:
        """Return the nodes of a function and of all functions of the file that it uses."""
        todo, seen = [function], set[ast.AST]()
        while todo:
            used = todo.pop()
            if used not in seen:
                seen.add(used)
                todo += self._functions.references(used)
        return [node for used in seen for node in iter_scope(used)]

    def _is_local(self, node: ast.AST) -> bool:
        """Whether an expression names a function that is defined inside a function or loop."""
        function = self._function(node)
        return function is not None and any(
            isinstance(above, (*FUNCTIONS, *LOOP_NODES)) for above in self._source.iter_ancestors(function)
        )

    def _is_only_called(self, made: ast.AST, way: Sequence[ast.Call]) -> bool:
        """Whether a function that a definition or expression makes is called at once, or wherever
        its name is read in the scope; where it is returned, by the caller.
        """
        parent = self._source.parents.get(made)
        name = made.name if isinstance(made, DEFINITIONS) else ""
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
            name = getattr(parent.targets[0], "id", "")
        reads = [made]
        if name:
            scope = self._source.enclosing_function(made) or self._source.tree
            named = (node for node in iter_scope(scope) if isinstance(node, ast.Name) and node.id == name)
            reads = [node for node in named if is_read(node)]
        above = [self._source.parents.get(read) for read in reads]
        return bool(reads) and all(
            (isinstance(node, ast.Call) and node.func is read)
            or (isinstance(node, ast.Return) and bool(way) and self._is_only_called(way[-1], way[:-1]))
            for node, read in zip(above, reads, strict=True)
        )

    def _calls_device(self, node: ast.AST) -> bool:
        """Whether a node calls a compiled function, or one of JAX's own that computes."""
        name = self._source.called_name(node)
        return self.runs_compiled(node) or (name.startswith(_COMPUTING) and name.rpartition(".")[2] not in _DESCRIBING)

    def _holds_array(self, node: ast.AST) -> bool:
        """Whether an expression contains a call that JAX computes, or a name of its result; calls
        of JAX that describe what they are given do not count.
        """
        if self._calls_device(node):
            return True
        if isinstance(node, ast.Name):
            scope = self._source.enclosing_function(node) or self._source.tree
            return node.id in self._array_names(scope) and not reads_metadata(self._source, node)
        describes = isinstance(node, ast.Call) and self._source.called_name(node).startswith("jax.")
        return not describes and any(map(self._holds_array, ast.iter_child_nodes(node)))

    def _array_names(self, scope: ast.AST) -> set[str]:
        """Return the names in a scope that only arrays of JAX are assigned to: results of its
        calls, what is computed from them, and parameters that are given such. A second name
        (`before = loss`) is left out: it keeps the result of an iteration before, for which nothing
        has to wait.
        """
        if scope in self._arrays:
            return self._arrays[scope]
        statements = [node for node in iter_scope(scope) if isinstance(node, (ast.Assign, ast.AugAssign))]
        arrays, growing = self._array_parameters(scope), True
        while growing:
            before = len(arrays)
            for node in statements:
                if not isinstance(node.value, ast.Name) and self._is_array(node.value, arrays):
                    arrays.update(name for target in assignment_targets(node) for name in used_names(ast.walk(target)))
            growing = len(arrays) > before
        numbers: set[str] = set()
        for node in statements:
            if isinstance(node.value, ast.Name) or not self._is_array(node.value, arrays):
                targets = {name for target in assignment_targets(node) for name in used_names(ast.walk(target))}
                converts = forces_sync(node.value) and targets <= set(used_names(ast.walk(node.value)))
                numbers |= set() if converts else targets  # loss = loss.item() reads an array first
        self._arrays[scope] = arrays - numbers
        return self._arrays[scope]

    def _is_array(self, node: ast.expr, arrays: set[str]) -> bool:
        """Whether an expression is an array: a call that JAX computes, or arithmetic with an
        array.
        """
        if forces_sync(node):
            return False
        if isinstance(node, ast.Call):
            return self._calls_device(node)
        if isinstance(node, ast.Name):
            return node.id in arrays
        parts = {
            ast.BinOp: ("left", "right"),
            ast.UnaryOp: ("operand",),
            ast.Compare: ("left",),
            ast.Subscript: ("value",),
        }.get(type(node), ())
        return any(self._is_array(getattr(node, part), arrays) for part in parts)

    def _array_parameters(self, scope: ast.AST) -> set[str]:
        """Return the parameters of a function that calls in the module give an array of JAX."""
        if not isinstance(scope, DEFINITIONS):
            return set()
        given = set()
        names = [parameter.arg for parameter in scope.args.args]
        for call in self._calls_by_function.get(scope, ()):
            for name, argument in zip(names, call.args, strict=False):
                source = self._functions.resolve(argument) if isinstance(argument, ast.Name) else argument
                if isinstance(source, ast.expr) and self._is_array(source, set()):
                    given.add(name)
        return given

    @cached_property
    def _calls_by_function(self) -> dict[ast.AST, list[ast.Call]]:
        """Calls in the file by the function that they call."""
        calls: dict[ast.AST, list[ast.Call]] = {}
        for node in self._source.nodes:
            function = self._functions.resolve_function(node.func) if isinstance(node, ast.Call) else None
            if function is not None and isinstance(node, ast.Call):
                calls.setdefault(function, []).append(node)
        return calls


def _iter_given(call: ast.Call) -> list[ast.AST]:
    """Return the nodes of a call's arguments."""
    return [part for argument in (*call.args, *call.keywords) for part in ast.walk(argument)]
