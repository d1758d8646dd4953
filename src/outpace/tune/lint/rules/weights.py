"""LP104: NumPy work over all weights in every step."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from outpace.tune.lint.message import Level, Message, Rule
from outpace.tune.lint.program import Program
from outpace.tune.lint.steps import described, each_time

WEIGHTS = Rule(
    "LP104",
    Level.WARNING,
    "all weights are copied to NumPy in every step",
    "Every weight is waited for and copied, and NumPy then computes on one core; the next step begins only after that.",
    'https://www.tensorflow.org/guide/profiler ("minimize host Python operations between steps")',
    "Do it every few hundred steps (`if step % 100 == 0:`), or compute it with TensorFlow's ops in the `tf.function` and copy the result only.",
    "when the model is small, or a step takes much longer",
)
RULES = (WEIGHTS,)

_WEIGHTS = (
    "trainable_variables",
    "trainable_weights",
    "weights",
    "variables",
    "non_trainable_variables",
    "non_trainable_weights",
)
_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DEEPEST = 6  # calls from a loop to what it runs


def check(program: Program) -> Iterator[Message]:
    """The messages of this file's rule."""
    if not program.steps.eager:
        return
    told: set[ast.AST] = set()
    for body in (*program.steps.training_loops.values(), *_hooks(program)):
        for node, way in _reached(program, body, ()):
            for read in _reads(program, node):
                if read not in told:
                    told.add(read)
                    called = f", for the call in line {way[0].lineno}" if way else ""
                    yield program.message(WEIGHTS, read, f"All weights are copied to NumPy in every step{called}.")


def _hooks(program: Program) -> Iterator[list[ast.AST]]:
    """What callbacks of Keras run in every batch."""
    for node in program.source.nodes:
        if isinstance(node, ast.ClassDef) and any(
            program.source.qualified(b) == "keras.callbacks.Callback" for b in node.bases
        ):
            hooks = (item for item in node.body if isinstance(item, ast.FunctionDef) and item.name in _HOOKS)
            yield from (list(each_time(item)) for item in hooks)


def _reached(
    program: Program, body: Iterable[ast.AST], way: tuple[ast.Call, ...]
) -> Iterator[tuple[ast.AST, tuple[ast.Call, ...]]]:
    """Nodes that run in every step, those of the file's functions that are called as well, each with the calls that lead to it."""
    for node in body:
        yield node, way
        function = program.steps.method(node.func) if isinstance(node, ast.Call) and len(way) < _DEEPEST else None
        if function is not None and not isinstance(function, ast.Lambda) and function not in program.steps.compiled:
            assert isinstance(node, ast.Call)
            if all(program.steps.method(call.func) is not function for call in way):
                yield from _reached(program, each_time(function), (*way, node))


def _reads(program: Program, node: ast.AST) -> Iterator[ast.AST]:
    """The calls in a node that copy all weights: in a loop over them, or at once."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get_weights":
        yield node
    elif isinstance(node, (ast.For, *_COMPREHENSIONS)):
        iterated = [node.iter] if isinstance(node, ast.For) else [part.iter for part in node.generators]
        inner = ast.walk(node) if isinstance(node, ast.For) and _names(program, node.iter, ("layers",)) else iter(())
        if any(_names(program, item, _WEIGHTS) for item in iterated):
            yield from _converted(program, node)
        for below in inner:
            if below is not node and isinstance(below, (ast.For, *_COMPREHENSIONS)):
                yield from _reads(program, below)


def _names(program: Program, node: ast.expr, attributes: tuple[str, ...]) -> bool:
    """Whether an expression holds one of these attributes of something, also through a name of the file."""
    found = [node, *(program.functions.resolve(item) for item in ast.walk(node) if isinstance(item, ast.Name))]
    return any(
        isinstance(item, ast.Attribute) and item.attr in attributes
        for value in found
        if isinstance(value, ast.expr)
        for item in ast.walk(value)
    )


def _converted(
    program: Program, loop: ast.For | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
) -> Iterator[ast.AST]:
    """The first call in a loop over weights that makes a NumPy array of one."""
    targets = [loop.target] if isinstance(loop, ast.For) else [part.target for part in loop.generators]
    names = {item.id for target in targets for item in ast.walk(target) if isinstance(item, ast.Name)}
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and not isinstance(program.source.function_around(node), ast.Lambda):
            method = isinstance(node.func, ast.Attribute) and node.func.attr == "numpy" and not node.args
            given = node.func.value if method and isinstance(node.func, ast.Attribute) else None
            arguments = [given] if given else node.args if program.source.called(node).startswith("numpy.") else []
            used = (item for arg in arguments for item in ast.walk(arg) if isinstance(item, ast.Name) and item.id in names)
            if any(not described(program.source, item) for item in used):
                yield node
                return
