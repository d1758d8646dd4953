# SPDX-License-Identifier: Apache-2.0
"""`outpace.Monitor`: a Keras callback, a context manager for loops, or one call per
training step.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import weakref
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TypeVar

from outpace.capture.messages import print_message
from outpace.capture.options import DEFAULT_LOGDIR, CaptureOptions
from outpace.model.errors import UsageError
from outpace.monitor.callback import KerasHooks
from outpace.monitor.input_wait import count_examples as examples_in
from outpace.monitor.slowdown_capture import CaptureLimits
from outpace.monitor.step_monitor import MonitorSettings, StepMonitor

T = TypeVar("T")


class Monitor(KerasHooks):
    """Watches a whole training run: step time, input wait, throughput and memory, at a few
    microseconds per step.

    As a Keras callback:

        model.fit(data, callbacks=[outpace.Monitor("logs")])

    Around a loop of your own, with TensorFlow or JAX:

        with outpace.Monitor("logs") as monitor:
            for batch in monitor.input(dataset):
                with monitor.step():
                    train_step(batch)

    With one call per step: `monitor = outpace.Monitor("logs")`, and `monitor.step_done()` after
    each.

    A step runs from one boundary to the next, so that it contains the wait for its input. Where the
    device works asynchronously, the mean of the step times is right, but not each single one. The
    monitor never raises into the training: when it cannot continue, one line on stderr says why.
    Only the constructor raises UsageError, for impossible settings.

    Args:
        logdir: log directory, a path or a URL that fsspec understands. Numbers go to
            `<logdir>/outpace-monitor/` as JSON lines and TensorBoard scalars, profiles where
            TensorBoard looks for them.
        every: seconds between two lines.
        every_steps: calls of the step after which there is a line in any case.
        warmup: calls that are counted but not timed: tracing, compiling and filling buffers are
            not the steady state.
        batch_size: examples per training step, where it cannot be seen in the input.
        steps_per_call: training steps in one call of your compiled step; read from Keras itself
            (`steps_per_execution`).
        tensorboard: whether to write scalars.
        capture: whether to take a profile when steps slow down.
        ratio: steps are slow when their median stays, for a second at least, above this many
            times the median of the earlier steps, and outside the noise of those.
        capture_steps: maximum number of calls in one profile.
        capture_seconds: maximum length of one profile in seconds.
        cooldown: seconds until the next profile may be taken.
        disk_budget: maximum size of all profiles together in MB (10^6 bytes).
        host_level: the profiler's tracer level of the host, 0 to 3.
        python_level: 1 also records Python calls, where the framework's version supports it.
        device_level: 0 leaves devices out.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str] = DEFAULT_LOGDIR,
        *,
        every: float = 10.0,
        every_steps: int | None = None,
        warmup: int = 10,
        batch_size: int | None = None,
        steps_per_call: int = 1,
        tensorboard: bool = True,
        capture: bool = True,
        ratio: float = 1.5,
        capture_steps: int = 10,
        capture_seconds: float = 2.0,
        cooldown: float = 600.0,
        disk_budget: float = 200.0,
        host_level: int = 2,
        python_level: int = 0,
        device_level: int = 1,
    ) -> None:
        super().__init__()
        limits = CaptureLimits(capture_steps, capture_seconds, cooldown, disk_budget if capture else 0.0)
        options = CaptureOptions(host_level=host_level, python_level=python_level, device_level=device_level)
        settings = MonitorSettings(
            os.fspath(logdir), every, every_steps, warmup, batch_size, tensorboard, ratio, limits, options
        )
        problem = _problem(settings, steps_per_call)
        if problem:
            raise UsageError(problem)
        self._core = StepMonitor(settings)
        self._core.steps_per_call = steps_per_call
        self._step = _Step(self)
        self._dead = False
        _monitors.add(self)

    def __enter__(self) -> Monitor:
        self._start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def input(self, data: Iterable[T]) -> Iterator[T]:
        """Return an iterable over `data` that times the wait for each element. The end of the data
        is the end of an epoch and belongs to no step's time.

        The number of examples in a batch is taken from the first batch.
        """
        return _Input(self, iter(data))

    def step(self) -> _Step:
        """Return a context manager around one training step. An exception inside propagates, and
        that step is not counted.
        """
        return self._step

    def step_done(self) -> None:
        """Mark the end of a training step. The first call only begins the first step, so that what
        ran before it is not counted as one.
        """
        if self._dead:
            return
        try:
            core = self._core
            if not core.running:
                self._start()
            core.advance_step()
        except Exception as error:
            self._fail(error)

    def pause(self) -> None:
        """Exclude the time until the next step (a validation, saving a checkpoint) from all
        steps.
        """
        self._guard(self._core.pause)

    def close(self) -> None:
        """Write the last line and close the files. Called automatically when a `with` block or
        Keras' training ends, and at the end of the process.
        """
        self._guard(self._core.finish)
        atexit.unregister(self.close)

    def _start(self) -> None:
        """Open the files and begin, if the monitor is not running."""
        if self._dead or self._core.running:
            return
        try:
            self._core.start()
        except Exception as error:
            self._fail(error)
            return
        atexit.unregister(self.close)
        atexit.register(self.close)

    def _begin(self, start_ns: int | None = None) -> None:
        """Begin a step, now or at the time `start_ns`."""
        if self._dead:
            return
        try:
            if not self._core.running:
                self._start()
            self._core.begin_step(start_ns)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Stop the monitor after an error of its own, without raising into the training."""
        if self._dead:
            return
        self._dead = True
        print_message(f"monitor: it stops here, and the training goes on without it: {type(error).__name__}: {error}")
        try:
            self._core.abandon()
        except Exception as another:
            print_message(f"monitor: closing its files failed too: {another}")


class _Input(Iterator[T]):
    """Timed iterator over the user's data. It is no generator, because a generator would hold each
    batch until the next one is there.
    """

    __slots__ = ("_iterator", "_monitor", "_size", "_waits")

    def __init__(self, monitor: Monitor, iterator: Iterator[T]) -> None:
        self._monitor, self._iterator = monitor, iterator
        self._waits = monitor._core.input_clock
        self._size: int | None = None

    def __next__(self) -> T:
        began = time.perf_counter_ns()
        try:
            element = next(self._iterator)
        except StopIteration:
            self._monitor.pause()
            raise
        waits = self._waits
        waits.waited_ns += time.perf_counter_ns() - began
        waits.batches += 1
        if self._size is None:
            self._size = examples_in(element)
        waits.examples += self._size
        if self._monitor._core.step_begin_ns is None:
            self._monitor._begin(began)
        return element


class _Step:
    """The context manager of `Monitor.step`. All steps share one object: a new one for each would
    be most of what the monitor costs.
    """

    __slots__ = ("_monitor",)

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    def __enter__(self) -> None:
        monitor = self._monitor
        if monitor._core.step_begin_ns is None:
            monitor._begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self._monitor.step_done()
        else:
            self._monitor.pause()


def _problem(settings: MonitorSettings, steps_per_call: int) -> str | None:
    """Return a sentence on what makes these settings impossible, or None."""
    limits = settings.limits
    least = {
        "every": (settings.every, 0.0),
        "capture_seconds": (limits.seconds, 0.0),
        "every_steps": (1 if settings.every_steps is None else settings.every_steps, 0),
        "capture_steps": (limits.steps, 0),
        "steps_per_call": (steps_per_call, 0),
        "ratio": (settings.ratio, 1.0),
    }
    wrong = next((name for name, (value, above) in least.items() if not value > above), None)
    if wrong:
        return f"{wrong} is {least[wrong][0]:g}: give more than {least[wrong][1]:g}."
    negative = {"warmup": settings.warmup, "cooldown": limits.cooldown, "disk_budget": limits.megabytes}
    wrong = next((name for name, value in negative.items() if value < 0), None)
    return f"{wrong} is negative: give 0 or more." if wrong else None


_monitors: weakref.WeakSet[Monitor] = weakref.WeakSet()


def _disable_in_fork() -> None:
    """Disable the monitor in a forked child, which does not train and must not write into its
    parent's files.
    """
    for monitor in list(_monitors):
        monitor._dead = True


if sys.platform != "win32":  # Windows has no fork
    os.register_at_fork(after_in_child=_disable_in_fork)
