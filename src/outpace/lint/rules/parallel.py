# SPDX-License-Identifier: Apache-2.0
"""DS101, DS102, DS103, DS106, DS107, DS112: stages that process one element at a time, some of them
as Python code, and what TensorFlow changes about it by itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outpace.lint.calls import BATCHING_OPS, LOADERS, UNBATCHING_OPS
from outpace.lint.context import Edit, Level, LintContext, Message, Rule
from outpace.lint.functions import PYTHON_CALLS, STATEFUL, Trait
from outpace.lint.values import Stage
from outpace.model.units import format_count
from outpace.pyscope.nodes import FUNCTIONS

SMALL_BATCH = (
    8  # below it a small convolutional net spent most of a step outside its kernels (15 against 251 images/s at 1 and 32)
)

PREFETCH = Rule(
    "DS101",
    "no prefetch at the end of the pipeline",
    "Without a prefetch, the input of the next step is made only after this step has ended. TensorFlow adds one by itself "
    "(measured with 2.21), so that the rule speaks only where the file switches that off.",
    "https://www.tensorflow.org/guide/data_performance#prefetching",
    "End the pipeline with `.prefetch(tf.data.AUTOTUNE)`.",
    "when making a batch costs little beside a training step",
)
MAP = Rule(
    "DS102",
    "map without num_parallel_calls",
    "A map without `num_parallel_calls` runs one element at a time. TensorFlow parallelises it by itself when its function is "
    "stateless; random operations, captured variables, lookup tables and Python functions keep it sequential (measured with 2.21). "
    "The rule speaks only of those, and of all maps where the file switches that off.",
    "https://www.tensorflow.org/guide/data_performance#parallelizing_data_transformation",
    "Write `map(f, num_parallel_calls=tf.data.AUTOTUNE)`.",
    "when the map costs little beside a training step",
)
INTERLEAVE = Rule(
    "DS103",
    "interleave without num_parallel_calls",
    "An interleave without `num_parallel_calls` reads its files in turn, on one thread. TensorFlow never changes that by "
    "itself (measured with 2.21).",
    "https://www.tensorflow.org/guide/data_performance#parallelizing_data_extraction",
    "Write `interleave(f, num_parallel_calls=tf.data.AUTOTUNE)`; the order of the elements stays the same.",
    "when the files are few and small, or in the page cache",
)
BATCH = Rule(
    "DS112",
    "a small batch",
    "Each step has costs that do not depend on the batch: Python, the launch of each operation, the transfer. A small batch pays them for few "
    "examples.",
    'https://www.tensorflow.org/guide/profiler ("increase the batch size")',
    "Try a larger batch, with the learning rate adapted to it.",
    "when memory, accuracy or the method itself asks for this batch size",
    Level.NOTE,
)


def check(context: LintContext) -> Iterator[Message]:
    """Yield the messages of this file's rules."""
    yield from _prefetch(context)
    yield from _map(context)
    yield from _interleave(context)
    yield from _batch(context)
    yield from _python_code(context)


def _switches_off(program: LintContext, option: str) -> bool:
    """Whether the file switches off what TensorFlow does to data sets by itself: an option of
    `tf.data.Options().experimental_optimization`, or all of them.
    """
    return any(
        isinstance(node, ast.Assign)
        and getattr(node.value, "value", None) is False
        and any(getattr(target, "attr", "") in (option, "apply_default_optimizations") for target in node.targets)
        for node in program.source.nodes
    )


def _prefetch(program: LintContext) -> Iterator[Message]:
    for _, end in program.datasets.find_uses("fit", "loop") if _switches_off(program, "inject_prefetch") else ():
        ops = [stage.op for stage in end.iter_chain()]
        if (
            end.is_nested
            or "prefetch" in ops
            or "take" in ops
            or len(ops) < 2
            or ops[-1] in LOADERS
            or not isinstance(end.call, ast.Call)
        ):
            continue
        built = program.record_facts.stages(end.call, end.op)
        if any(later.op == "prefetch" for stage in built for later in program.record_facts.iter_downstream(stage)):
            continue
        yield program.build_message(
            PREFETCH, end.call, "The pipeline ends without a prefetch.", edit=_prefetch_edit(program, end.call)
        )


