"""A Keras training as `fit` was asked for it: the model, the data set, and how they go together."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from outpace._dataclass import dataclass
from outpace.capture.choose import keras_backend
from outpace.capture.steps_keras import steps_per_execution
from outpace.model.errors import UsageError
from outpace.tune.program.isolated import isolated
from outpace.tune.program.outside import Outside
from outpace.tune.program.state import Snapshot, layers_of, optimizers_of
from outpace.tune.reason import reason_of


@dataclass(frozen=True, eq=False)
class Program:
    """One call of `fit` that has not begun.

    model: compiled and built; None where the input alone is tuned. dataset: what `fit` would read, an element per batch, without
    repetition. own_pipeline: whether the user built it (else Keras makes it from arrays, and there is no pipeline to change). arguments:
    the other arguments of `fit`. batches: batches in one epoch, None where unknown. spare: the first batch, held in memory. outside: what
    reading the data set changes besides, as it was.
    """

    model: Any
    dataset: Any
    own_pipeline: bool
    arguments: Mapping[str, Any]
    batches: int | None
    spare: Any
    outside: Outside

    @classmethod
    def of(cls, model: Any, x: Any, **arguments: Any) -> Program:
        """The program of `model.fit(x, **arguments)`; builds the model's variables, as `fit` would before its first step.

        Raises UsageError where there is nothing that can be tuned, with the reason.
        """
        if not getattr(model, "compiled", True) or getattr(model, "optimizer", None) is None:
            raise UsageError(
                "The model is not compiled with an optimizer, so there is no training step to tune. Call compile() first."
            )
        if keras_backend() != "tensorflow":
            raise UsageError(f"Keras runs on {keras_backend()}; the steps of models on TensorFlow can be tuned.")
        if getattr(model, "_distribute_strategy", None) is not None:
            raise UsageError(
                "The model was made under tf.distribute; trials run on one device, and would measure another training."
            )
        tf: Any = sys.modules["tensorflow"]
        own = isinstance(x, tf.data.Dataset)
        chance = Snapshot.of(None)
        dataset = x if own else _from_arrays(x, arguments)
        outside = Outside.of(dataset)
        spare = _first(dataset, outside, chance)
        _build(model, spare)
        return cls(model, dataset, own, dict(arguments), _cardinality(dataset), spare, outside)

    @classmethod
    def of_input(cls, dataset: Any) -> Program:
        """The input alone, for whoever reads it; an element is a step's. Raises UsageError for an empty one."""
        outside = Outside.of(dataset)
        return cls(None, dataset, True, {}, _cardinality(dataset), _first(dataset, outside, Snapshot.of(None)), outside)

    @property
    def batch_size(self) -> int | None:
        """Examples in the first batch; None where its elements have no length."""
        shape = tuple(getattr(sys.modules["tensorflow"].nest.flatten(self.spare)[0], "shape", ()))
        return int(shape[0]) if shape else None

    @property
    def steps_per_call(self) -> int:
        """Training steps per call of the compiled function, as the user set it."""
        return steps_per_execution(self.model)

    @property
    def steps(self) -> int | None:
        """Steps that this `fit` will make in all; None where it cannot be known."""
        per_epoch = self.arguments.get("steps_per_epoch") or self.batches
        if per_epoch is None:
            return None
        epochs = int(self.arguments.get("epochs", 1)) - int(self.arguments.get("initial_epoch", 0))
        return int(per_epoch) * max(epochs, 0)


def _first(dataset: Any, outside: Outside, chance: Snapshot) -> Any:
    """The first element, held in memory; what drawing it changed is put back."""
    try:
        element = next(iter(isolated(dataset).take(1)), None)
    finally:
        outside.restore()
        chance.restore()
    if element is None:
        raise UsageError("The data set is empty, so there is no step to measure.")
    return element


def _cardinality(dataset: Any) -> int | None:
    """Elements of one epoch; None where they are not known, or without end."""
    cardinality = int(dataset.cardinality())
    return cardinality if cardinality >= 0 else None


def _from_arrays(x: Any, arguments: dict[str, Any]) -> Any:
    """The data set that Keras makes of arrays; other inputs are refused."""
    from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter, can_convert_arrays

    y, weights = arguments.get("y"), arguments.get("sample_weight")
    if not can_convert_arrays((x, y, weights)):
        raise UsageError(
            f"The input is a {type(x).__name__}; a tf.data.Dataset or arrays can be tuned. "
            "Wrap a generator with tf.data.Dataset.from_generator."
        )
    batch = arguments.get("batch_size") or 32
    adapter = ArrayDataAdapter(x, y, weights, batch_size=batch, shuffle=bool(arguments.get("shuffle", True)))
    return adapter.get_tf_dataset()


def _build(model: Any, batch: Any) -> None:
    """Make all variables, as the first step of `fit` would: what trials change must be there before, to be put back.

    Raises UsageError where only that step itself could make them.
    """
    try:
        model._symbolic_build(data_batch=batch)
    except Exception as error:  # a model with a `train_step` of its own may have no `call`, and take other batches
        unbuilt = [layer.name for layer in layers_of(model) if not layer.built]
        if unbuilt:
            raise UsageError(
                f"The variables of {', '.join(unbuilt)} cannot be made before the first step ({reason_of(error)}), so they could not be put "
                "back after trials. Build the model before fit."
            ) from error
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    unbuilt = [optimizer.name for optimizer in optimizers_of(model) if not optimizer.built]
    if unbuilt:
        raise UsageError(
            f"The model trains with optimizers of its own that have no variables yet ({', '.join(unbuilt)}), so they could not be put back "
            "after trials. Call their build(variables) before fit."
        )
