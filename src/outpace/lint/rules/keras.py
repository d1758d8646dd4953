# SPDX-License-Identifier: Apache-2.0
"""LP110 to LP113, KR301: arguments and calls of Keras."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from outpace.lint.context import Edit, Level, LintContext, Message, Rule

MIN_UPDATE_BATCHES = 10  # minimum batches between TensorBoard updates; more often, it would write in most steps

BOARD = Rule(
    "LP110",
    "TensorBoard writes in every batch",
    "With `update_freq='batch'` the callback reads the metrics from the device and writes them to a file after every step; "
    "histograms read all weights once an epoch.",
    'https://www.tensorflow.org/guide/profiler ("reduce callbacks", "calculate metrics every few steps")',
    "Use `update_freq='epoch'` or a number in the hundreds, and `histogram_freq=0` once it is not needed.",
    "when a step takes much longer than the writing",
)
EAGER = Rule(
    "LP111",
    "run_eagerly is on",
    "With `run_eagerly` no graph is built: every operation of every step goes through Python.",
    "https://keras.io/api/models/model_training_apis/ (run_eagerly)",
    "Take it out once debugging is done.",
    "while debugging",
)
RECURRENT = Rule(
    "LP112",
    "recurrent_dropout is on",
    "With `recurrent_dropout` an LSTM or GRU masks its state in each step of the sequence, and cannot use cuDNN's kernel (measured on a "
    "CPU: 138 ms a step, 59 ms without).",
    "https://keras.io/api/layers/recurrent_layers/lstm/ (requirements of the cuDNN implementation)",
    "Use `dropout` (of the inputs) instead, or a dropout layer between the recurrent layers.",
    "when the model needs it and the sequences are short",
)
VALIDATION = Rule(
    "LP113",
    "the validation is larger than the training",
    "`fit` validates after each epoch, over all examples of the validation: one that is larger than the training takes most of the time "
    "between two epochs' ends.",
    "https://keras.io/api/models/model_training_apis/#fit-method (validation_freq, validation_steps, validation_batch_size)",
    "Validate a part (`validation_steps`), every few epochs (`validation_freq`), or in larger batches (`validation_batch_size`).",
    "when few epochs are trained",
)
SCALED = Rule(
    "KR301",
    "loss scaling of Keras 2",
    "`get_scaled_loss` and `get_unscaled_gradients` are gone in Keras 3 (TensorFlow 2.16 and later): "
    "the call raises AttributeError.",
    "https://keras.io/api/optimizers/loss_scale_optimizer/",
    "Use `optimizer.scale_loss(loss)` and `optimizer.apply_gradients(...)`, which unscales the gradients itself.",
    "with TensorFlow before 2.16, or with tf_keras (`TF_USE_LEGACY_KERAS=1`)",
)
RULES = (BOARD, EAGER, RECURRENT, VALIDATION, SCALED)
_LARGEST_VALIDATION = 1.0  # ratio of validation to training above which it is named
_RECURRENT_LAYERS = ("keras.layers.LSTM", "keras.layers.GRU")
_SCALING = ("get_scaled_loss", "get_unscaled_gradients")
_SWITCHES = ("tensorflow.config.run_functions_eagerly", "tensorflow.config.experimental_run_functions_eagerly")


def check(context: LintContext) -> Iterator[Message]:
    """Yield the messages of this file's rules."""
    if not context.source.imports("tensorflow", "keras", "tf_keras"):
        return
    lacks_scaling = _lacks_scaling(context)
    for node in context.source.nodes:
        if isinstance(node, ast.Call):
            yield from _call(context, node)
            if lacks_scaling and isinstance(node.func, ast.Attribute) and node.func.attr in _SCALING:
                evidence = "the capture ran with Keras 3" if context.record_facts.package_version("keras") else ""
                yield context.build_message(SCALED, node, f"{node.func.attr} does not exist in Keras 3.", evidence=evidence)
        elif isinstance(node, ast.Assign) and _is_true(node.value) and getattr(node.targets[0], "attr", "") == "run_eagerly":
            yield _eager(context, node.targets[0], node.value)