def _prefetch_edit(program: LintContext, call: ast.Call) -> Edit | None:
    if not program.tensorflow_alias or call.end_lineno is None or call.end_col_offset is None:
        return None
    return program.build_insertion(call.end_lineno, call.end_col_offset, f".prefetch({program.tensorflow_alias}.data.AUTOTUNE)")


def _map(program: LintContext) -> Iterator[Message]:
    for stage in program.datasets.stages:
        if stage.op != "map" or {"num_parallel_calls", "**"} & set(stage.arguments):
            continue
        built = program.record_facts.stages(stage.call, "map")
        if any("num_parallel_calls" in record.kwargs for record in built):
            continue
        yield from _sequential_map(program, stage, sorted({kind for record in built for kind in record.stateful}), bool(built))


def _sequential_map(program: LintContext, stage: Stage, kinds: list[str], is_recorded: bool) -> Iterator[Message]:
    """Yield the message on a map without `num_parallel_calls`, where TensorFlow leaves it so.

    kinds: stateful operations that a capture saw in its function.
    """
    traits = program.functions.traits(stage.function)
    stateful = [trait for trait in STATEFUL if trait in traits]
    if kinds:
        evidence = f"its function holds {_list(kinds)}"
        yield program.build_message(MAP, stage.call, _SEQUENTIAL, evidence=evidence, fix=_fix(Trait.RANDOM))
    elif stateful and not is_recorded and not stage.is_nested:
        text = f"This map runs one element at a time: its function {stateful[0].value}, so TensorFlow does not parallelise it by itself."
        yield program.build_message(MAP, stage.call, text, fix=_fix(stateful[0]))
    elif _switches_off(program, "map_parallelization"):
        evidence = "it was built without num_parallel_calls" if is_recorded else ""
        edit = _parallel(program, stage) if is_recorded else None
        yield program.build_message(MAP, stage.call, _SEQUENTIAL, evidence=evidence, edit=edit)


_SEQUENTIAL = "This map runs one element at a time, and TensorFlow does not parallelise it by itself."


def _fix(trait: Trait) -> str:
    if trait is Trait.PYTHON:
        return f"{MAP.fix} Python code still runs on one thread at a time, except where it releases the lock: see DS107."
    if trait is Trait.RANDOM:
        return f"{MAP.fix} The same random numbers then fall on other elements."
    return MAP.fix


def _parallel(program: LintContext, stage: Stage) -> Edit | None:
    if not program.tensorflow_alias:
        return None
    return program.build_argument_edit(stage.call, f"num_parallel_calls={program.tensorflow_alias}.data.AUTOTUNE")


def _interleave(program: LintContext) -> Iterator[Message]:
    for stage in program.datasets.stages:
        if (
            stage.op != "interleave"
            or {"num_parallel_calls", "**"} & set(stage.arguments)
            or stage.constants.get("cycle_length") == 1
        ):
            continue
        built = program.record_facts.stages(stage.call, "interleave")
        if any("num_parallel_calls" in record.kwargs for record in built):
            continue
        evidence = "the stage was built without num_parallel_calls" if built else ""
        text = "This interleave reads its inputs in turn on one thread; TensorFlow does not parallelise it by itself."
        yield program.build_message(INTERLEAVE, stage.call, text, evidence=evidence, edit=_parallel(program, stage))


def _batch(program: LintContext) -> Iterator[Message]:
    for _, end in program.datasets.find_uses("fit", "loop"):
        line = list(end.iter_chain())
        ops = [stage.op for stage in line]
        for number, stage in enumerate(line):
            if stage.op not in BATCHING_OPS or {"take", *BATCHING_OPS, *UNBATCHING_OPS} & set(ops[:number]):
                continue
            built = {record.kwargs.get("batch_size") for record in program.record_facts.stages(stage.call, stage.op)}
            size = built.pop() if len(built) == 1 else stage.constants.get("batch_size")
            if _is_small(size):
                evidence = f"batch_size was {size}" if program.record_facts.stages(stage.call, stage.op) else ""
                yield program.build_message(BATCH, stage.call, f"The batch holds {_examples(size)}.", evidence=evidence)
    for node in program.source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fit":
            size = next(
                (
                    word.value.value
                    for word in node.keywords
                    if word.arg == "batch_size" and isinstance(word.value, ast.Constant)
                ),
                None,
            )
            if _is_small(size) and program.source.imports("tensorflow", "keras", "tf_keras"):
                yield program.build_message(BATCH, node, f"The batch holds {_examples(size)}.")


