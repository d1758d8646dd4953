"""TF201 to TF204: Python in a traced function that does not do what it seems to do."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from outpace.tune.lint.message import Level, Message, Rule
from outpace.tune.lint.program import Program
from outpace.tune.lint.source import FUNCTIONS, inside, parameters

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
    Level.WARNING,
    "print in a tf.function",
    "`print` runs while the function is traced, not when it is called: it prints once per trace, and symbolic tensors instead of values.",
    f"{_GUIDE}#executing_python_side_effects",
    "Use `tf.print`, or print outside the function.",
    "when the print is there to show tracing",
)
APPEND = Rule(
    "TF202",
    Level.WARNING,
    "a Python list is changed in a tf.function",
    "The list is changed while the function is traced, not when it is called, and what it gets is a symbolic tensor that cannot be "
    "used outside.",
    f"{_GUIDE}#changing_python_global_and_free_variables",
    "Return the value, or collect values in a `tf.TensorArray` or a `tf.Variable`.",
    "when the list is meant to be filled once, while tracing",
)
FROZEN = Rule(
    "TF203",
    Level.WARNING,
    "Python's random numbers or clock in a traced function",
    "The call runs once, while the function is traced; its value then is a constant of the graph for all steps and elements.",
    f"{_GUIDE}#executing_python_side_effects",
    "Use `tf.random.uniform`, `tf.random.normal` or `tf.timestamp`, which run in every call.",
    "when one value for the whole run is wanted",
)
VARIABLE = Rule(
    "TF204",
    Level.WARNING,
    "tf.Variable is made in a tf.function",
    "A `tf.function` may make variables in its first trace only; every further trace raises ValueError.",
    f"{_GUIDE}#creating_tfvariables",
    "Make the variable outside the function, or once under `if self.v is None:`.",
    "when the function is traced only once, with the variable kept alive elsewhere",
)
RULES = (PRINT, APPEND, FROZEN, VARIABLE)


def check(program: Program) -> Iterator[Message]:
    """The messages of this file's rules."""
    for function in _with_nested(program, program.steps.decorated):
        for node in inside(function):
            if isinstance(node, ast.Call):
                yield from _in_function(program, function, node)
    mapped = [program.functions.resolve(stage.function) for stage in program.chains.stages if stage.op in ("map", "filter")]
    for function in _with_nested(program, [item for item in mapped if isinstance(item, FUNCTIONS)]):
        for node in inside(function):
            if _is_frozen(program, node):
                yield _frozen(program, node, "for all elements")


def _with_nested(program: Program, functions: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Functions and those defined in them, without what `py_function` runs as Python; each once."""
    todo = list(functions)
    seen: set[ast.AST] = set()
    while todo:
        function = todo.pop(0)
        if function not in seen and function not in program.steps.python_functions:
            seen.add(function)
            yield function
            todo += [node for node in inside(function) if isinstance(node, FUNCTIONS)]


def _in_function(program: Program, function: ast.AST, node: ast.Call) -> Iterator[Message]:
    if _is_frozen(program, node):
        yield _frozen(program, node, "for all calls")
    elif program.source.called(node) == "tensorflow.Variable" and not _guarded(program, node):
        yield program.message(
            VARIABLE, node, "A tf.Variable is made inside a tf.function, which fails when it is traced again."
        )
    elif isinstance(node.func, ast.Name) and node.func.id == "print" and "trac" not in ast.unparse(node).lower():
        constant = all(_fixed(item) for item in node.args)
        text = "This print runs while the tf.function is traced, not in every call."
        yield program.message(PRINT, node, text, level=Level.NOTE if constant else None)
    elif (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in ("append", "extend")
        and _foreign(program, function, node.func.value)
    ):
        yield program.message(APPEND, node, "This list is changed while the tf.function is traced, not in every call.")


def _fixed(item: ast.expr) -> bool:
    """Whether tracing knows what is printed: a text, or a tensor's shape or type."""
    shapes = [part for part in ast.walk(item) if isinstance(part, ast.Attribute) and part.attr in ("shape", "dtype")]
    known = {name for part in shapes for name in ast.walk(part.value)}
    return all(name in known for name in ast.walk(item) if isinstance(name, ast.Name))


def _frozen(program: Program, node: ast.AST, scope: str) -> Message:
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return program.message(FROZEN, node, f"{name} runs once, while the function is traced; its value stays the same {scope}.")


def _is_frozen(program: Program, node: ast.AST) -> bool:
    name = program.source.called(node)
    if name.startswith(("numpy.random.", "random.")):
        return name.rpartition(".")[2] not in _SEEDS
    return name.startswith(_CLOCKS) and name.rpartition(".")[2] not in ("sleep", "strftime", "struct_time", "UUID")


def _guarded(program: Program, node: ast.AST) -> bool:
    """Whether the call stands under an `if` or in `tf.init_scope`, so that it need not run in every trace."""
    for above in program.source.above(node):
        if isinstance(above, FUNCTIONS):
            return False
        if isinstance(above, (ast.If, ast.IfExp, ast.With)):
            return True
    return False


def _foreign(program: Program, function: ast.AST, owner: ast.expr) -> bool:
    """Whether a list lives outside the function: an attribute, or a name that no function being traced binds."""
    if isinstance(owner, ast.Attribute):
        return isinstance(owner.value, ast.Name) and owner.value.id == "self"
    if not isinstance(owner, ast.Name):
        return False
    traced = [function]
    for above in program.source.above(function):
        if isinstance(above, FUNCTIONS):
            traced.append(above)
            if function in program.steps.decorated:
                traced.pop()
                break
    return not any(owner.id in program.source.bound(scope) or owner.id in parameters(scope) for scope in traced)
