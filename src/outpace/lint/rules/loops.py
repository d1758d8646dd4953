# SPDX-License-Identifier: Apache-2.0
"""LP101 to LP106, PF401: Python code on the host in a training loop."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from outpace.lint.context import LintContext, Message, Rule
from outpace.lint.training_loops import LOOP_NODES, Loop, forces_sync, is_short, iter_unconditional, reads_metadata
from outpace.pyscope.names import used_names
from outpace.pyscope.nodes import COMPREHENSIONS, FUNCTIONS, Comprehension

_TRACE = ("tensorflow.profiler.experimental.Trace",)
_EVERY_FEW = "Do it every few steps (`if step % 100 == 0:`), or keep the tensors and convert them after the epoch."
_ON_A_CPU = (
    "on a machine without accelerator, where the call has finished anyway, or when a step takes much longer than the gap"
)

NUMPY = Rule(
    "LP101",
    ".numpy() in every step",
    "`.numpy()` waits until the device has computed the value, so that the host cannot prepare the next step meanwhile.",
    'https://www.tensorflow.org/guide/profiler ("minimize host Python operations between steps")',
    _EVERY_FEW,
    _ON_A_CPU,
)
NUMBER = Rule(
    "LP102",
    "float(), int() or print() of a tensor in every step",
    "Converting or printing a tensor waits until the device has computed it, so that the host cannot prepare the next step meanwhile.",
    'https://www.tensorflow.org/guide/profiler ("calculate metrics every few steps")',
    _EVERY_FEW,
    _ON_A_CPU,
)
EAGER = Rule(
    "LP103",
    "training step outside tf.function",
    "Run eagerly, every operation of the step goes through Python, and none is fused or pruned.",
    "https://www.tensorflow.org/guide/function",
    "Put the step (forward, gradients, update) into a function decorated with `@tf.function`.",
    "when the step needs Python values in every iteration, or single operations take milliseconds each",
)
TRACE = Rule(
    "PF401",
    "data is fetched outside the step's Trace",
    "The loop fetches the next element before the step marker begins, so a profile counts the input wait to no step.",
    "https://www.tensorflow.org/guide/profiler#profiling_custom_training_loops (there called an anti-pattern)",
    "Fetch inside the step marker: `with Trace(...): batch = next(iterator)`; or use `outpace.step`, which includes it.",
    "when the loop is never profiled",
)


def check(context: LintContext) -> Iterator[Message]:
    """Yield the messages of this file's rules."""
    if context.training_loops.is_eager:
        for body in context.training_loops.loop_bodies.values():
            names = context.training_loops.find_step_tensors(body)
            yield from (message for node in body for message in _wait_messages(context, node, names))
            stops = context.training_loops.graph_functions
            yield from find_file_reads(context, context.training_loops.iter_reached(body, stops))
        yield from _eager(context)
    yield from _traces(context)
    yield from _weights(context)
    yield from _predictions(context)


def _wait_messages(program: LintContext, node: ast.AST, names: set[str]) -> Iterator[Message]:
    if not isinstance(node, ast.Call) or _is_compiled(program, node):
        return
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("numpy", "item") and not node.args:
        if _tensor(program, node.func.value, names):
            yield program.build_message(NUMPY, node, f".{node.func.attr}() in every step waits for the device.")
    elif isinstance(node.func, ast.Name) and node.func.id in ("float", "int", "print"):
        arguments = [*node.args, *(word.value for word in node.keywords)]
        if any(_tensor(program, item, names) for item in arguments):
            yield program.build_message(NUMBER, node, f"{node.func.id}() of a tensor in every step waits for the device.")


def _tensor(program: LintContext, node: ast.expr, names: set[str]) -> bool:
    """Whether an expression contains a tensor of the step that nothing has converted yet."""
    if forces_sync(node):
        return False
    for item in ast.walk(node):
        if isinstance(item, ast.Name) and item.id in names and not reads_metadata(program.source, item):
            return True
        if isinstance(item, ast.Call) and (program.training_loops.is_step_call(item) or _metric(program, item)):
            return True
    return False


