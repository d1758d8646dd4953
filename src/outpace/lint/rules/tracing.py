# SPDX-License-Identifier: Apache-2.0
"""TF201 to TF206: Python in a traced function that does not do what it seems to do, and functions
that are traced again and again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from outpace.lint.context import Level, LintContext, Message, Rule
from outpace.lint.training_loops import LOOP_NODES, Loop
from outpace.model.units import Unit, format_count, humanize
from outpace.pyscope.names import stored_names, used_names
from outpace.pyscope.nodes import FUNCTIONS, Function, iter_scope, parameter_names
from outpace.store.record import FunctionTrace

_GUIDE = "https://www.tensorflow.org/guide/function"
_CLOCKS = ("time.", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "uuid.")
_SEEDS = (
    "seed",
    "default_rng",
    "RandomState",
    "Random",
    "SystemRandom",
    "get_state",
    "set_state",
    "Generator",
    "SeedSequence",
    "sleep",
)

PRINT = Rule(
    "TF201",
    "print in a tf.function",
    "`print` runs while the function is traced, not when it is called: it prints once per trace, and symbolic tensors instead of values.",
    f"{_GUIDE}#executing_python_side_effects",
    "Use `tf.print`, or print outside the function.",
    "when the print is there to show tracing",
)
APPEND = Rule(
    "TF202",
    "a Python list is changed in a tf.function",
    "The list is changed while the function is traced, not when it is called, and what it gets is a symbolic tensor that cannot be "
    "used outside.",
    f"{_GUIDE}#changing_python_global_and_free_variables",
    "Return the value, or collect values in a `tf.TensorArray` or a `tf.Variable`.",
    "when the list is meant to be filled once, while tracing",
)
FROZEN = Rule(
    "TF203",
    "Python's random numbers or clock in a traced function",
    "The call runs once, while the function is traced; its value then is a constant of the graph for all steps and elements.",
    f"{_GUIDE}#executing_python_side_effects",
    "Use `tf.random.uniform`, `tf.random.normal` or `tf.timestamp`, which run in every call.",
    "when one value for the whole run is wanted",
)
VARIABLE = Rule(
    "TF204",
    "tf.Variable is made in a tf.function",
    "A `tf.function` may make variables in its first trace only; every further trace raises ValueError.",
    f"{_GUIDE}#creating_tfvariables",
    "Make the variable outside the function, or once under `if self.v is None:`.",
    "when the function is traced only once, with the variable kept alive elsewhere",
)


def check(context: LintContext) -> Iterator[Message]:
    """Yield the messages of this file's rules."""
    for function in _with_nested(context, context.training_loops.tf_functions):
        for node in iter_scope(function):
            if isinstance(node, ast.Call):
                yield from _in_function(context, function, node)
    mapped = [context.functions.resolve(stage.function) for stage in context.datasets.stages if stage.op in ("map", "filter")]
    for function in _with_nested(context, [item for item in mapped if isinstance(item, FUNCTIONS)]):
        for node in iter_scope(function):
            if _is_frozen(context, node):
                yield _frozen_message(context, node, "for all elements")
    yield from _repeated_tracing(context)