def _is_small(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and 0 < size < SMALL_BATCH


def _examples(size: object) -> str:
    return format_count(size, "example") if isinstance(size, int) else f"{size} examples"


def _list(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


GENERATOR = Rule(
    "DS106",
    "from_generator",
    "A generator runs as Python code, one element at a time, under the lock that it shares with the training loop; each element is copied into "
    "TensorFlow, and the data set cannot be saved or sent to another process.",
    'https://www.tensorflow.org/guide/profiler ("limit the use of from_generator")',
    "Make the data set of file names or arrays (`from_tensor_slices`, `TFRecordDataset`) and do the work in `map`.",
    "when the generator is cheap beside a training step, or the data can only be had through Python",
)
PYTHON_FUNCTION = Rule(
    "DS107",
    "Python function in the pipeline",
    "`py_function` and `numpy_function` run Python under its lock, one element at a time whatever "
    "`num_parallel_calls` says (except where the code releases the lock); TensorFlow does not parallelise their map by itself, and the "
    "data set cannot be sent to another process.",
    'https://www.tensorflow.org/guide/profiler ("limit the use of tf.py_function")',
    "Use TensorFlow's operations (`tf.io.decode_image`, `tf.image`, `tf.strings`), or do the work once and store the result.",
    "when no TensorFlow operation does this work and it is cheap beside a training step",
)
_SOURCES = ("tensorflow.data.Dataset.from_generator",)


def _python_code(program: LintContext) -> Iterator[Message]:
    """Yield messages about Python code that creates or changes elements."""
    calls_by_function = _stage_functions(program)
    for node in program.source.nodes:
        name = program.source.called_name(node)
        if name in _SOURCES:
            evidence = "the data set was built from a generator" if program.record_facts.stages(node, "from_generator") else ""
            level = Level.NOTE if _writes_records(program, node) else None
            text = "The elements are made by a Python generator, one at a time."
            yield program.build_message(GENERATOR, node, text, evidence=evidence, level=level)
        elif name in PYTHON_CALLS:
            stages = [stage for above in program.source.iter_ancestors(node) for stage in calls_by_function.get(above, ())]
            yield _python_message(program, node, name.rpartition(".")[2], stages)


def _python_message(program: LintContext, node: ast.AST, name: str, stages: list[ast.AST]) -> Message:
    if not stages:
        text = f"{name} runs Python code from inside TensorFlow."
        return program.build_message(
            PYTHON_FUNCTION, node, text, level=Level.NOTE, harmless="outside an input pipeline, when it runs seldom"
        )
    kinds = {kind for stage in stages for record in program.record_facts.stages(stage, "map") for kind in record.stateful}
    evidence = "the map's function holds a Python call" if kinds & {"PyFunc", "EagerPyFunc", "PyFuncStateless"} else ""
    return program.build_message(
        PYTHON_FUNCTION, node, f"{name} runs Python code for every element of the pipeline.", evidence=evidence
    )


def _writes_records(program: LintContext, node: ast.AST) -> bool:
    """Whether the data set is created to be written to files once: the function around it opens a
    writer, or the file has no other purpose.
    """
    scope = program.source.enclosing_function(node) or program.source.tree
    return any(
        isinstance(item, ast.Call) and program.source.called_name(item).endswith(".TFRecordWriter") for item in ast.walk(scope)
    )


def _stage_functions(program: LintContext) -> dict[ast.AST, list[ast.AST]]:
    """Return the functions and lambdas that stages run, including those that these call, each with
    the stages' calls.
    """
    calls: dict[ast.AST, list[ast.AST]] = {}
    for stage in program.datasets.stages:
        function = program.functions.resolve(stage.function)
        todo: list[ast.AST] = [function] if isinstance(function, FUNCTIONS) else []
        visited: set[ast.AST] = set()
        while todo:
            item = todo.pop()
            if item not in visited:
                visited.add(item)
                calls.setdefault(item, []).append(stage.call)
                todo += program.functions.references(item)
    return calls


RULES = (PREFETCH, MAP, INTERLEAVE, BATCH, GENERATOR, PYTHON_FUNCTION)
