"""LP101, LP102, LP103, PF401: what a custom training loop does in every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outpace.tune.lint.message import Level, Message, Rule
from outpace.tune.lint.program import Program
from outpace.tune.lint.source import FUNCTIONS
from outpace.tune.lint.steps import LOOPS, Loop, awaited, described

_TRACE = ("tensorflow.profiler.experimental.Trace",)
_EVERY_FEW = "Do it every few steps (`if step % 100 == 0:`), or keep the tensors and convert them after the epoch."
_ON_A_CPU = (
    "on a machine without accelerator, where the call has finished anyway, or when a step takes much longer than the gap"
)

NUMPY = Rule(
    "LP101",
    Level.WARNING,
    ".numpy() in every step",
    "`.numpy()` waits until the device has computed the value, so that the host cannot prepare the next step meanwhile.",
    'https://www.tensorflow.org/guide/profiler ("minimize host Python operations between steps")',
    _EVERY_FEW,
    _ON_A_CPU,
)
NUMBER = Rule(
    "LP102",
    Level.WARNING,
    "float(), int() or print() of a tensor in every step",
    "Converting or printing a tensor waits until the device has computed it, so that the host cannot prepare the next step meanwhile.",
    'https://www.tensorflow.org/guide/profiler ("calculate metrics every few steps")',
    _EVERY_FEW,
    _ON_A_CPU,
)
EAGER = Rule(
    "LP103",
    Level.WARNING,
    "training step outside tf.function",
    "Run eagerly, every operation of the step goes through Python, and none is fused or pruned.",
    "https://www.tensorflow.org/guide/function",
    "Put the step (forward, gradients, update) into a function decorated with `@tf.function`.",
    "when the step needs Python values in every iteration, or single operations take milliseconds each",
)
TRACE = Rule(
    "PF401",
    Level.WARNING,
    "data is fetched outside the step's Trace",
    "The loop fetches the next element before the step marker begins, so a profile counts the input wait to no step.",
    "https://www.tensorflow.org/guide/profiler#profiling_custom_training_loops (there called an anti-pattern)",
    "Fetch inside the step marker: `with Trace(...): batch = next(iterator)`; or use `outpace.step`, which includes it.",
    "when the loop is never profiled",
)
RULES = (NUMPY, NUMBER, EAGER, TRACE)


def check(program: Program) -> Iterator[Message]:
    """The messages of this file's rules."""
    if program.steps.eager:
        for body in program.steps.training_loops.values():
            names = program.steps.results(body)
            yield from (message for node in body for message in _waits(program, node, names))
        yield from _eager(program)
    yield from _traces(program)


def _waits(program: Program, node: ast.AST, names: set[str]) -> Iterator[Message]:
    if not isinstance(node, ast.Call) or _compiled(program, node):
        return
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("numpy", "item") and not node.args:
        if _tensor(program, node.func.value, names):
            yield program.message(NUMPY, node, f".{node.func.attr}() in every step waits for the device.")
    elif isinstance(node.func, ast.Name) and node.func.id in ("float", "int", "print"):
        given = [*node.args, *(word.value for word in node.keywords)]
        if any(_tensor(program, item, names) for item in given):
            yield program.message(NUMBER, node, f"{node.func.id}() of a tensor in every step waits for the device.")


def _tensor(program: Program, node: ast.expr, names: set[str]) -> bool:
    """Whether an expression holds a tensor of the step that nothing has converted yet."""
    if awaited(node):
        return False
    for item in ast.walk(node):
        if isinstance(item, ast.Name) and item.id in names and not described(program.source, item):
            return True
        if isinstance(item, ast.Call) and (program.steps.is_step_call(item) or _metric(program, item)):
            return True
    return False


def _metric(program: Program, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "result":
        return False
    return program.source.called(program.functions.resolve(call.func.value) or call.func.value).startswith("keras.metrics.")


def _compiled(program: Program, node: ast.AST) -> bool:
    return any(above in program.steps.compiled for above in program.source.above(node) if isinstance(above, FUNCTIONS))


def _eager(program: Program) -> Iterator[Message]:
    steps = program.steps
    called = {steps.method(item.func) for body in steps.training_loops.values() for item in body if isinstance(item, ast.Call)}
    told: set[ast.AST | None] = set()
    for node in program.source.nodes:
        tape = steps.tape(node)
        if (
            tape is None
            or _compiled(program, node)
            or any(steps.tape(above) is not None for above in program.source.above(node))
        ):
            continue
        loop, function = _training_loop(program, node), program.source.function_around(node)
        if (loop or function) in told:
            continue  # a step with several tapes, as of a GAN, is one step
        if loop is not None or (function in called and function in steps.step_functions and function is not None):
            told.add(loop or function)
            yield program.message(EAGER, tape, "This training step runs eagerly, operation by operation, in a Python loop.")


def _training_loop(program: Program, node: ast.AST) -> Loop | None:
    loop = program.steps.loop_around(node)
    return loop if loop is not None and loop in program.steps.training_loops else None


def _traces(program: Program) -> Iterator[Message]:
    for node in program.source.nodes:
        if not isinstance(node, ast.With) or program.steps.loop_around(node) is None:
            continue
        trace = next((item.context_expr for item in node.items if program.source.called(item.context_expr) in _TRACE), None)
        loop = program.source.parents.get(node)
        if trace is None or not isinstance(loop, LOOPS) or not _over_data(program, loop):
            continue
        if not any(
            isinstance(item, ast.Call) and isinstance(item.func, ast.Name) and item.func.id == "next" for item in ast.walk(node)
        ):
            yield program.message(TRACE, trace, "The loop fetches its data outside this step's marker.")


def _over_data(program: Program, loop: Loop) -> bool:
    """Whether a loop fetches something: it runs over anything but numbers."""
    if isinstance(loop, ast.While):
        return False
    name = ast.unparse(loop.iter.func) if isinstance(loop.iter, ast.Call) else ""
    return name.rpartition(".")[2] not in ("range", "trange", "count")
