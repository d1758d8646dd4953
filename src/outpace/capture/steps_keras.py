"""Finds the steps of Keras 3 `fit`, `evaluate` and `predict`.

The hook sits on `CallbackList`, which every trainer calls around each batch: a callback of our own in the list would run
among the user's callbacks instead of around them, and would switch off Keras' asynchronous callbacks.

With TensorFlow the train function pulls from the iterator itself, so a mark from batch begin to batch end holds the input.
With other backends the batch is fetched before batch begin, so there a mark runs from the previous batch's end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from outpace.capture.session import Session
from outpace.capture.steps_tf import LoopSteps
from outpace.capture.window import Candidate

KINDS = {"train": "keras fit", "test": "keras evaluate", "predict": "keras predict"}


class KerasSteps:
    """Watches Keras batches. A validation inside `fit` is not counted: its batches are no training steps."""

    def __init__(self, session: Session, loops: Callable[[], LoopSteps | None], backend: str) -> None:
        """`loops` answers the watcher of custom loops, which rests during Keras batches."""
        self._window = session.window
        self._loops = loops
        self._contiguous = backend != "tensorflow"
        framework = "jax" if backend == "jax" else "tensorflow"
        self._steps = {kind: Candidate(mode, mark=kind, framework=framework) for kind, mode in KINDS.items()}
        self._active: str | None = None

    def install(self, callback_list: Any) -> None:
        """Wrap the batch and phase methods of Keras' callback list."""
        for kind in KINDS:
            self._wrap(callback_list, f"on_{kind}_begin", functools.partial(self._phase_begins, kind), None)
            self._wrap(callback_list, f"on_{kind}_end", None, functools.partial(self._phase_ends, kind))
            begin = functools.partial(self._batch_begins, kind)
            self._wrap(callback_list, f"on_{kind}_batch_begin", begin, None)
            self._wrap(callback_list, f"on_{kind}_batch_end", None, functools.partial(self._batch_ends, kind))

    @staticmethod
    def _wrap(owner: Any, name: str, before: Callable[[Any], None] | None, after: Callable[[Any], None] | None) -> None:
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

    def _phase_begins(self, kind: str, callbacks: Any) -> None:
        if kind == "train" or self._active != "train":
            self._active = kind
            return
        step = self._steps["train"]
        step.interrupted = step.began is not None

    def _phase_ends(self, kind: str, callbacks: Any) -> None:
        if kind == self._active:
            self._active = None
            self._window.abandon(self._steps[kind])

    def _batch_begins(self, kind: str, callbacks: Any) -> None:
        loops = self._loops()
        if loops is not None:
            loops.busy = True
        step = self._steps[kind]
        if kind == self._active and not (self._contiguous and step.began is not None):
            step.steps_per_execution = _steps_per_execution(callbacks)
            self._window.begin(step)

    def _batch_ends(self, kind: str, callbacks: Any) -> None:
        loops = self._loops()
        if loops is not None:
            loops.busy = False
        if kind == self._active:
            self._window.end(self._steps[kind])
            if self._contiguous:
                self._window.begin(self._steps[kind])


def _steps_per_execution(callbacks: Any) -> int:
    """Training steps per call of the compiled function; 1 where the model does not say."""
    try:
        return max(1, int(callbacks.model.steps_per_execution))
    except (AttributeError, TypeError, ValueError):
        return 1
