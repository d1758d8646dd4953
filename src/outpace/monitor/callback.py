# SPDX-License-Identifier: Apache-2.0
"""The monitor as a Keras callback, for Keras 2 and 3, without importing either.

Keras calls the methods of a callback and requires no base class. A step is measured from the begin
of one batch to the begin of the next: a method at the batch's end would make Keras wait for the
device after each batch on JAX, where Keras runs callbacks in a thread as long as they do not
override that method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from outpace.capture.steps_keras import steps_per_execution
from outpace.frameworks.keras import IS_DEFAULT, Keras2Callback
from outpace.monitor.input_wait import KerasInputClock, set_input_clock

if TYPE_CHECKING:
    from outpace.monitor.step_monitor import StepMonitor


def _unused(self: Any, batch: int, logs: Any = None) -> None:
    """Keras hook of a batch that does nothing."""


setattr(_unused, IS_DEFAULT.name, True)  # Keras recognises by it a method that is not overridden


def _unused_phase(self: Any, logs: Any = None) -> None:
    """Keras hook of a phase that does nothing."""


class KerasHooks(Keras2Callback, ABC):
    """The callback methods that Keras calls. Batches of evaluation and prediction are ignored,
    because they are not training steps.
    """

    _core: StepMonitor
    _dead: bool

    def __init__(self) -> None:
        self.model: Any = None
        self.params: dict[str, Any] = {}
        self._epoch_calls = 0
        self._training = False

    def set_params(self, params: dict[str, Any]) -> None:
        """Called by Keras with its own parameters, such as the number of epochs."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """Called by Keras with the model that is about to train."""
        self.model = model

    def on_train_begin(self, logs: Any = None) -> None:
        """Called by Keras when `fit` begins."""
        self._guard(self._train_begins)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras when an epoch begins; the epoch's first step begins with its first
        batch.
        """
        self._epoch_calls = 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Called by Keras when a batch begins, which ends the step before it."""
        if self._dead or not self._training:
            return
        self._epoch_calls += 1
        try:
            self._core.advance_step()
        except Exception as error:
            self._fail(error)

    def on_test_begin(self, logs: Any = None) -> None:
        """Called by Keras when a validation inside `fit` begins."""
        if self._training:
            self._guard(self._leave_steps)
            if isinstance(self._core.input_clock, KerasInputClock):
                self._core.input_clock.active = False

    def on_test_end(self, logs: Any = None) -> None:
        """Called by Keras when a validation ends."""
        if isinstance(self._core.input_clock, KerasInputClock):
            self._core.input_clock.active = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras when an epoch ends."""
        if self._training:
            self._guard(self._leave_steps)

    def on_train_end(self, logs: Any = None) -> None:
        """Called by Keras when `fit` ends."""
        self._training = False
        set_input_clock(None)
        self.close()

    on_predict_begin = on_predict_end = _unused_phase
    on_batch_begin = on_test_batch_begin = on_predict_batch_begin = _unused
    on_batch_end = on_train_batch_end = on_test_batch_end = on_predict_batch_end = _unused

    def _train_begins(self) -> None:
        """Start the monitor for a `fit`."""
        core = self._core
        core.steps_per_call = steps_per_execution(self.model)
        core.pause()  # the previous `fit` may have ended with an exception
        core.input_clock = KerasInputClock(self.model)
        set_input_clock(core.input_clock)
        self._training = True
        self._start()

    def _leave_steps(self) -> None:
        """End the steps of an epoch. Its last batch has no following batch that ends its step, so
        that it is counted but not timed; an epoch of one batch is timed here.
        """
        if self._core.step_begin_ns is not None and self._epoch_calls == 1:
            self._core.advance_step()
            self._core.pause()
        else:
            self._core.pause(count_step=True)

    def _guard(self, action: Callable[[], None]) -> None:
        """Call a function, and stop the monitor where it raises."""
        if self._dead:
            return
        try:
            action()
        except Exception as error:
            self._fail(error)

    @abstractmethod
    def close(self) -> None:
        """Write the last line and close the files."""

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _fail(self, error: BaseException) -> None: ...
