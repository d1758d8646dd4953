# SPDX-License-Identifier: Apache-2.0
"""Marks at a `fit` of Keras: after each of its batches, at the ends of its epochs, and behind it;
of a longer one a part is made.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from outpace._dataclass import dataclass
from outpace.capture.frameworks import keras_backend
from outpace.tune.same.passes import END, counted_in, due
from outpace.tune.same.shown import Items, Shown, Span, number_of

EPOCH, BATCH = "epoch", "batch"
VALIDATION = 8  # batches of an evaluation inside of it
UNKNOWN = -2  # what TensorFlow says of a data set of which it does not know the size
_FULL = 4  # epochs of which all that is shown of one is affordable
Passed = Callable[[str, int, int, "FrameType | None", dict[str, Any]], None]


@dataclass(frozen=True)
class Cut:
    """What is made of a `fit`: epochs and batches of each, as from and to; none for all."""

    epochs: tuple[Span, ...] = ()
    batches: tuple[Span, ...] = ()


def cut_of(shown: Shown) -> Cut:
    """What is shown of a `fit` that is cut; the more epochs, the fewer batches of each."""
    epochs = shown.spans(EPOCH, 1, False)
    made = sum(end - start for start, end in epochs)
    first = shown.first * _FULL // max(made, _FULL) // shown.every * shown.every
    fewer = Shown(max(first, shown.every), shown.every, shown.numbers, shown.items)
    return Cut(epochs, fewer.spans(BATCH, 1, True))


class Fits:
    """Marks the n-th `fit`. shown: which epochs and batches are made. surveyed: whether batches are
    counted. began: told when it begins. passed: told of each batch that is to be read, and of each
    end of an epoch.  items:
    what the data were seen to give. at: numbers of the epoch and of the batch that are made. made:
    batches. over: told when it is over. between: told of every batch, once it was read, with the
    frame that calls `fit`, and the model.
    """

    def __init__(
        self,
        number: int,
        shown: Shown,
        surveyed: bool,
        began: Callable[[FrameType, Any], None],
        passed: Passed,
    ) -> None:
        self._number, self._shown, self._surveyed, self._began, self._passed = number, shown, surveyed, began, passed
        self._calls, self._model, self._epoch, self._first = 0, None, 0, 0
        self._callbacks: Any = None
        self._counts: list[tuple[Any, Any]] = []  # variables with what they held behind the last batch
        self._cut = Cut()
        self.items: dict[str, list[Items]] = {}
        self.made = 0
        self.skipped = False  # whether epochs or batches are left out, or may be
        self.hidden: set[str] = set()  # what is taken back, in words
        self.over: Callable[[bool], None] = lambda over: None
        self.between: Callable[[FrameType, Any], None] = lambda frame, model: None
        self._frame: Any = None

    def install(self, keras: Any) -> None:
        """Put ourselves before `fit`, and around what it tells callbacks."""
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
            fits._model, fits._frame = self, sys._getframe(1)
            fits._began(fits._frame, self)
            try:
                return original(*call.args, **call.kwargs)
            finally:
                fits.over(True)
                fits._passed("fit", 1, END, fits._frame, {"model": self, "callbacks": fits._callbacks})
                fits._model = None

        keras.Model.fit = fit
        kind = keras.callbacks.CallbackList
        for name in ("on_epoch_begin", "on_epoch_end", "on_train_batch_begin", "on_train_batch_end"):
            self._around(kind, name)
        tested = kind.on_test_begin

        @functools.wraps(tested)
        def on_test_begin(self: Any, logs: Any = None) -> Any:
            if fits._model is not None:
                fits._uncount()
            return tested(self, logs)

        kind.on_test_begin = on_test_begin

    def _around(self, kind: Any, name: str) -> None:
        """Let callbacks see the numbers of the epochs and batches that are made."""
        original, fits = getattr(kind, name), self

        @functools.wraps(original)
        def method(self: Any, at: int, logs: Any = None) -> Any:
            if fits._model is None:
                return original(self, at, logs)
            if name == "on_epoch_end":
                fits._uncount()
            number = fits._numbered(name, at)
            fits.made += name == "on_train_batch_end"
            found = original(self, number, logs)
            if name == "on_train_batch_end":
                fits._counts = [(each, np.asarray(each)) for each in counts_of(fits._model)]
            fits._told(name, at, dict(logs or {}))
            return found

        setattr(kind, name, method)

    def _uncount(self) -> None:
        """Take back what a step has counted that found no data: whether Keras makes one at the end
        of an epoch hangs on how it is compiled, and an optimisation of which that is so says it
        (`optimisations/compiled.py`).
        """
        for variable, held in self._counts:
            if not np.array_equal(np.asarray(variable), held):
                variable.assign(held)
                self.hidden.add("a step without data at the end of each epoch")
        self._counts = []

    def _numbered(self, name: str, at: int) -> int:
        if "epoch" in name:
            return self._first + number_of(self._cut.epochs, at - self._first + 1) - 1
        return number_of(self._cut.batches, at + 1) - 1

    def _told(self, name: str, at: int, logs: dict[str, Any]) -> None:
        held = {"model": self._model, "logs": logs, "callbacks": self._callbacks}
        if name == "on_epoch_end":
            self._passed("epoch", self._numbered(name, at) + 1, END, None, held)
            self._epoch = at + 1
        elif name == "on_train_batch_end":
            made, number = at + 1, self._numbered(name, at) + 1
            ends = itertools.accumulate(end - start for start, end in self._cut.batches)
            read = due(made, self._shown.every, ends) or self._shown.near(number)
            if read and self._epoch & (self._epoch + 1) == 0:
                self._passed("batch", self._epoch + 1, number, None, held)
            self.between(self._frame, self._model)

    def _shorten(self, given: dict[str, Any]) -> None:
        self._epoch = self._first = given["initial_epoch"]
        self._callbacks = given["callbacks"]
        if not self._shown.first:
            return
        if self._surveyed:
            self.items[EPOCH] = [Items(given["epochs"] - self._first, True)]
            self.items[BATCH] = [_batches(given)]
        self._cut = cut_of(self._shown)
        made = sum(end - start for start, end in self._cut.epochs)
        batches = self._shown.end(BATCH, 1)
        self.skipped = (
            self._first + made < given["epochs"]
            or batches is None
            or sum(end - start for start, end in self._cut.batches) < batches
        )
        given["epochs"] = min(given["epochs"], self._first + made)
        _fewer_batches(given, self._cut.batches, self._shown.end(BATCH, 1))
        if given.get("validation_data") is not None and given.get("validation_steps") is None:
            data = given["validation_data"]
            count = batches_of(data[0] if isinstance(data, tuple) else data, given["batch_size"])
            if count is None or count > VALIDATION:
                given["validation_steps"], self.skipped = VALIDATION, True


def counts_of(model: Any) -> list[Any]:
    """Variables of whole numbers that a model of TensorFlow and its optimizer hold: steps, and
    states of random layers. Other backends hand data to a step, and put nothing into the variables
    before an epoch's end.
    """
    if keras_backend() != "tensorflow":
        return []
    found = [getattr(owner, "variables", ()) for owner in (model, getattr(model, "optimizer", None))]
    held = [each for those in found for each in (those() if callable(those) else those)]  # a method of Keras' legacy optimizers
    return [each for each in held if re.match("u?int", getattr(each.dtype, "name", each.dtype))]


def _batches(given: dict[str, Any]) -> Items:
    """How many batches an epoch has, of data that some can be left out of."""
    data, count = given["x"], batches_of(given["x"], given["batch_size"])
    if given["steps_per_epoch"] is not None or given.get("validation_split"):
        return Items(0, False)
    if hasattr(data, "cardinality"):
        return counted_in(iter(data)) if count is not None or int(data.cardinality()) == UNKNOWN else Items(0, False)
    return Items(count, True) if count is not None and (isinstance(data, np.ndarray) or _by_number(data)) else Items(0, False)


def _by_number(data: Any) -> bool:
    """Whether each batch is asked for by its number."""
    return hasattr(data, "num_batches") and hasattr(type(data), "__getitem__")


def _fewer_batches(given: dict[str, Any], spans: tuple[Span, ...], count: int | None) -> None:
    """Leave batches out of an epoch; where their number is not known, those behind the first."""
    made = sum(end - start for start, end in spans)
    if count is None:
        known = batches_of(given["x"], given["batch_size"])
        if given["steps_per_epoch"] is not None:
            given["steps_per_epoch"] = min(given["steps_per_epoch"], made)
        elif known is None or known > made:
            given["steps_per_epoch"] = made
    elif made < count and hasattr(given["x"], "cardinality"):
        given["x"] = _some(given["x"], spans)
    elif made < count and _by_number(given["x"]):
        given["x"] = _some_numbers(given["x"], spans)
    elif made < count:
        size = int(given["batch_size"] or 32)
        rows = np.concatenate([np.arange(start * size, min(end * size, len(given["x"]))) for start, end in spans])
        for name in ("x", "y", "sample_weight"):
            if given.get(name) is not None:
                given[name] = np.asarray(given[name])[rows]


def _some(data: Any, spans: tuple[Span, ...]) -> Any:
    """Some elements of a data set, of which all are drawn."""
    starts, ends = (np.array(each, np.int64)[:, None] for each in zip(*spans, strict=True))

    def shown(at: Any, *_: Any) -> Any:
        tf = sys.modules["tensorflow"]
        return tf.reduce_any((starts <= at) & (at < ends)) | (at >= int(ends.max()))

    found = data.enumerate().filter(shown).map(lambda _, *element: element if len(element) > 1 else element[0])
    if (count := int(data.cardinality())) < 0:
        return found
    kept = sum(max(min(end, count) - start, 0) for start, end in spans) + max(count - spans[-1][1], 0)
    return found.apply(sys.modules["tensorflow"].data.experimental.assert_cardinality(kept))  # as it was known before


def _some_numbers(data: Any, spans: tuple[Span, ...]) -> Any:
    """Some batches of a data set that makes each by its number."""
    numbers = [at for start, end in spans for at in range(start, end)]
    kind: Any = next(each for each in type(data).__mro__ if each.__module__.partition(".")[0] in ("keras", "tf_keras"))

    class Some(kind):  # type: ignore[misc]
        """The same, with fewer batches."""

        def __init__(self) -> None:
            names = ("workers", "use_multiprocessing", "max_queue_size")
            super().__init__(**{name: getattr(data, name) for name in names if hasattr(data, name)})

        def __len__(self) -> int:
            return len(numbers)

        def __getitem__(self, at: int) -> Any:
            return data[numbers[at]]

        def on_epoch_begin(self) -> None:
            """Likewise."""
            getattr(data, "on_epoch_begin", lambda: None)()

        def on_epoch_end(self) -> None:
            """Likewise."""
            data.on_epoch_end()

    return Some()


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