def _with_nested(program: LintContext, functions: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield functions and those defined in them, each once, without those that `py_function` runs
    as Python.
    """
    todo = list(functions)
    visited: set[ast.AST] = set()
    while todo:
        function = todo.pop(0)
        if function not in visited and function not in program.training_loops.python_functions:
            visited.add(function)
            yield function
            todo += [node for node in iter_scope(function) if isinstance(node, FUNCTIONS)]


def _in_function(program: LintContext, function: ast.AST, node: ast.Call) -> Iterator[Message]:
    if _is_frozen(program, node):
        yield _frozen_message(program, node, "for all calls")
    elif program.source.called_name(node) == "tensorflow.Variable" and not _is_guarded(program, node):
        yield program.build_message(
            VARIABLE, node, "A tf.Variable is made inside a tf.function, which fails when it is traced again."
        )
    elif isinstance(node.func, ast.Name) and node.func.id == "print" and "trac" not in ast.unparse(node).lower():
        constant = all(_is_static(item) for item in node.args)
        text = "This print runs while the tf.function is traced, not in every call."
        yield program.build_message(PRINT, node, text, level=Level.NOTE if constant else None)
    elif (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in ("append", "extend")
        and _is_outer_list(program, function, node.func.value)
    ):
        yield program.build_message(APPEND, node, "This list is changed while the tf.function is traced, not in every call.")


def _is_static(item: ast.expr) -> bool:
    """Whether the printed value is known at tracing: a text, or a tensor's shape or type."""
    shapes = [part for part in ast.walk(item) if isinstance(part, ast.Attribute) and part.attr in ("shape", "dtype")]
    static = {name for part in shapes for name in ast.walk(part.value)}
    return all(name in static for name in ast.walk(item) if isinstance(name, ast.Name))


def _frozen_message(program: LintContext, node: ast.AST, scope: str) -> Message:
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return program.build_message(
        FROZEN, node, f"{name} runs once, while the function is traced; its value stays the same {scope}."
    )


def _is_frozen(program: LintContext, node: ast.AST) -> bool:
    name = program.source.called_name(node)
    if name.startswith(("numpy.random.", "random.")):
        return name.rpartition(".")[2] not in _SEEDS
    return name.startswith(_CLOCKS) and name.rpartition(".")[2] not in ("sleep", "strftime", "struct_time", "UUID")


def _is_guarded(program: LintContext, node: ast.AST) -> bool:
    """Whether the call stands under an `if` or in `tf.init_scope`, so that it need not run in every
    trace.
    """
    for above in program.source.iter_ancestors(node):
        if isinstance(above, FUNCTIONS):
            return False
        if isinstance(above, (ast.If, ast.IfExp, ast.With)):
            return True
    return False


def _is_outer_list(program: LintContext, function: ast.AST, owner: ast.expr) -> bool:
    """Whether a list lives outside the function: an attribute, or a name that no function being
    traced binds.
    """
    if isinstance(owner, ast.Attribute):
        return isinstance(owner.value, ast.Name) and owner.value.id == "self"
    if not isinstance(owner, ast.Name):
        return False
    traced = [function]
    for above in program.source.iter_ancestors(function):
        if isinstance(above, FUNCTIONS):
            traced.append(above)
            if function in program.training_loops.tf_functions:
                traced.pop()
                break
    return not any(owner.id in program.source.bound_names(scope) or owner.id in parameter_names(scope) for scope in traced)


MIN_TRACES = 5  # TensorFlow itself warns from the fifth trace of five calls on
_RETRACING = "https://www.tensorflow.org/guide/function#controlling_retracing"

SCALAR = Rule(
    "TF205",
    "a Python number that changes is passed to a tf.function",
    "A Python number is part of what a trace is made for: each new value builds a new graph (measured with 2.21; "
    "`reduce_retracing` does not help, an `input_signature` does).",
    _RETRACING,
    "Pass a tensor: `tf.constant(step)` or `tf.range`; or give the function an `input_signature`.",
    "when the values are few and the loop is long",
)
IN_LOOP = Rule(
    "TF206",
    "tf.function is made in a loop",
    "Every `tf.function(...)` starts without any graph: made in a loop, it is traced in every iteration.",
    _RETRACING,
    "Make the function once, before the loop.",
    "when every iteration trains another model",
)


def _repeated_tracing(program: LintContext) -> Iterator[Message]:
    """Functions that are traced again and again."""
    reported: set[ast.AST] = set()
    for node in program.source.nodes:
        if isinstance(node, ast.Call) and program.training_loops.enclosing_loop(node) is not None:
            function = program.training_loops.resolve_method(node.func)
            if function is not None and function in program.training_loops.tf_functions:
                for message in _scalars(program, node, function):
                    reported.add(function)
                    yield message
            if program.source.called_name(node) == "tensorflow.function" and _wraps_same(program, node):
                yield program.build_message(
                    IN_LOOP, node, "This tf.function is created and traced again in every iteration of the loop."
                )
        elif isinstance(node, ast.FunctionDef) and node in program.training_loops.tf_functions and _over_dataset(program, node):
            yield program.build_message(
                IN_LOOP, node, "This tf.function is created and traced again in every iteration of the loop."
            )
    for function in program.training_loops.tf_functions:
        traces = program.record_facts.traces(function)
        changing = _changing_parameters(traces)
        if function not in reported and changing and len(traces) >= MIN_TRACES:
            yield program.build_message(SCALAR, function, _retrace_text(changing), evidence=_trace_evidence(traces))


def _scalars(program: LintContext, node: ast.Call, function: Function) -> Iterator[Message]:
    if _signature(program, function):
        return
    traces = program.record_facts.traces(function)
    if traces and len(traces) < MIN_TRACES:
        return  # it ran, and was not traced again and again
    for item in [*node.args, *(word.value for word in node.keywords)]:
        counts = _loop_counter(program, node, item)
        if counts is None:
            continue
        name, few = counts
        if traces:
            yield program.build_message(SCALAR, node, _retrace_text(f"`{name}`"), evidence=_trace_evidence(traces))
        else:
            yield program.build_message(SCALAR, node, _retrace_text(f"`{name}`"), level=Level.NOTE if few else None)
        return


def _retrace_text(what: str) -> str:
    return f"{what} is a Python number here: each new value makes TensorFlow trace the function again."


def _trace_evidence(traces: list[FunctionTrace]) -> str:
    seconds = sum(trace.duration_ns for trace in traces) / 1e9
    return f"traced {format_count(len(traces), 'time')}, {humanize(seconds * 1e12, Unit.PS)} in all"


def _changing_parameters(traces: list[FunctionTrace]) -> str:
    """Parameters that came as different Python values."""
    values: dict[str, set[str]] = {}
    for trace in traces:
        for name, text in trace.arguments.items():
            if text.startswith("Literal["):
                values.setdefault(name, set()).add(text)
    return ", ".join(f"`{name}`" for name, texts in values.items() if len(texts) >= MIN_TRACES)


def _loop_counter(program: LintContext, node: ast.Call, item: ast.expr) -> tuple[str, bool] | None:
    """The name of a loop's counter that an argument is, and whether it takes few values only."""
    if not isinstance(item, ast.Name):
        return None
    for above in program.source.iter_ancestors(node):
        if isinstance(above, ast.For) and item.id in _counters(above) and not _is_rebound(program, above, item.id):
            return item.id, _has_few_values(above)
        if isinstance(above, LOOP_NODES) and _is_counted_up(program, above, item.id):
            return item.id, False
        if isinstance(above, FUNCTIONS):
            return None
    return None


def _counters(loop: ast.For) -> list[str]:
    """Names in a loop's target that are Python numbers: those of `range` and the first of
    `enumerate`.
    """
    name = ast.unparse(loop.iter.func).rpartition(".")[2] if isinstance(loop.iter, ast.Call) else ""
    if ast.unparse(loop.iter).startswith(("tf.", "np.", "numpy.")):
        return []
    if name in ("range", "trange") and isinstance(loop.target, ast.Name):
        return [loop.target.id]
    if name == "enumerate" and isinstance(loop.target, ast.Tuple) and isinstance(loop.target.elts[0], ast.Name):
        inner = loop.iter.args[0] if isinstance(loop.iter, ast.Call) and loop.iter.args else None
        return [loop.target.elts[0].id] if inner is not None else []
    return []


def _is_rebound(program: LintContext, loop: Loop, name: str) -> bool:
    return list(stored_names(ast.walk(loop))).count(name) > 1


def _has_few_values(loop: ast.For) -> bool:
    """Whether `range` runs over few values, as far as they are written out."""
    call = loop.iter
    if not isinstance(call, ast.Call) or not call.args or ast.unparse(call.func) == "enumerate":
        return False
    stop = call.args[0] if len(call.args) == 1 else call.args[1]
    return isinstance(stop, ast.Constant) and isinstance(stop.value, int) and stop.value < MIN_TRACES


def _is_counted_up(program: LintContext, loop: Loop, name: str) -> bool:
    """Whether a loop counts a name up by a whole number, from a whole number."""
    added = any(
        isinstance(item, ast.AugAssign)
        and isinstance(item.target, ast.Name)
        and item.target.id == name
        and isinstance(item.value, ast.Constant)
        for item in ast.walk(loop)
    )
    scope = program.source.enclosing_function(loop) or program.source.tree
    starts = [
        item
        for item in ast.walk(scope)
        if isinstance(item, ast.Assign) and any(isinstance(target, ast.Name) and target.id == name for target in item.targets)
    ]
    return (
        added
        and bool(starts)
        and all(isinstance(start.value, ast.Constant) and isinstance(start.value.value, int) for start in starts)
    )


def _signature(program: LintContext, function: Function) -> bool:
    wrapping = program.training_loops.tf_functions[function]
    return isinstance(wrapping, ast.Call) and any(word.arg == "input_signature" for word in wrapping.keywords)


def _wraps_same(program: LintContext, node: ast.Call) -> bool:
    """Whether `tf.function(f)` in a loop wraps the same thing in every iteration."""
    loop = program.training_loops.enclosing_loop(node)
    if (
        loop is None
        or not node.args
        or any(node in getattr(above, "decorator_list", ()) for above in program.source.iter_ancestors(node))
    ):
        return False
    changed = set(stored_names(ast.walk(loop)))
    changed |= {item.name for item in ast.walk(loop) if isinstance(item, (ast.FunctionDef, ast.ClassDef))}
    names = set(used_names(ast.walk(node.args[0]))) - set(parameter_names(node.args[0]))
    return not names & changed


def _over_dataset(program: LintContext, function: ast.FunctionDef) -> bool:
    """Whether a function is defined in every iteration of a loop over a data set."""
    loop = program.training_loops.enclosing_loop(function)
    return loop is not None and any(use.kind == "loop" and use.node is loop for use in program.datasets.uses)


RULES = (PRINT, APPEND, FROZEN, VARIABLE, SCALAR, IN_LOOP)
