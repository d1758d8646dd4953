"""Marks at a `fit` of Keras: after each of its batches, at the ends of its epochs, and behind it; it ends after some epochs and batches."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from outpace.tune.same.passes import END, due

EPOCHS = 2
VALIDATION = 8  # batches of an evaluation inside of it
Passed = Callable[[str, int, int, "FrameType | None", dict[str, Any]], None]


class Fits:
    """Marks the n-th `fit`. cut: batches of an epoch, 0 for all. every: batches of a call, at whose ends it is read. began: told when it
    begins. passed: told of each batch that is to be read, and of each end of an epoch."""

    def __init__(self, number: int, cut: int, every: int, began: Callable[[FrameType, Any], None], passed: Passed) -> None:
        self._number, self._cut, self._every, self._began, self._passed = number, cut, every, began, passed
        self._calls, self._model, self._epoch = 0, None, 0
        self.made = 0

    def install(self, keras: Any) -> None:
        """Put ourselves before `fit`, and behind what it tells callbacks."""
        original, fits = keras.Model.fit, self
        signature = inspect.signature(original)

        @functools.wraps(original)
        def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
            fits._calls += 1
            if fits._calls != fits._number:
                return original(self, *args, **kwargs)
            call = signature.bind(self, *args, **kwargs)
            call.apply_defaults()
            fits._shorten(call.arguments)
            fits._model, frame = self, sys._getframe(1)
            fits._began(frame, self)
            try:
                return original(*call.args, **call.kwargs)
            finally:
                fits._passed("fit", 1, END, frame, {"model": self})
                fits._model = None

        keras.Model.fit = fit
        kind = keras.callbacks.CallbackList
        for name in ("on_train_batch_end", "on_epoch_end"):
            self._after(kind, name)

    def _after(self, kind: Any, name: str) -> None:
        original, fits = getattr(kind, name), self

        @functools.wraps(original)
        def method(self: Any, at: int, logs: Any = None) -> Any:
            found = original(self, at, logs)
            if fits._model is not None:
                fits._told(name, at, dict(logs or {}))
            return found

        setattr(kind, name, method)

    def _told(self, name: str, at: int, logs: dict[str, Any]) -> None:
        held = {"model": self._model, "logs": logs}
        if name == "on_epoch_end":
            self._passed("epoch", at + 1, END, None, held)
            self._epoch = at + 1
            return
        self.made = made = at + 1
        if self._epoch & (self._epoch + 1) == 0 and (due(made, self._every) or made == self._cut):
            self._passed("batch", self._epoch + 1, made, None, held)

    def _shorten(self, given: dict[str, Any]) -> None:
        self._epoch = given["initial_epoch"]
        if not self._cut:
            return
        given["epochs"] = min(given["epochs"], given["initial_epoch"] + EPOCHS)
        count = batches_of(given["x"], given["batch_size"])
        if given["steps_per_epoch"] is None and (count is None or count > self._cut):
            given["steps_per_epoch"] = self._cut
        elif given["steps_per_epoch"] is not None:
            given["steps_per_epoch"] = min(given["steps_per_epoch"], self._cut)
        if given.get("validation_data") is not None and given.get("validation_steps") is None:
            data = given["validation_data"]
            count = batches_of(data[0] if isinstance(data, tuple) else data, given["batch_size"])
            if count is None or count > VALIDATION:
                given["validation_steps"] = VALIDATION


def batches_of(data: Any, size: Any) -> int | None:
    """How many batches an epoch has; None where that is not known, or without an end."""
    if hasattr(data, "cardinality"):
        count = int(data.cardinality())
        return count if count >= 0 else None
    if hasattr(data, "num_batches"):
        count = data.num_batches
        return None if count is None else int(count)
    first = (
        next(iter(data.values()), None)
        if isinstance(data, dict)
        else data[0]
        if isinstance(data, (list, tuple)) and data
        else data
    )
    shape = getattr(first, "shape", None)
    return -(-int(shape[0]) // int(size or 32)) if shape else None
