# SPDX-License-Identifier: Apache-2.0
"""JX301 to JX303: JAX functions that are compiled again and again, and results that every iteration
waits for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outpace.lint.context import LintContext, Message, Rule
from outpace.lint.rules.loops import find_file_reads
from outpace.lint.training_loops import LOOP_NODES, Loop, forces_sync, iter_unconditional, reads_metadata
from outpace.pyscope.mutations import assignment_targets
from outpace.pyscope.names import used_names
from outpace.pyscope.nodes import DEFINITIONS, FUNCTIONS, Definition, Function, iter_scope

_CACHE = "https://docs.jax.dev/en/latest/jit-compilation.html#jit-and-caching"
JIT = Rule(
    "JX301",
    "jax.jit is made anew in each iteration",
    "JAX keeps what it compiled by the function that was given to `jax.jit`: one that is made anew in each iteration (a lambda, a "
    "function inside a function, the result of `jax.grad`) is traced and compiled each time.",
    _CACHE,
    "Make the jitted function once, before the loop, and pass what changes as arguments.",
    "when the loop has few iterations that each train for long",
)
LAX = Rule(
    "JX302",
    "a lax loop outside jax.jit is compiled in each iteration",
    "Outside of `jax.jit`, `scan`, `while_loop`, `fori_loop` and `cond` compile what they are given, and look it up by the "
    "functions: those that are defined in each call are new each time.",
    _CACHE,
    "Put the function that calls it under `jax.jit`.",
    "when the loop has few iterations",
)
READ = Rule(
    "JX303",
    "each iteration waits for a result",
    "Converting an array to a Python number waits until the device has computed it, so that the next call is dispatched only then.",
    "https://docs.jax.dev/en/latest/async_dispatch.html",
    "Read it every few steps (`if step % 100 == 0:`), keep it as an array, or decide inside the jitted function (`jnp.where`).",
    "on a machine without accelerator, when a step takes much longer than a call",
)
RULES = (JIT, LAX, READ)
_JITS = ("jax.jit", "jax.pmap", "equinox.filter_jit", "flax.nnx.jit")
_LOOPS = tuple(f"jax.lax.{name}" for name in ("scan", "while_loop", "fori_loop", "cond", "map", "associative_scan"))
_NUMBERS = ("int", "float", "bool")
_DEEPEST = 6  # maximum depth of calls to the loops of a function


def check(context: LintContext) -> Iterator[Message]:
    """Yield the messages of this file's rules."""
    if not context.source.imports("jax"):
        return
    jitted = _jitted_functions(context)
    loops = [node for node in context.source.nodes if isinstance(node, LOOP_NODES) and not _is_inside(context, node, jitted)]
    found: dict[ast.AST, Message] = {}
    for loop in loops:
        for message in (*_compilations(context, loop, jitted), *_reads(context, loop, jitted)):
            if message.node is not None:
                found.setdefault(message.node, message)
    yield from found.values()


def _is_inside(program: LintContext, node: ast.AST, jitted: set[ast.AST]) -> bool:
    """Whether a node runs inside a compiled program."""
    return any(isinstance(above, FUNCTIONS) and above in jitted for above in program.source.iter_ancestors(node))


def _compilations(program: LintContext, loop: Loop, jitted: set[ast.AST]) -> Iterator[Message]:
    """Yield the messages on what is compiled anew in each iteration of a loop over steps, not of
    one over epochs or models.
    """
    body = list(iter_unconditional(loop))
    if any(isinstance(node, LOOP_NODES) for node in body):
        return
    for node, way in program.training_loops.iter_reached(body, jitted):
        if _makes_jit(program, node):
            yield program.build_message(JIT, node, f"A new jitted function is compiled in each iteration{_below(way)}.")
        elif way and _makes_loop(program, node):
            text = f"This loop is compiled in each iteration{_below(way)}: its functions are new."
            yield program.build_message(LAX, node, text)


def _below(way: tuple[ast.Call, ...]) -> str:
    return f", for the call in line {way[0].lineno}" if way else ""


