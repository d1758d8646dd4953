# SPDX-License-Identifier: Apache-2.0
"""A Keras training, or a loop of the user's own: the model, the data set, and how they go together.

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
from outpace.capture.frameworks import keras_backend
from outpace.capture.steps_keras import is_keras_2, steps_per_execution
from outpace.frameworks.keras import STRATEGY
from outpace.tune.program.source import Source

if TYPE_CHECKING:
    from outpace.tune.loop.loop import Loop

_lines: weakref.WeakKeyDictionary[Any, tuple[str, int]] = weakref.WeakKeyDictionary()


def note_compiles(keras: Any) -> None:
    """Note the line of each `compile` from now on."""
    original = keras.Model.compile

    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            place = frames.find_call_site()
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
    if code is None or not frames.is_keras_code(code):
        return None
    python = inspect.unwrap(function.python_function)
    cells = dict(zip(python.__code__.co_freevars, python.__closure__ or (), strict=True))
    return cells["self"].cell_contents if "self" in cells else None


@dataclass(frozen=True, eq=False)
class Program:
    """One call of `fit`, or a loop of the user's own, that was seen to make some steps. Its process
    ends with that.

    model: compiled and built; None where the input alone is tuned. dataset: what it reads, where
    that is the user's own pipeline of tf.data; else None. arguments: the other arguments of `fit`.
    batches: batches in one epoch, None where unknown. spare: the first batch; None where reading it
    would take it away. source: what `fit` reads. remark: why the input alone is tuned.
    step_seconds: of a training step, as it was seen. loop: the user's own, where it is one; then
    there is no `model`. kept: ids of the changes that it has already.
    """

    model: Any
    dataset: Any
    arguments: Mapping[str, Any]
    batches: int | None
    spare: Any
    source: Source
    remark: str = ""
    step_seconds: float | None = None
    loop: Loop | None = None
    kept: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: Any, x: Any, arguments: Mapping[str, Any], step_seconds: float | None, kept: tuple[str, ...]) -> Program:
        """The program of `model.fit(x, **arguments)`. Raises UsageError where its input cannot be
        read.
        """
        source, remark = Source(x, arguments), _step_alone(model)
        tuned = None if remark else model
        return cls(
            tuned, x if source.own else None, arguments, source.batches, source.spare, source, remark, step_seconds, None, kept
        )

    @classmethod
    def of_loop(cls, loop: Loop, kept: tuple[str, ...]) -> Program:
        """Raises UsageError where its data set cannot be read."""
        source = Source(loop.dataset, {})
        spare = source.spare if loop.dataset is not None else None
        batches = source.batches if loop.dataset is not None else None
        return cls(None, loop.dataset, {}, batches, spare, source, "", loop.step_seconds, loop, kept)

    @property
    def own_pipeline(self) -> bool:
        """Whether the user built what it reads by tf.data."""
        return self.dataset is not None

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
    """Why the training step of a model cannot be tuned, so that its input alone is; empty where it
    can.
    """
    if is_keras_2(model):
        return "This fit is Keras 2's: its step is not tuned, its input is."
    if keras_backend() != "tensorflow":
        return f"Keras trains with {keras_backend()} here: Outpace tunes steps of TensorFlow, and the input of any other."
    if STRATEGY.of(model) is not None:
        return "The model was made under tf.distribute: its step is not tuned, its input is."
    return ""
