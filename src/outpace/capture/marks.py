# SPDX-License-Identifier: Apache-2.0
"""`with outpace.step(n): ...` marks one training step in the formats of TensorFlow and JAX, and
warns when the input is read outside the steps.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from types import TracebackType
from typing import Any

from outpace.capture.frameworks import framework_in_use
from outpace.capture.messages import print_message
from outpace.frameworks.tensorflow import ITERATOR_CLASS
from outpace.store.record import StepDurations

MAX_DURATIONS = 500  # number of last steps whose durations are stored
# successive steps with a read before and none inside, after which the advice is printed
OUTSIDE_IN_A_ROW = 3

INPUT_ADVICE = """the data set's iterator is advanced outside outpace.step(), so the wait for input is in no step. Read inside it:
    batches = iter(dataset)
    for n in range(steps):
        with outpace.step(n):
            train_step(next(batches))"""


class step:
    """Marks what runs inside the `with` block as training step `number`, in any profile that is
    being captured.

    Costs a microsecond or two while nothing is captured. The block must hold everything that
    belongs to the step, the read of its input first; when the iterator of a tf.data set is advanced
    between the blocks instead, a message says so once, with the fix.

    Example: `with outpace.step(n): train_step(next(batches))`.
    """

    __slots__ = ("_begin_ns", "_marks", "_name", "_number")

    def __init__(self, number: int, name: str = "train") -> None:
        self._number, self._name = number, name

    def __enter__(self) -> step:
        _input_watch.on_step_begin()
        self._marks = [make(self._name, self._number) for make in _mark_factories()]
        for mark in self._marks:
            mark.__enter__()
        self._begin_ns = time.perf_counter_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _durations.append((self._begin_ns, time.perf_counter_ns() - self._begin_ns))
        for mark in reversed(self._marks):
            mark.__exit__(kind, error, trace)
        _input_watch.on_step_end()


_durations: deque[tuple[int, int]] = deque(maxlen=MAX_DURATIONS)
"""Start (`perf_counter`) and duration of each of the last steps, ns."""


def pop_overhead(begin_s: float, end_s: float) -> StepDurations:
    """Return the durations of marked steps before a capture and inside it, and clear them.

    begin_s, end_s: start and end of the capture, `perf_counter` seconds.

    They are cleared so that steps which one capture slowed down are no baseline of the next
    capture.
    """
    steps, first_ns, last_ns = tuple(_durations), begin_s * 1e9, end_s * 1e9
    _durations.clear()
    before = [ns for begin, ns in steps if begin + ns <= first_ns]
    return StepDurations(tuple(before), tuple(ns for begin, ns in steps if begin >= first_ns and begin + ns <= last_ns))


def _mark_factories() -> list[Any]:
    """Return functions that make a mark, one for each imported framework, the training one first
    (an `outpace profile` counts its marks).
    """
    names = ("jax", "tensorflow") if framework_in_use() == "jax" else ("tensorflow", "jax")
    return [MARK_FACTORIES[name] for name in names if getattr(sys.modules.get(name), "profiler", None) is not None]


def _make_tensorflow_mark(name: str, number: int) -> Any:
    """Return TensorFlow's mark of a step."""
    return sys.modules["tensorflow"].profiler.experimental.Trace(name, step_num=number, _r=1)


def _make_jax_mark(name: str, number: int) -> Any:
    """Return JAX's mark of a step."""
    return sys.modules["jax"].profiler.StepTraceAnnotation(name, step_num=number)


MARK_FACTORIES = {"tensorflow": _make_tensorflow_mark, "jax": _make_jax_mark}
"""Functions that make a mark of a name and a step number, by framework."""


class _InputWatch:
    """Counts reads of tf.data iterators inside and between the steps of one thread."""

    def __init__(self) -> None:
        self._is_hooked = False
        self._advice_printed = False
        self._thread_id = 0
        self._is_inside = False
        self._reads = {True: 0, False: 0}
        self._outside_count = 0

    def on_step_begin(self) -> None:
        """A step begins on this thread."""
        if not self._is_hooked:
            self._is_hooked = self._hook()
        self._thread_id = threading.get_ident()
        self._is_inside = True

    def on_step_end(self) -> None:
        """A step ends: count the steps in a row that were fed from outside, and print the advice
        once.
        """
        self._is_inside = False
        is_outside = self._reads[False] and not self._reads[True]
        self._outside_count = self._outside_count + 1 if is_outside else 0
        self._reads[True] = self._reads[False] = 0
        if self._outside_count == OUTSIDE_IN_A_ROW and not self._advice_printed:
            self._advice_printed = True
            print_message(INPUT_ADVICE)

    def _hook(self) -> bool:
        """Hook the class of tf.data iterators; False while TensorFlow is not imported."""
        kind = ITERATOR_CLASS.value
        if kind is None:
            return "tensorflow" in sys.modules
        original, watch = kind.__next__, self

        def __next__(self: Any) -> Any:
            if threading.get_ident() == watch._thread_id:
                watch._reads[watch._is_inside] += 1
            return original(self)

        kind.__next__ = __next__
        return True


_input_watch = _InputWatch()