def _metric(program: LintContext, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "result":
        return False
    return program.source.called_name(program.functions.resolve(call.func.value) or call.func.value).startswith(
        "keras.metrics."
    )


def _is_compiled(program: LintContext, node: ast.AST) -> bool:
    return any(
        above in program.training_loops.graph_functions
        for above in program.source.iter_ancestors(node)
        if isinstance(above, FUNCTIONS)
    )


def _eager(program: LintContext) -> Iterator[Message]:
    steps = program.training_loops
    called = {
        steps.resolve_method(item.func) for body in steps.loop_bodies.values() for item in body if isinstance(item, ast.Call)
    }
    reported: set[ast.AST | None] = set()
    for node in program.source.nodes:
        tape = steps.gradient_tape(node)
        if (
            tape is None
            or _is_compiled(program, node)
            or any(steps.gradient_tape(above) is not None for above in program.source.iter_ancestors(node))
        ):
            continue
        loop, function = _training_loop(program, node), program.source.enclosing_function(node)
        if (loop or function) in reported:
            continue  # a step with several tapes, as of a GAN, is one step
        if loop is not None or (function in called and function in steps.step_functions and function is not None):
            reported.add(loop or function)
            yield program.build_message(
                EAGER, tape, "This training step runs eagerly, operation by operation, in a Python loop."
            )


def _training_loop(program: LintContext, node: ast.AST) -> Loop | None:
    loop = program.training_loops.enclosing_loop(node)
    return loop if loop is not None and loop in program.training_loops.loop_bodies else None


def _traces(program: LintContext) -> Iterator[Message]:
    for node in program.source.nodes:
        if not isinstance(node, ast.With) or program.training_loops.enclosing_loop(node) is None:
            continue
        trace = next(
            (item.context_expr for item in node.items if program.source.called_name(item.context_expr) in _TRACE), None
        )
        loop = program.source.parents.get(node)
        if trace is None or not isinstance(loop, LOOP_NODES) or not _iterates_data(program, loop):
            continue
        if not any(
            isinstance(item, ast.Call) and isinstance(item.func, ast.Name) and item.func.id == "next" for item in ast.walk(node)
        ):
            yield program.build_message(TRACE, trace, "The loop fetches its data outside this step's marker.")


def _iterates_data(program: LintContext, loop: Loop) -> bool:
    """Whether a loop fetches data: it iterates over anything but numbers."""
    if isinstance(loop, ast.While):
        return False
    name = ast.unparse(loop.iter.func) if isinstance(loop.iter, ast.Call) else ""
    return name.rpartition(".")[2] not in ("range", "trange", "count")


WEIGHTS = Rule(
    "LP104",
    "all weights are copied to NumPy in every step",
    "Every weight is waited for and copied, and NumPy then computes on one core; the next step begins only after that.",
    'https://www.tensorflow.org/guide/profiler ("minimize host Python operations between steps")',
    "Do it every few hundred steps (`if step % 100 == 0:`), or compute it with TensorFlow's ops in the `tf.function` and copy the result only.",
    "when the model is small, or a step takes much longer",
)
_WEIGHTS = (
    "trainable_variables",
    "trainable_weights",
    "weights",
    "variables",
    "non_trainable_variables",
    "non_trainable_weights",
)
_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")


def _weights(program: LintContext) -> Iterator[Message]:
    """Yield the messages of the rule on copies of weights."""
    if not program.training_loops.is_eager:
        return
    reported: set[ast.AST] = set()
    for body in (*program.training_loops.loop_bodies.values(), *_hooks(program)):
        for node, way in program.training_loops.iter_reached(body, program.training_loops.graph_functions):
            for read in _reads(program, node):
                if read not in reported:
                    reported.add(read)
                    called = f", for the call in line {way[0].lineno}" if way else ""
                    yield program.build_message(WEIGHTS, read, f"All weights are copied to NumPy in every step{called}.")


def _hooks(program: LintContext) -> Iterator[list[ast.AST]]:
    """Yield the bodies of Keras callbacks that run in every batch."""
    for node in program.source.nodes:
        if isinstance(node, ast.ClassDef) and any(
            program.source.qualified_name(base) == "keras.callbacks.Callback" for base in node.bases
        ):
            hooks = (item for item in node.body if isinstance(item, ast.FunctionDef) and item.name in _HOOKS)
            yield from (list(iter_unconditional(item)) for item in hooks)


def _reads(program: LintContext, node: ast.AST) -> Iterator[ast.AST]:
    """Yield the calls in a node that copy all weights: in a loop over them, or at once."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get_weights":
        yield node
    elif isinstance(node, (ast.For, *COMPREHENSIONS)):
        iterated = [node.iter] if isinstance(node, ast.For) else [part.iter for part in node.generators]
        inner = ast.walk(node) if isinstance(node, ast.For) and _names(program, node.iter, ("layers",)) else iter(())
        if any(_names(program, item, _WEIGHTS) for item in iterated):
            yield from _conversions(program, node)
        for below in inner:
            if below is not node and isinstance(below, (ast.For, *COMPREHENSIONS)):
                yield from _reads(program, below)


def _names(program: LintContext, node: ast.expr, attributes: tuple[str, ...]) -> bool:
    """Whether an expression contains one of these attributes of any object, also through a name of
    the file.
    """
    values = [node, *(program.functions.resolve(item) for item in ast.walk(node) if isinstance(item, ast.Name))]
    return any(
        isinstance(item, ast.Attribute) and item.attr in attributes
        for value in values
        if isinstance(value, ast.expr)
        for item in ast.walk(value)
    )


def _conversions(program: LintContext, loop: ast.For | Comprehension) -> Iterator[ast.AST]:
    """Yield the first call in a loop over weights that makes a NumPy array of one."""
    targets = [loop.target] if isinstance(loop, ast.For) else [part.target for part in loop.generators]
    names = {name for target in targets for name in used_names(ast.walk(target))}
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and not isinstance(program.source.enclosing_function(node), ast.Lambda):
            method = isinstance(node.func, ast.Attribute) and node.func.attr == "numpy" and not node.args
            receiver = node.func.value if method and isinstance(node.func, ast.Attribute) else None
            arguments = [receiver] if receiver else node.args if program.source.called_name(node).startswith("numpy.") else []
            names_used = (
                item for arg in arguments for item in ast.walk(arg) if isinstance(item, ast.Name) and item.id in names
            )
            if any(not reads_metadata(program.source, item) for item in names_used):
                yield node
                return


PREDICT = Rule(
    "LP105",
    "predict() in a loop",
    "Each call of `predict` makes a data set, an iterator and callbacks: milliseconds before the model computes.",
    "https://keras.io/api/models/model_training_apis/#predict-method (model(x) for small inputs inside loops)",
    "Call the model itself for few examples (`model(x, training=False)`, under `tf.function`), or collect the inputs and predict once.",
    "when each call has many examples",
)
FILES = Rule(
    "LP106",
    "files are read in every step",
    "The step begins only when the file is read and decoded, and the device waits meanwhile.",
    'https://www.tensorflow.org/guide/profiler ("optimize the input data pipeline")',
    "Read ahead: `tf.data` with prefetch, worker processes or a thread that fills a queue; or keep in memory what is read again.",
    "when the files are small, in the page cache, and a step takes much longer",
)
_MODELS = ("keras.Sequential", "keras.Model", "keras.models.load_model", "keras.saving.load_model", "keras.models.clone_model")


_FILE_READERS = (
    *("numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "numpy.fromfile", "pickle.load", "json.load", "pandas.read_csv"),
    *("PIL.Image.open", "cv2.imread", "imageio.imread", "librosa.load", "soundfile.read", "scipy.io.loadmat", "torch.load"),
)


def find_file_reads(program: LintContext, reached: Iterable[tuple[ast.AST, tuple[ast.Call, ...]]]) -> Iterator[Message]:
    """Yield the messages of the rule on files that each step reads. `reached`: nodes that run in
    each step, with the calls that lead to them.
    """
    for node, way in reached:
        if isinstance(node, ast.Call) and program.source.called_name(node) in _FILE_READERS:
            below = f", for the call in line {way[0].lineno}" if way else ""
            yield program.build_message(FILES, node, f"A file is read in every step{below}.")


def _predictions(program: LintContext) -> Iterator[Message]:
    """Yield the messages of the rule on calls of `predict` in loops."""
    for loop in (node for node in program.source.nodes if isinstance(node, LOOP_NODES)):
        body = list(iter_unconditional(loop))
        if any(isinstance(node, LOOP_NODES) or _trains(program, node) for node in body) or is_short(loop):
            continue  # a loop over epochs, models or data sets
        for node in body:
            method = node.func if isinstance(node, ast.Call) else None
            if isinstance(method, ast.Attribute) and method.attr == "predict" and _is_keras_model(program, method.value):
                yield program.build_message(
                    PREDICT, node, "Each call of predict() in this loop makes a data set and callbacks anew."
                )


def _trains(program: LintContext, node: ast.AST) -> bool:
    """Whether a node trains a model for many steps, or makes one."""
    return isinstance(node, ast.Call) and (
        getattr(node.func, "attr", "") in ("fit", "fit_generator") or program.source.called_name(node) in _MODELS
    )


def _is_keras_model(program: LintContext, node: ast.expr) -> bool:
    """Whether an expression names a model that Keras made, as far as the file shows."""
    return program.source.called_name(program.functions.resolve(node)) in _MODELS


RULES = (NUMPY, NUMBER, EAGER, TRACE, WEIGHTS, PREDICT, FILES)
