# SPDX-License-Identifier: Apache-2.0
"""Measures how long training steps wait for their input, and how many examples they read.

In a loop of the user's own, the iterator's `next` is timed. Keras with TensorFlow reads inside its
compiled train function, where Python cannot time it: there two time stamps are traced into the
graph around the read, and their difference is added to a variable (3 us a step), which is read
once per line. Keras with JAX reads in Python, from an iterator that is wrapped when Keras creates
it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from outpace.capture.frameworks import keras_backend
from outpace.frameworks.keras import ITERATE_JAX
from outpace.frameworks.tensorflow import ITERATOR_CLASS, READ_NEXT

T = TypeVar("T")


class InputTotals(NamedTuple):
    """Totals since the start: seconds of waiting for input, batches read, and examples read (0:
    unknown).
    """

    seconds: float
    batches: float
    examples: float


class InputClock:
    """Sums the waits for input that Python can time. `missing_reason` is a sentence for the user
    when no wait was measured.
    """

    missing_reason = "the loop's input is read outside of monitor.input(...)"

    def __init__(self) -> None:
        self.waited_ns = 0  # ns
        self.batches = 0
        self.examples = 0

    def read_totals(self) -> InputTotals:
        """Return the totals since the start."""
        return InputTotals(self.waited_ns / 1e9, self.batches, self.examples)

    def iter_timed(self, iterator: Iterator[T]) -> Iterator[T]:
        """Yield the iterator's elements and add the wait for each to the totals."""
        clock, size = time.perf_counter_ns, None
        while True:
            began = clock()
            try:
                element = next(iterator)
            except StopIteration:
                return
            self.waited_ns += clock() - began
            self.batches += 1
            if size is None:  # the first batch only: counting each would cost more than the rest of the measurement
                size = count_examples(element)
            self.examples += size
            yield element


class KerasInputClock(InputClock):
    """Sums the input waits of one Keras model's `fit`.

    active: False during a validation.
    eager: whether the model runs eagerly.
    """

    missing_reason = "the train function was compiled before this monitor was there"

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.active = True
        self.eager = bool(getattr(model, "run_eagerly", False))
        replicas = getattr(getattr(model, "distribute_strategy", None), "num_replicas_in_sync", 1)
        if replicas > 1:
            self.missing_reason = "the input of a distribution strategy is not timed"
        elif not _hook():
            self.missing_reason = "this version of Keras, or its backend, gives no access to its input"
        self._before = _graph.read()  # graphs of an earlier `fit` keep counting, so their total is subtracted

    def read_totals(self) -> InputTotals:
        """Return the totals since the start, including those that compiled graphs counted."""
        return InputTotals(
            *(
                counted + after - before
                for counted, after, before in zip(super().read_totals(), _graph.read(), self._before, strict=True)
            )
        )


def set_input_clock(clock: KerasInputClock | None) -> None:
    """Set the clock to which the hooks in Keras and TensorFlow report waits; None for no clock."""
    _graph.clock = clock


def count_examples(element: object) -> int:
    """Return the number of examples in a batch: the length of its first array; 0 without an
    array.
    """
    while isinstance(element, (tuple, list, dict)):
        if not element:
            return 0
        element = next(iter(element.values())) if isinstance(element, dict) else element[0]
    shape = getattr(element, "shape", None)
    try:
        return int(shape[0]) if shape is not None else 0
    except (IndexError, TypeError, ValueError):
        return 0


class _Graph:
    """The input hooks of this process. All monitors share them, because a compiled train function
    outlives the monitor of its first `fit`.

    clock: clock to which waits are reported; None without a monitored `fit`.
    counter: TensorFlow variable with seconds, batches and examples; float64 of shape (3,).
    hooked: backends whose hooks are installed.
    """

    def __init__(self) -> None:
        self.clock: KerasInputClock | None = None
        self.counter: Any = None
        self.hooked: set[str] = set()

    def read(self) -> InputTotals:
        """Return the totals that all graphs have counted."""
        return InputTotals(*map(float, self.counter.numpy())) if self.counter is not None else InputTotals(0, 0, 0)

    def traced(self, tf: Any, read: Any, iterator: Any, clock: KerasInputClock) -> Any:
        """Trace the read of one element, between two time stamps, into the graph that is being
        built.
        """
        with tf.device("/CPU:0"):
            began = tf.timestamp()
        with tf.control_dependencies([began]):
            element = read(iterator)
        try:
            self._count(tf, began, element)
        except Exception as error:  # an input that cannot be timed is still an input
            clock.missing_reason = f"the input could not be timed: {error}"
        return element

    def _count(self, tf: Any, began: Any, element: Any) -> None:
        """Add the wait for one element to the counter, inside the graph."""
        first = tf.nest.flatten(element)[0]
        with tf.control_dependencies(tf.nest.flatten(element, expand_composites=True)), tf.device("/CPU:0"):
            waited = tf.timestamp() - began
            one, none = (tf.constant(value, tf.float64) for value in (1.0, 0.0))
            counts = tf.is_tensor(first) and hasattr(first, "op") and first.shape.rank
            examples = tf.cast(tf.shape(first)[0], tf.float64) if counts else none
            self.counter.assign_add(tf.stack([waited, one, examples]))


_graph = _Graph()


def _hook() -> bool:
    """Install the hooks for this process's input reads; False where nothing can be hooked.
    Repeated calls have no effect.
    """
    name = keras_backend()
    if name not in _graph.hooked:
        hook = {"tensorflow": _hook_tensorflow, "jax": _hook_jax}.get(name)
        if hook is None or not hook():
            return False
        _graph.hooked.add(name)
    return True


def _hook_tensorflow() -> bool:
    """Hook the reads of TensorFlow's iterators; False where this version has no such reads."""
    tf: Any = sys.modules.get("tensorflow")
    kind = ITERATOR_CLASS.value
    if tf is None or READ_NEXT.value is None:
        return False
    with tf.init_scope(), tf.device("/CPU:0"):
        _graph.counter = tf.Variable([0.0, 0.0, 0.0], dtype=tf.float64, trainable=False, name="outpace_input")
    for name in (READ_NEXT.name, "get_next_as_optional"):
        setattr(kind, name, _around(tf, getattr(kind, name)))
    return True


def _around(tf: Any, original: Any) -> Any:
    """Return a function that reads an element and measures the wait."""

    def read(self: Any) -> Any:  # this name appears in the user's tracebacks
        clock = _graph.clock
        if clock is None or not clock.active:
            return original(self)
        if not tf.executing_eagerly():
            return _graph.traced(tf, original, self, clock)
        if not clock.eager:
            return original(self)
        began = time.perf_counter_ns()
        element = original(self)
        clock.waited_ns += time.perf_counter_ns() - began
        clock.batches += 1
        return element

    return read


def _hook_jax() -> bool:
    """Hook the iterators of Keras' JAX trainer; False where this version has none."""
    original = ITERATE_JAX.value
    if original is None:
        return False

    def _get_iterator(self: Any) -> Iterable[Any]:
        batches: Iterable[Any] = original(self)
        clock = _graph.clock
        return batches if clock is None or not clock.active else clock.iter_timed(iter(batches))

    ITERATE_JAX.replace(_get_iterator)
    return True
