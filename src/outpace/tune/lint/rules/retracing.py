"""TF205, TF206: a `tf.function` that is traced again and again."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outpace.model.units import Unit, counted, humanize
from outpace.store.record import FunctionTrace
from outpace.tune.lint.message import Level, Message, Rule
from outpace.tune.lint.program import Program
from outpace.tune.lint.source import Function, parameters
from outpace.tune.lint.steps import LOOPS, Loop

FEW = 5  # TensorFlow itself warns from the fifth trace of five calls on
_GUIDE = "https://www.tensorflow.org/guide/function#controlling_retracing"

SCALAR = Rule(
    "TF205",
    Level.WARNING,
    "a Python number that changes is passed to a tf.function",
    "A Python number is part of what a trace is made for: each new value builds a new graph (measured with 2.21; "
    "`reduce_retracing` does not help, an `input_signature` does).",
    _GUIDE,
    "Pass a tensor: `tf.constant(step)` or `tf.range`; or give the function an `input_signature`.",
    "when the values are few and the loop is long",
)
IN_LOOP = Rule(
    "TF206",
    Level.WARNING,
    "tf.function is made in a loop",
    "Every `tf.function(...)` starts without any graph: made in a loop, it is traced in every iteration.",
    _GUIDE,
    "Make the function once, before the loop.",
    "when every iteration trains another model",
)
RULES = (SCALAR, IN_LOOP)


def check(program: Program) -> Iterator[Message]:
    """The messages of this file's rules."""
    told: set[ast.AST] = set()
    for node in program.source.nodes:
        if isinstance(node, ast.Call) and program.steps.loop_around(node) is not None:
            function = program.steps.method(node.func)
            if function is not None and function in program.steps.decorated:
                for message in _scalars(program, node, function):
                    told.add(function)
                    yield message
            if program.source.called(node) == "tensorflow.function" and _same_each_time(program, node):
                yield program.message(
                    IN_LOOP, node, "This tf.function is created and traced again in every iteration of the loop."
                )
        elif isinstance(node, ast.FunctionDef) and node in program.steps.decorated and _over_dataset(program, node):
            yield program.message(IN_LOOP, node, "This tf.function is created and traced again in every iteration of the loop.")
    for function in program.steps.decorated:
        traces = program.facts.traces(function)
        changing = _changing(traces)
        if function not in told and changing and len(traces) >= FEW:
            yield program.message(SCALAR, function, _retraced(changing), seen=_counted(traces))


def _scalars(program: Program, node: ast.Call, function: Function) -> Iterator[Message]:
    if _signature(program, function):
        return
    traces = program.facts.traces(function)
    if traces and len(traces) < FEW:
        return  # it ran, and was not traced again and again
    for item in [*node.args, *(word.value for word in node.keywords)]:
        counts = _counts(program, node, item)
        if counts is None:
            continue
        name, few = counts
        if traces:
            yield program.message(SCALAR, node, _retraced(f"`{name}`"), seen=_counted(traces))
        else:
            yield program.message(SCALAR, node, _retraced(f"`{name}`"), level=Level.NOTE if few else None)
        return


def _retraced(what: str) -> str:
    return f"{what} is a Python number here: each new value makes TensorFlow trace the function again."


def _counted(traces: list[FunctionTrace]) -> str:
    seconds = sum(trace.duration_ns for trace in traces) / 1e9
    return f"traced {counted(len(traces), 'time')}, {humanize(seconds * 1e12, Unit.PS)} in all"


def _changing(traces: list[FunctionTrace]) -> str:
    """Parameters that came as different Python values."""
    values: dict[str, set[str]] = {}
    for trace in traces:
        for name, text in trace.arguments.items():
            if text.startswith("Literal["):
                values.setdefault(name, set()).add(text)
    return ", ".join(f"`{name}`" for name, found in values.items() if len(found) >= FEW)


def _counts(program: Program, node: ast.Call, item: ast.expr) -> tuple[str, bool] | None:
    """The name of a loop's counter that an argument is, and whether it takes few values only."""
    if not isinstance(item, ast.Name):
        return None
    for above in program.source.above(node):
        if isinstance(above, ast.For) and item.id in _counters(above) and not _rebound(program, above, item.id):
            return item.id, _few(above)
        if isinstance(above, LOOPS) and _counted_up(program, above, item.id):
            return item.id, False
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return None
    return None


def _counters(loop: ast.For) -> list[str]:
    """Names in a loop's target that are Python numbers: those of `range` and the first of `enumerate`."""
    name = ast.unparse(loop.iter.func).rpartition(".")[2] if isinstance(loop.iter, ast.Call) else ""
    if ast.unparse(loop.iter).startswith(("tf.", "np.", "numpy.")):
        return []
    if name in ("range", "trange") and isinstance(loop.target, ast.Name):
        return [loop.target.id]
    if name == "enumerate" and isinstance(loop.target, ast.Tuple) and isinstance(loop.target.elts[0], ast.Name):
        inner = loop.iter.args[0] if isinstance(loop.iter, ast.Call) and loop.iter.args else None
        return [loop.target.elts[0].id] if inner is not None else []
    return []


def _rebound(program: Program, loop: Loop, name: str) -> bool:
    stores = [n for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)]
    return len(stores) > 1


def _few(loop: ast.For) -> bool:
    """Whether `range` runs over few values, as far as they are written out."""
    call = loop.iter
    if not isinstance(call, ast.Call) or not call.args or ast.unparse(call.func) == "enumerate":
        return False
    stop = call.args[0] if len(call.args) == 1 else call.args[1]
    return isinstance(stop, ast.Constant) and isinstance(stop.value, int) and stop.value < FEW


def _counted_up(program: Program, loop: Loop, name: str) -> bool:
    """Whether a loop counts a name up by a whole number, from a whole number."""
    added = any(
        isinstance(n, ast.AugAssign)
        and isinstance(n.target, ast.Name)
        and n.target.id == name
        and isinstance(n.value, ast.Constant)
        for n in ast.walk(loop)
    )
    scope = program.source.function_around(loop) or program.source.tree
    starts = [
        n
        for n in ast.walk(scope)
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in n.targets)
    ]
    return added and bool(starts) and all(isinstance(n.value, ast.Constant) and isinstance(n.value.value, int) for n in starts)


def _signature(program: Program, function: Function) -> bool:
    wrapping = program.steps.decorated[function]
    return isinstance(wrapping, ast.Call) and any(word.arg == "input_signature" for word in wrapping.keywords)


def _same_each_time(program: Program, node: ast.Call) -> bool:
    """Whether `tf.function(f)` in a loop wraps the same thing in every iteration."""
    loop = program.steps.loop_around(node)
    if (
        loop is None
        or not node.args
        or any(node in getattr(above, "decorator_list", ()) for above in program.source.above(node))
    ):
        return False
    changed = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    changed |= {n.name for n in ast.walk(loop) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    used = {n.id for n in ast.walk(node.args[0]) if isinstance(n, ast.Name)} - set(parameters(node.args[0]))
    return not used & changed


def _over_dataset(program: Program, function: ast.FunctionDef) -> bool:
    """Whether a function is defined in every iteration of a loop over a data set."""
    loop = program.steps.loop_around(function)
    return loop is not None and any(use.kind == "loop" and use.node is loop for use in program.chains.uses)
