"""Whether the input holds back a model whose step is not tuned (another backend, `tf.distribute`): one `fit` of Keras on a batch in memory."""

from __future__ import annotations

import importlib
import time
from typing import Any

from outpace._dataclass import dataclass
from outpace.capture.steps_keras import of_keras_2, steps_per_execution

MATTERS = 0.03  # of a step: less is called no difference
_FIRST = 3  # calls that trace and compile
_MOST = 1_000_000  # steps of an epoch that a callback ends


@dataclass(frozen=True)
class Beside:
    """Rates in steps per second: the model alone, on a batch in memory, and the program's input alone."""

    model: float
    input: float

    @property
    def most(self) -> float:
        """The largest share of a step that reading may take: all of it, one after the other with the model."""
        return self.model / (self.model + self.input)

    @property
    def matters(self) -> bool:
        """Whether another input could make a step shorter by what counts."""
        return self.most > MATTERS

    @property
    def sentence(self) -> str:
        """What follows for the program."""
        times = self.input / self.model
        if not self.matters:
            return f"The input alone runs at {times:.0f}x the rate of the model alone: it is not the bottleneck."
        if times >= 1:
            return (
                f"The input alone runs at {times:.1f}x the rate of the model alone: it takes up to {self.most:.0%} of a step."
            )
        return f"The model alone runs at {1 / times:.1f}x the rate of the input alone: the input is the bottleneck."


def fit_rate(model: Any, dataset: Any, seconds: float) -> float:
    """Training steps per second of a `fit` on a data set that is read over and over, without its first steps. Trains the model."""
    keras = importlib.import_module("tf_keras" if of_keras_2(model) else "keras")
    ends: list[float] = []

    def ended(batch: int, logs: Any) -> None:
        ends.append(time.perf_counter())
        model.stop_training = len(ends) > _FIRST and ends[-1] - ends[_FIRST - 1] >= seconds

    clock = keras.callbacks.LambdaCallback(on_train_batch_end=ended)
    model.fit(dataset.repeat(), epochs=1, steps_per_epoch=_MOST, shuffle=False, verbose=0, callbacks=[clock])
    return (len(ends) - _FIRST) * steps_per_execution(model) / (ends[-1] - ends[_FIRST - 1])