def _reads(program: LintContext, loop: Loop, jitted: set[ast.AST]) -> Iterator[Message]:
    """Yield the messages on results that each iteration of a loop over steps waits for, and on
    files that it reads: in the loop, and in the functions of the file that it calls.
    """
    if not any(_runs_jitted(program, node, jitted) for node in iter_unconditional(loop)):
        return
    reached = list(_iter_iteration(program, loop, jitted))
    inner = (node for node, _ in reached if isinstance(node, LOOP_NODES))
    if any(_runs_jitted(program, node, jitted) for other in inner for node in iter_unconditional(other)):
        return
    for node, way in reached:
        if _reads_number(program, node, jitted):
            yield program.build_message(READ, node, f"Each iteration waits here for a result{_below(way)}.")
    yield from find_file_reads(program, reached)


def _iter_iteration(
    program: LintContext, scope: Loop | Definition, jitted: set[ast.AST], way: tuple[ast.Call, ...] = ()
) -> Iterator[tuple[ast.AST, tuple[ast.Call, ...]]]:
    """Yield the nodes that run in every iteration, those of inner loops and of the file's functions
    included, each with the calls that lead to it.
    """
    for node, calls in program.training_loops.iter_reached(iter_unconditional(scope), jitted):
        yield node, (*way, *calls)
        if isinstance(node, LOOP_NODES) and len(way) < _DEEPEST:
            yield from _iter_iteration(program, node, jitted, (*way, *calls))


def _jitted_functions(program: LintContext) -> set[ast.AST]:
    """Return the functions that run inside a compiled program, and all that these use."""
    todo: list[ast.AST] = []
    for node in program.source.nodes:
        if isinstance(node, DEFINITIONS) and any(_is_jit(program, item) for item in node.decorator_list):
            todo.append(node)
        elif isinstance(node, ast.Call) and _is_jit(program, node.func):
            todo += (target for item in ast.walk(node) if (target := _function(program, item)) is not None)
    functions: set[ast.AST] = set()
    while todo:
        function = todo.pop()
        if function not in functions:
            functions.add(function)
            todo += program.functions.references(function)
    return functions


def _function(program: LintContext, node: ast.AST) -> Function | None:
    return program.functions.resolve_function(node) if isinstance(node, (ast.Name, ast.Lambda)) else None


def _is_jit(program: LintContext, node: ast.AST) -> bool:
    """Whether an expression is `jax.jit`, with or without arguments, also through
    `functools.partial`.
    """
    if isinstance(node, ast.Call):
        partly = program.source.called_name(node) == "functools.partial" and bool(node.args)
        return _is_jit(program, node.args[0] if partly else node.func)
    return program.source.qualified_name(node) in _JITS


def _makes_jit(program: LintContext, node: ast.AST) -> bool:
    """Whether a node makes a jitted function of a function that is made there, too."""
    if isinstance(node, DEFINITIONS):
        return any(_is_jit(program, item) for item in node.decorator_list)
    if not isinstance(node, ast.Call) or program.source.called_name(node) not in _JITS or not node.args:
        return False
    given = node.args[0]
    return isinstance(given, (ast.Lambda, ast.Call)) or _is_local(program, given)


def _is_local(program: LintContext, node: ast.AST) -> bool:
    """Whether an expression names a function that is defined inside a function or loop."""
    function = _function(program, node)
    return function is not None and any(
        isinstance(above, (*FUNCTIONS, *LOOP_NODES)) for above in program.source.iter_ancestors(function)
    )


def _makes_loop(program: LintContext, node: ast.AST) -> bool:
    """Whether a node runs a lax loop whose functions are defined there."""
    if not isinstance(node, ast.Call) or program.source.called_name(node) not in _LOOPS:
        return False
    return any(isinstance(item, ast.Lambda) or _is_local(program, item) for item in node.args)


def _runs_jitted(program: LintContext, node: ast.AST, jitted: set[ast.AST]) -> bool:
    """Whether a node calls a jitted function."""
    if not isinstance(node, ast.Call):
        return False
    return program.training_loops.resolve_method(node.func) in jitted or _is_made_by_jit(program, node.func)


