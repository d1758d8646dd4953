"""DS106, DS107: Python code that makes or changes elements."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outpace.lint.functions import PYTHON_CALLS
from outpace.lint.message import Level, Message, Rule
from outpace.lint.program import Program
from outpace.lint.source import FUNCTIONS

GENERATOR = Rule(
    "DS106",
    Level.WARNING,
    "from_generator",
    "A generator runs as Python code, one element at a time, under the lock that it shares with the training loop; each element is copied into "
    "TensorFlow, and the data set cannot be saved or sent to another process.",
    'https://www.tensorflow.org/guide/profiler ("limit the use of from_generator")',
    "Make the data set of file names or arrays (`from_tensor_slices`, `TFRecordDataset`) and do the work in `map`.",
    "when the generator is cheap beside a training step, or the data can only be had through Python",
)
FUNCTION = Rule(
    "DS107",
    Level.WARNING,
    "Python function in the pipeline",
    "`py_function` and `numpy_function` run Python under its lock, one element at a time whatever "
    "`num_parallel_calls` says (except where the code releases the lock); TensorFlow does not parallelise their map by itself, and the "
    "data set cannot be sent to another process.",
    'https://www.tensorflow.org/guide/profiler ("limit the use of tf.py_function")',
    "Use TensorFlow's operations (`tf.io.decode_image`, `tf.image`, `tf.strings`), or do the work once and store the result.",
    "when no TensorFlow operation does this work and it is cheap beside a training step",
)
RULES = (GENERATOR, FUNCTION)
_SOURCES = ("tensorflow.data.Dataset.from_generator",)


def check(program: Program) -> Iterator[Message]:
    """The messages of this file's rules."""
    piped = _piped(program)
    for node in program.source.nodes:
        name = program.source.called(node)
        if name in _SOURCES:
            seen = "the data set was built from a generator" if program.facts.stages(node, "from_generator") else ""
            level = Level.NOTE if _writes_records(program, node) else None
            text = "The elements are made by a Python generator, one at a time."
            yield program.message(GENERATOR, node, text, seen=seen, level=level)
        elif name in PYTHON_CALLS:
            stages = [stage for above in program.source.above(node) for stage in piped.get(above, ())]
            yield _python(program, node, name.rpartition(".")[2], stages)


def _python(program: Program, node: ast.AST, name: str, stages: list[ast.AST]) -> Message:
    if not stages:
        text = f"{name} runs Python code from inside TensorFlow."
        return program.message(
            FUNCTION, node, text, level=Level.NOTE, harmless="outside an input pipeline, when it runs seldom"
        )
    kinds = {kind for stage in stages for found in program.facts.stages(stage, "map") for kind in found.stateful}
    seen = "the map's function holds a Python call" if kinds & {"PyFunc", "EagerPyFunc", "PyFuncStateless"} else ""
    return program.message(FUNCTION, node, f"{name} runs Python code for every element of the pipeline.", seen=seen)


def _writes_records(program: Program, node: ast.AST) -> bool:
    """Whether the data set is made to be written to files once: the function around it opens a writer, or the file is about nothing else."""
    scope = program.source.function_around(node) or program.source.tree
    return any(
        isinstance(item, ast.Call) and program.source.called(item).endswith(".TFRecordWriter") for item in ast.walk(scope)
    )


def _piped(program: Program) -> dict[ast.AST, list[ast.AST]]:
    """The functions and lambdas that stages run, with what they call, each with the stages' calls."""
    found: dict[ast.AST, list[ast.AST]] = {}
    for stage in program.chains.stages:
        function = program.functions.resolve(stage.function)
        todo: list[ast.AST] = [function] if isinstance(function, FUNCTIONS) else []
        seen: set[ast.AST] = set()
        while todo:
            item = todo.pop()
            if item not in seen:
                seen.add(item)
                found.setdefault(item, []).append(stage.call)
                todo += program.functions.references(item)
    return found
