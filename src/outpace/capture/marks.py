"""`with outpace.step(n): ...` marks one training step, in TensorFlow's way and in JAX's, and looks
after the input.
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

MAX_DURATIONS = 500  # kept, of the last steps
OUTSIDE_IN_A_ROW = 3  # steps that read nothing, with a read before each, until it is no accident

INPUT_ADVICE = """the data set's iterator is advanced outside outpace.step(), so the wait for input is in no step. Read inside it:
    batches = iter(dataset)
    for n in range(steps):
        with outpace.step(n):
            train_step(next(batches))"""


class step:
    """Marks what runs inside the `with` block as training step `number`, in any profile that is
    being captured.

    Costs a microsecond or two while nothing is captured. Let the block hold everything that belongs
    to the step, the read of its input first of all; when the iterator of a tf.data set is advanced
    between the blocks instead, that is said once, with the fix.
    """

    __slots__ = ("_began", "_marks", "_name", "_number")

    def __init__(self, number: int, name: str = "train") -> None:
        self._number, self._name = number, name

    def __enter__(self) -> step:
        _watch.begins()
        self._marks = [make(self._name, self._number) for make in _makers()]
        for mark in self._marks:
            mark.__enter__()
        self._began = time.perf_counter_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _durations.append((self._began, time.perf_counter_ns() - self._began))
        for mark in reversed(self._marks):
            mark.__exit__(kind, error, trace)
        _watch.ends()


_durations: deque[tuple[int, int]] = deque(maxlen=MAX_DURATIONS)
"""Of the last steps: when each began (`perf_counter`), and how long it took, ns."""


def pop_overhead(begin_s: float, end_s: float) -> StepDurations:
    """How long the last steps took that were marked here, before a capture and inside it;
    `perf_counter` seconds say when that was. They are forgotten then: a step that one capture
    slowed is not what the next one is compared with.
    """
    steps, first, last = tuple(_durations), begin_s * 1e9, end_s * 1e9
    _durations.clear()
    before = [took for at, took in steps if at + took <= first]
    return StepDurations(tuple(before), tuple(took for at, took in steps if at >= first and at + took <= last))


def _makers() -> list[Any]:
    """The public mark classes of the imported frameworks, that of the training one first (an
    `outpace profile` counts these marks).
    """
    names = ("jax", "tensorflow") if framework_in_use() == "jax" else ("tensorflow", "jax")
    return [MARK_FACTORIES[name] for name in names if getattr(sys.modules.get(name), "profiler", None) is not None]


def _tensorflow_mark(name: str, number: int) -> Any:
    return sys.modules["tensorflow"].profiler.experimental.Trace(name, step_num=number, _r=1)


def _jax_mark(name: str, number: int) -> Any:
    return sys.modules["jax"].profiler.StepTraceAnnotation(name, step_num=number)


MARK_FACTORIES = {"tensorflow": _tensorflow_mark, "jax": _jax_mark}
"""What makes a mark of a name and a number, by framework."""


class _InputWatch:
    """Counts reads of tf.data iterators inside and between the steps of one thread."""

    def __init__(self) -> None:
        self._hooked = False
        self._said = False
        self._thread = 0
        self._inside = False
        self._reads = {True: 0, False: 0}
        self._in_a_row = 0

    def begins(self) -> None:
        """A step begins on this thread."""
        if not self._hooked:
            self._hooked = self._hook()
        self._thread = threading.get_ident()
        self._inside = True

    def ends(self) -> None:
        """A step ends: judge where the last one got its input from."""
        self._inside = False
        outside = self._reads[False] and not self._reads[True]
        self._in_a_row = self._in_a_row + 1 if outside else 0
        self._reads[True] = self._reads[False] = 0
        if self._in_a_row == OUTSIDE_IN_A_ROW and not self._said:
            self._said = True
            print_message(INPUT_ADVICE)

    def _hook(self) -> bool:
        kind = ITERATOR_CLASS.value
        if kind is None:
            return "tensorflow" in sys.modules
        original, watch = kind.__next__, self

        def __next__(self: Any) -> Any:
            if threading.get_ident() == watch._thread:
                watch._reads[watch._inside] += 1
            return original(self)

        kind.__next__ = __next__
        return True


_watch = _InputWatch()