def _call(program: LintContext, node: ast.Call) -> Iterator[Message]:
    name = program.source.called_name(node)
    if name == "keras.callbacks.TensorBoard":
        yield from _board(program, node)
    elif name in _RECURRENT_LAYERS:
        yield from _recurrent(program, node)
    elif name in _SWITCHES and node.args and _is_true(node.args[0]):
        yield _eager(program, node, node.args[0])
    elif isinstance(node.func, ast.Attribute) and node.func.attr == "fit":
        yield from _validation(program, node)
    elif isinstance(node.func, ast.Attribute) and node.func.attr == "compile" and name != "re.compile":
        for word in node.keywords:
            if word.arg == "run_eagerly" and _is_true(word.value):
                yield _eager(program, node, word.value)


def _board(program: LintContext, node: ast.Call) -> Iterator[Message]:
    constants = {word.arg: word.value.value for word in node.keywords if isinstance(word.value, ast.Constant)}
    often, histograms = constants.get("update_freq"), constants.get("histogram_freq")
    if often == "batch" or (type(often) is int and 0 < often < MIN_UPDATE_BATCHES):
        when = "every batch" if often in ("batch", 1) else f"every {often} batches"
        yield program.build_message(BOARD, node, f"TensorBoard writes metrics after {when}.")
    elif type(histograms) is int and histograms > 0:
        text = "TensorBoard computes histograms of all weights, at the end of an epoch."
        yield program.build_message(BOARD, node, text, level=Level.NOTE, harmless="when epochs are long")


def _recurrent(program: LintContext, node: ast.Call) -> Iterator[Message]:
    arguments = {word.arg: word.value for word in node.keywords}
    rate = arguments.get("recurrent_dropout")
    has_no_kernel = _is_true(arguments.get("unroll")) or "activation" in arguments or "recurrent_activation" in arguments
    if rate is not None and not (isinstance(rate, ast.Constant) and not rate.value) and not has_no_kernel:
        yield program.build_message(
            RECURRENT, node, "This layer masks its state in each step of the sequence, and cannot use cuDNN's kernel."
        )


def _validation(program: LintContext, node: ast.Call) -> Iterator[Message]:
    numbers: dict[str | None, float] = {}
    for word in node.keywords:
        value = getattr(program.functions.resolve(word.value) or word.value, "value", None)
        if isinstance(value, (int, float)):
            numbers[word.arg] = value
    split, steps, trained = (numbers.get(name, 0) for name in ("validation_split", "validation_steps", "steps_per_epoch"))
    ratio = split / (1 - split) if 0 < split < 1 else steps / trained if trained else 0.0
    if ratio > _LARGEST_VALIDATION and numbers.get("validation_freq", 1) < ratio:
        text = f"After each epoch of training, {ratio:.2g} times as many examples are validated."
        yield program.build_message(VALIDATION, node, text)


def _eager(program: LintContext, node: ast.AST, value: ast.expr) -> Message:
    first = program.build_insertion(value.lineno, value.col_offset, "False")
    edit = Edit(first.line, first.column, first.line, first.column + len("True"), "False")
    if any(isinstance(above, (ast.If, ast.IfExp)) for above in program.source.iter_ancestors(node)):
        return program.build_message(
            EAGER, node, "Under this test every operation runs eagerly: no graph is built.", level=Level.NOTE
        )
    return program.build_message(EAGER, node, "Every operation runs eagerly: no graph is built.", edit=edit)


def _is_true(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _lacks_scaling(program: LintContext) -> bool:
    """Whether Keras 2's loss scaling is missing: not where an old Keras is known to run, or the
    file defines its own.
    """
    version = program.record_facts.package_version("keras")
    if version is not None:
        return version >= (3,)
    if program.source.imports("tf_keras") or "TF_USE_LEGACY_KERAS" in program.source.text:
        return False
    return not any(isinstance(node, ast.FunctionDef) and node.name in _SCALING for node in program.source.nodes)
