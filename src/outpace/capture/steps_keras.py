# SPDX-License-Identifier: Apache-2.0
"""Finds the steps of Keras 3 `fit`, `evaluate` and `predict`.

The hook is on `CallbackList`, which every trainer calls around each batch. A callback of Outpace in
the list would run among the user's callbacks instead of around them, and would switch off Keras'
asynchronous callbacks.

With TensorFlow the train function reads from the iterator itself, so that a mark from batch begin
to batch end contains the input. With other backends the batch is fetched before batch begin, so
that there a mark runs from the previous batch's end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from outpace.capture.session import CaptureSession
from outpace.capture.steps_tf import LoopSteps
from outpace.capture.window import StepCandidate
from outpace.frameworks.keras import KERAS_2_STEPS

KINDS = {"train": "keras fit", "test": "keras evaluate", "predict": "keras predict"}


class KerasSteps:
    """Watches Keras batches. Batches of a validation inside `fit` are not counted, because they are
    no training steps.
    """

    def __init__(
        self,
        session: CaptureSession,
        find_loops: Callable[[], LoopSteps | None],
        backend: str,
        first: int = 0,
        mark: bool = True,
        explicit: bool = False,
    ) -> None:
        """Create a watcher for the session's window.

        find_loops: returns the watcher of custom loops, which is paused during Keras batches.
        backend: Keras' backend.
        first: number of the first batch.
        mark: whether steps are marked in the profile.
        explicit: whether the program chose the captured steps itself; predictions are then
            captured, too.
        """
        self._window = session.window
        self._find_loops = find_loops
        self._is_contiguous = backend != "tensorflow"
        framework = "jax" if backend == "jax" else "tensorflow"
        self._steps = {
            kind: StepCandidate(
                mode, mark=kind if mark else None, framework=framework, count=first, predicts=not explicit and kind != "train"
            )
            for kind, mode in KINDS.items()
        }
        self._active_kind: str | None = None

    def install(self, callback_list: Any) -> None:
        """Wrap the batch and phase methods of Keras' callback list."""
        for kind in KINDS:
            wrap_method(callback_list, f"on_{kind}_begin", functools.partial(self.on_phase_begin, kind), None)
            wrap_method(callback_list, f"on_{kind}_end", None, functools.partial(self.on_phase_end, kind))
            begin = functools.partial(self.on_batch_begin, kind)
            wrap_method(callback_list, f"on_{kind}_batch_begin", begin, None)
            wrap_method(callback_list, f"on_{kind}_batch_end", None, functools.partial(self.on_batch_end, kind))

    def on_phase_begin(self, kind: str, callbacks: Any) -> None:
        """Keras begins `fit`, `evaluate` or `predict`, or a validation inside `fit`."""
        self._window.in_keras_fit = True  # set before the first batch, which compiles
        if kind == "train":
            self._window.on_training_begin()
        if kind == "train" or self._active_kind != "train":
            self._window.abandon(self._steps[kind])  # left open by a fit that an exception ended
            self._active_kind = kind
            return
        step = self._steps["train"]
        step.interrupted = step.begin_ns is not None

    def on_phase_end(self, kind: str, callbacks: Any) -> bool:
        """Keras ends a phase; return True for the one whose batches are counted, False for a
        validation inside it.
        """
        if kind != self._active_kind:
            return False
        self._active_kind = None
        self._window.in_keras_fit = False
        self._window.abandon(self._steps[kind])
        return True

    def on_batch_begin(self, kind: str, callbacks: Any) -> None:
        """Keras begins a batch, or a call of several batches."""
        loops = self._find_loops()
        if loops is not None:
            loops.busy = True
        step = self._steps[kind]
        if kind == self._active_kind and not (self._is_contiguous and step.begin_ns is not None):
            step.steps_per_execution = steps_per_execution(getattr(callbacks, "model", None))
            self._window.begin(step)

    def on_batch_end(self, kind: str, callbacks: Any) -> None:
        """Keras ends a batch, or a call of several batches."""
        loops = self._find_loops()
        if loops is not None:
            loops.busy = False
        if kind == self._active_kind:
            self._window.end(self._steps[kind])
            if self._is_contiguous:
                self._window.begin(self._steps[kind])


def wrap_method(owner: Any, name: str, before: Callable[[Any], None] | None, after: Callable[[Any], object] | None) -> None:
    """Replace a method of a class by one that calls functions before and after it, with the
    object.
    """
    original = getattr(owner, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if before is not None:
            before(self)
        result = original(self, *args, **kwargs)
        if after is not None:
            after(self)
        return result

    setattr(owner, name, method)


def steps_per_execution(model: Any) -> int:
    """Return the training steps per call of the compiled function; 1 where the model does not
    define it.
    """
    try:
        count = getattr(model, "steps_per_execution", None) or KERAS_2_STEPS.of(model).numpy()
        return max(1, int(count))
    except (AttributeError, TypeError, ValueError):
        return 1


def is_keras_2(model: Any) -> bool:
    """Whether the model is one of Keras 2 (tf_keras), whose loops mark their steps themselves."""
    return any(kind.__module__.startswith("tf_keras.") for kind in type(model).__mro__)
