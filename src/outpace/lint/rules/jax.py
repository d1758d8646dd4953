# SPDX-License-Identifier: Apache-2.0
"""JX301 to JX303: JAX functions that are compiled again and again, and results that every iteration
waits for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outpace.lint.context import LintContext, Message, Rule
from outpace.lint.rules.loops import find_file_reads
from outpace.lint.training_loops import LOOP_NODES, Loop, is_short, iter_unconditional
from outpace.pyscope.mutations import assignment_targets
from outpace.pyscope.names import used_names
from outpace.pyscope.nodes import FUNCTIONS

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
_WAITS = ("jax.block_until_ready",)


def check(context: LintContext) -> Iterator[Message]:
    """Yield the messages of this file's rules."""
    if not context.source.imports("jax"):
        return
    found: dict[ast.AST, Message] = {}
    for loop in (node for node in context.source.nodes if isinstance(node, LOOP_NODES)):
        if context.jax_code.is_compiled(loop) or is_short(loop):
            continue
        for message in (*_compilations(context, loop), *_reads(context, loop)):
            if message.node is not None:
                found.setdefault(message.node, message)
    yield from found.values()


def _compilations(program: LintContext, loop: Loop) -> Iterator[Message]:
    """Yield the messages on what is compiled anew in each iteration of a loop over steps, not of
    one over epochs or models: nothing in it loops, and a loop of `lax` hands on what it computed to
    the next iteration.
    """
    code = program.jax_code
    stops = code.compiled_functions | code.functions_with_cache
    reached = list(program.training_loops.iter_reached(iter_unconditional(loop), stops))
    if any(isinstance(node, LOOP_NODES) for node, _ in reached):
        return
    for node, way in reached:
        if code.is_new_jit(node, way) and not any(code.is_loop(other) for other, _ in reached):
            yield program.build_message(JIT, node, f"A new jitted function is compiled in each iteration{_below(way)}.")
        elif way and code.is_new_loop(node) and _carries(program, loop, way[0]):
            text = f"This loop is compiled in each iteration{_below(way)}: its functions are new."
            yield program.build_message(LAX, node, text)


def _carries(program: LintContext, loop: Loop, call: ast.Call) -> bool:
    """Whether a loop assigns what a call returns to a name that the call is given."""
    given = {name for argument in (*call.args, *call.keywords) for name in used_names(ast.walk(argument))}
    for above in program.source.iter_ancestors(call):
        if above is loop:
            break
        if isinstance(above, (ast.Assign, ast.AugAssign)):
            return any(name in given for target in assignment_targets(above) for name in used_names(ast.walk(target)))
    return False


def _below(way: tuple[ast.Call, ...]) -> str:
    return f", for the call in line {way[0].lineno}" if way else ""


def _reads(program: LintContext, loop: Loop) -> Iterator[Message]:
    """Yield the messages on results that each iteration of a loop over steps waits for, and on
    files that it reads: in the loop, and in the functions of the file that it calls.
    """
    code = program.jax_code
    body = list(iter_unconditional(loop, code.runs_step))
    if not any(map(code.runs_step, body)) or _is_seldom(program, loop):
        return
    reached = list(program.training_loops.iter_reached(body, code.compiled_functions, inner_loops=True))
    inner = [node for node, _ in reached if isinstance(node, LOOP_NODES)]
    if any(code.runs_compiled(node) for other in inner for node in iter_unconditional(other)) or any(
        code.is_loop(node) for node, _ in reached if node not in inner
    ):
        return  # a loop over epochs
    if not any(_waits(program, node) for node, _ in reached):
        for node, way in reached:
            if code.reads_number(node) and not code.is_needed_by_host(node):
                yield program.build_message(READ, node, f"Each iteration waits here for a result{_below(way)}.")
    yield from find_file_reads(program, reached)


def _is_seldom(program: LintContext, loop: Loop) -> bool:
    """Whether a loop stands under an `if` of a loop that runs a step in each iteration, as an
    evaluation every few steps does.
    """
    below_if = False
    for above in program.source.iter_ancestors(loop):
        if isinstance(above, FUNCTIONS):
            return False
        if isinstance(above, LOOP_NODES) and below_if:
            return any(map(program.jax_code.runs_step, iter_unconditional(above)))
        below_if = below_if or isinstance(above, ast.If)
    return False


def _waits(program: LintContext, node: ast.AST) -> bool:
    """Whether a node waits for results, and does nothing else: to measure times, say."""
    return isinstance(node, ast.Call) and (
        program.source.called_name(node) in _WAITS or getattr(node.func, "attr", "") == "block_until_ready"
    )
