# SPDX-License-Identifier: Apache-2.0
"""The private names of Keras that Outpace uses."""

from __future__ import annotations

from functools import partial
from typing import Any

from outpace.frameworks.private import PrivateName

NAMES: list[PrivateName] = []
PACKAGE = "keras.src"
_Name = partial(PrivateName, NAMES, PACKAGE)

FOLDER = "/keras/src/"
# Keys in a saved model's configuration that are no part of it: an address, and how it is run.
RUNTIME_KEYS = ("shared_object_id", "steps_per_execution", "jit_compile", "run_eagerly")
TRACEBACK_FILE = _Name("utils.traceback_utils").file  # wraps Keras' functions, and shortens what they raise
LAYER_CALL_FILES = tuple(_Name(module).file for module in ("layers.layer", "ops.operation", "backend.tensorflow.trainer"))

NAME_SCOPE = _Name("backend.tensorflow.core", "name_scope")
ENDS_SCOPE = _Name("backend.tensorflow.core", "_pop_on_exit")  # of a name scope
START_BATCH_TRACE = _Name("callbacks.tensorboard", "backend.tensorboard.start_batch_trace")
IS_DEFAULT = _Name("utils.python_utils", "_is_default")  # of a callback's method that nobody has overridden
ITERATE_JAX = _Name("backend.jax.trainer", "JAXEpochIterator._get_iterator")
EPOCH_ITERATOR = _Name("trainers.epoch_iterator", "EpochIterator")
SPLIT_VALIDATION = _Name("trainers.data_adapters.array_slicing", "train_validation_split")
WRITERS = tuple(_Name("models.model", f"Model.{name}") for name in ("save", "save_weights", "export"))

LOSS_METRICS = (_Name("trainers.trainer", "_loss_tracker"), _Name("trainers.trainer", "_compile_loss"))  # of a model
STRATEGY = _Name("backend.tensorflow.trainer", "_distribute_strategy")  # of a model
LAYERS = _Name("layers.layer", "_layers")  # of a layer or model
READERS = _Name("ops.operation", "_outbound_nodes")  # of a layer: the nodes of what reads its output
VARIABLES = _Name("optimizers.base_optimizer", "_trainable_variables")  # of an optimizer: those that it updates
KERAS_2_STEPS = PrivateName(NAMES, "tf_keras.src", "engine.training", "_steps_per_execution")  # of a model
_FLATTEN_LAYERS = _Name("layers.layer", "_flatten_layers")


class Keras2Callback:
    """What Keras 2 asks a callback to learn whether it has to call its batch methods, and whether
    it may leave logs on the device.
    """

    _supports_tf_logs = True

    def _implements_train_batch_hooks(self) -> bool:
        return True

    def _implements_test_batch_hooks(self) -> bool:
        return False

    _implements_predict_batch_hooks = _implements_test_batch_hooks


def layers_of(model: Any) -> list[Any]:
    """Return all layers of a model, those inside others too."""
    return list(_FLATTEN_LAYERS.of(model)(include_self=False))
