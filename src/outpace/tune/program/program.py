"""A Keras training as `fit` was asked for it, or a loop of the user's own: the model, the data set, and how they go together.

Scripts may compile more than once: the user's line of the last `compile` of each model is noted.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from outpace._dataclass import dataclass
from outpace.capture import frames
from outpace.capture.choose import keras_backend
from outpace.capture.steps_keras import of_keras_2, steps_per_execution
from outpace.model.errors import UsageError
from outpace.tune.program.source import Feed, Source
from outpace.tune.program.state import layers_of, optimizers_of
from outpace.tune.reason import reason_of

if TYPE_CHECKING:
    from outpace.tune.loop.loop import Loop

_lines: weakref.WeakKeyDictionary[Any, tuple[str, int]] = weakref.WeakKeyDictionary()


def note_compiles(keras: Any) -> None:
    """Note the line of each `compile` from now on."""
    original = keras.Model.compile

    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            place = frames.caller()
            if place is not None:
                _lines[self] = place.file, place.line
        return original(self, *args, **kwargs)

    keras.Model.compile = compile


def compiled_at(model: Any) -> tuple[str, int] | None:
    """File and line; None where nobody noted it."""
    return _lines.get(model)


def keras_model(function: Any) -> Any:
    """The Keras model whose own `tf.function` this is; None for another function."""
    code = frames.code_of(function)
    if code is None or not frames.in_keras(code):
        return None
    python = inspect.unwrap(function.python_function)
    cells = dict(zip(python.__code__.co_freevars, python.__closure__ or (), strict=True))
    return cells["self"].cell_contents if "self" in cells else None


@dataclass(frozen=True, eq=False)
class Program:
    """One call of `fit` that has not begun, or a loop of the user's own that stands at the begin of a step.

    model: compiled and built; None where the input alone is tuned. dataset: what `fit` would read, an element per batch, without
    repetition. own_pipeline: whether the user built it (else Keras makes it of another input, and there is no pipeline to change).
    arguments: the other arguments of `fit`. batches: batches in one epoch, None where unknown. spare: the first batch, held in memory.
    remark: why the input alone is tuned, where that was not asked for; `untuned` is the model then.
    step_seconds: of a training step as it is, once it was measured. loop: the user's own, where it is one; then there is no `model`.
    kept: ids of what the fastest variant so far has, and its step's time.
    """

    model: Any
    dataset: Any
    own_pipeline: bool
    arguments: Mapping[str, Any]
    batches: int | None
    spare: Any
    source: Source
    remark: str = ""
    step_seconds: float | None = None
    untuned: Any = None
    loop: Loop | None = None
    kept: tuple[str, ...] = ()
    kept_seconds: float | None = None

    @classmethod
    def of(cls, model: Any, x: Any, **arguments: Any) -> Program:
        """The program of `model.fit(x, **arguments)`, in a process that ends with the trials; builds the model's variables, as `fit` would
        before its first step, or by one where only that can. Raises UsageError where there is nothing that can be tuned, with the reason.
        """
        if not getattr(model, "compiled", True):
            raise UsageError("The model is not compiled, so there is no training step to tune. Call compile() first.")
        source = Source(x, arguments)
        remark = _step_alone(model)
        spare = _first(source)
        untuned = model if remark else None
        if remark:
            model = None
        else:
            _build(model, spare, source)
        known = (dict(arguments), source.batches, spare, source, remark)
        return cls(model, source.dataset, source.own, *known, untuned=untuned)

    @classmethod
    def of_input(cls, dataset: Any) -> Program:
        """The input alone, for whoever reads it; an element is a step's. Raises UsageError for an empty one."""
        source = Source(dataset, {})
        return cls(None, dataset, True, {}, source.batches, _first(source), source)

    @classmethod
    def of_loop(cls, loop: Loop) -> Program:
        """A loop whose process ends with the trials. Raises UsageError where its data set is empty."""
        source = Source(loop.dataset, {})
        if loop.dataset is None:
            return cls(None, None, False, {}, None, None, source, loop=loop)
        return cls(None, loop.dataset, True, {}, source.batches, _first(source), source, loop=loop)

    def feed(self, dataset: Any | None = None) -> Feed:
        """What a trial reads of a data set, by default the program's own."""
        return self.source.feed(self.dataset if dataset is None else dataset)

    @property
    def trains(self) -> bool:
        """Whether its training is tuned, and not its input alone."""
        return self.model is not None or self.loop is not None

    @property
    def limited(self) -> bool:
        """Whether its training and its input can be measured alone."""
        return self.trains and (self.loop is None or self.own_pipeline)

    @property
    def batch_size(self) -> int | None:
        """Examples in the first batch; None where its elements have no length, or are not known."""
        if self.spare is None:
            return None
        shape = tuple(getattr(sys.modules["tensorflow"].nest.flatten(self.spare)[0], "shape", ()))
        return int(shape[0]) if shape else None

    @property
    def steps_per_call(self) -> int:
        """Training steps per call of the compiled function, as the user set it."""
        return steps_per_execution(self.model)

    @property
    def steps(self) -> int | None:
        """Steps that this `fit` will make in all; None where it cannot be known, as of a loop."""
        if self.loop is not None:
            return None
        per_epoch = self.arguments.get("steps_per_epoch") or self.batches
        if per_epoch is None:
            return None
        epochs = int(self.arguments.get("epochs", 1)) - int(self.arguments.get("initial_epoch", 0))
        return int(per_epoch) * max(epochs, 0)


def _step_alone(model: Any) -> str:
    """Why the training step of a model cannot be tuned, so that its input alone is; empty where it can."""
    if of_keras_2(model):
        return "This fit is Keras 2's: its step is not tuned, its input is."
    if keras_backend() != "tensorflow":
        return f"Keras trains with {keras_backend()} here: Outpace tunes steps of TensorFlow, and the input of any other."
    if getattr(model, "_distribute_strategy", None) is not None:
        return "The model was made under tf.distribute: its step is not tuned, its input is."
    return ""


def _first(source: Source) -> Any:
    """The first element, held in memory."""
    try:
        element = next(iter(source.feed(source.dataset).dataset.take(1)), None)
    except UsageError:
        raise
    except Exception as error:  # the script would meet it in its own first step
        raise UsageError(f"The input fails before its first batch: {reason_of(error)}.") from error
    if element is None:
        raise UsageError("The data set is empty, so there is no step to measure.")
    return element


def _step_once(model: Any, source: Source) -> None:
    """Make all variables by a first training step, where they are not there before: nothing of it is put back."""
    kept, model.train_function = model.train_function, None
    try:
        function = model.make_train_function(force=True) or model.train_function
        function(iter(source.feed(source.dataset).dataset.repeat()))
    finally:
        model.train_function = kept


def _build(model: Any, batch: Any, source: Source) -> None:
    """Make all variables, as the first step of `fit` would, by that step where only it can."""
    with contextlib.suppress(Exception):  # a model with a `train_step` of its own may have no `call`, and take other batches
        model._symbolic_build(data_batch=batch)
    if all(layer.built for layer in layers_of(model)):
        if model.optimizer is not None and not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        if all(optimizer.built for optimizer in optimizers_of(model)):
            return
    _step_once(model, source)