def _calls_device(program: LintContext, node: ast.AST, jitted: set[ast.AST]) -> bool:
    """Whether a node calls a jitted function, or one of JAX's own."""
    return _runs_jitted(program, node, jitted) or program.source.called_name(node).startswith("jax.")


def _is_made_by_jit(program: LintContext, node: ast.AST) -> bool:
    """Whether an expression names the result of a call of `jax.jit`."""
    made = program.functions.resolve(node) if isinstance(node, ast.Name) else None
    return isinstance(made, ast.Call) and _is_jit(program, made.func)


def _reads_number(program: LintContext, node: ast.AST, jitted: set[ast.AST]) -> bool:
    """Whether a node converts what JAX computed to a Python number."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
        return _holds_array(program, node.func.value, jitted)
    return (
        isinstance(node.func, ast.Name)
        and node.func.id in _NUMBERS
        and len(node.args) == 1
        and _holds_array(program, node.args[0], jitted)
    )


def _holds_array(program: LintContext, node: ast.expr, jitted: set[ast.AST]) -> bool:
    """Whether an expression contains a call that JAX computes, or a name of its result."""
    if any(_calls_device(program, item, jitted) for item in ast.walk(node)):
        return True
    scope = program.source.enclosing_function(node) or program.source.tree
    arrays = _array_names(program, scope, jitted)
    return any(
        isinstance(item, ast.Name) and item.id in arrays and not reads_metadata(program.source, item) for item in ast.walk(node)
    )


def _array_names(program: LintContext, scope: ast.AST, jitted: set[ast.AST]) -> set[str]:
    """Return the names in a scope that only arrays of JAX are assigned to: results of its calls,
    what is computed from them, and parameters that are given such. A second name (`before = loss`)
    is left out: it keeps the result of an iteration before, for which nothing has to wait.
    """
    statements = [node for node in iter_scope(scope) if isinstance(node, (ast.Assign, ast.AugAssign))]
    arrays, growing = _array_parameters(program, scope, jitted), True
    while growing:
        found = {
            name
            for node in statements
            if not isinstance(node.value, ast.Name) and _is_array(program, node.value, arrays, jitted)
            for target in assignment_targets(node)
            for name in used_names(ast.walk(target))
        }
        growing = not found <= arrays
        arrays |= found
    others = (
        node for node in statements if isinstance(node.value, ast.Name) or not _is_array(program, node.value, arrays, jitted)
    )
    return arrays - {name for node in others for target in assignment_targets(node) for name in used_names(ast.walk(target))}


def _is_array(program: LintContext, node: ast.expr, arrays: set[str], jitted: set[ast.AST]) -> bool:
    """Whether an expression is an array: a call that JAX computes, or arithmetic with an array."""
    if forces_sync(node):
        return False
    if isinstance(node, ast.Call):
        return _calls_device(program, node, jitted)
    if isinstance(node, ast.Name):
        return node.id in arrays
    parts = {ast.BinOp: ("left", "right"), ast.UnaryOp: ("operand",), ast.Compare: ("left",), ast.Subscript: ("value",)}.get(
        type(node), ()
    )
    return any(_is_array(program, getattr(node, part), arrays, jitted) for part in parts)


def _array_parameters(program: LintContext, scope: ast.AST, jitted: set[ast.AST]) -> set[str]:
    """Return the parameters of a function that calls in the module give an array of JAX."""
    if not isinstance(scope, DEFINITIONS):
        return set()
    given = set()
    names = [parameter.arg for parameter in scope.args.args]
    for call in program.source.nodes:
        if isinstance(call, ast.Call) and call.args and program.functions.resolve_function(call.func) is scope:
            for name, argument in zip(names, call.args, strict=False):
                source = program.functions.resolve(argument) if isinstance(argument, ast.Name) else argument
                if isinstance(source, ast.expr) and _is_array(program, source, set(), jitted):
                    given.add(name)
    return given
