# SPDX-License-Identifier: Apache-2.0
"""How a loop is found that trains without any `fit`, within its first steps, and what is known of
it then.

Started before the script imports a framework, and imports none.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from outpace._dataclass import dataclass
from outpace.capture.frames import code_of
from outpace.capture.options import CaptureOptions
from outpace.capture.session import CaptureSession
from outpace.capture.steps_tf import LoopSteps, ReadSite, hook_marks
from outpace.capture.window import StepCandidate, StepWindow
from outpace.frameworks.tensorflow import function_class
from outpace.tune.loop.jax_calls import JaxCalls, JaxSteps
from outpace.tune.loop.statement import Statement


@dataclass(frozen=True, eq=False)
class Found:
    """A loop that trains. dataset: what the script reads in each step; None where that is nothing
    of tf.data. step: the code of the function whose calls are its steps then; None where they are
    made eagerly. jax: what the script calls of JAX, where that trains. whole: the code of a
    `tf.function` that is given the data set and makes all its steps in one call; then no step of it
    can be seen. reader: what reads the data set.
    """

    dataset: Any
    step: CodeType | None
    jax: JaxCalls | None = None
    whole: CodeType | None = None
    reader: ReadSite | None = None


STEPS = 10  # of one kind, after which it is a loop that trains; preparations that look like one take no gradients

_LOOKS = 100  # at gradients, for a loop around them


class Loops(CaptureSession):
    """Stands in for a capture's session: where that would open its window, the script has a loop of
    its own.
    """

    def __init__(self, found: Callable[[Found], object], begins: Callable[[], object]) -> None:
        """`found` is called in the loop's own thread, inside of a step; it may end the process.
        `begins`: at the first gradient that is taken in a loop, and so before anything that this
        loop writes.
        """
        options = CaptureOptions(warmup=STEPS, steps=1, stop=False)
        super().__init__(options, "", "", lambda *_: None, lambda *_: None, lambda: None)
        self.window = StepWindow(options, self)
        self._found = found
        self._steps: LoopSteps | None = None
        self._calls: JaxCalls | None = None
        self._jax: JaxSteps | None = None
        self._tapes = 0
        self._begins: Callable[[], object] | None = begins
        self._looks = 0
        self._looked: weakref.WeakSet[Any] = weakref.WeakSet()  # functions that were given a data set
        os.register_at_fork(after_in_child=self.rest)

    def add_tensorflow(self, tf: Any) -> None:
        """TensorFlow was imported."""
        self.add_framework("tensorflow", tf)
        self._steps = LoopSteps(self, tf)
        self._steps.install(tf)
        hook_marks(self, self._steps, tf.profiler.experimental, "Trace", "tensorflow")
        self._hook_tapes(tf.GradientTape)
        self._hook_whole(tf)

    def add_jax(self, jax: Any) -> None:
        """JAX was imported."""
        self._calls = JaxCalls(jax, self._gradient)
        self._calls.install()
        self._jax = JaxSteps(self._calls, STEPS, self._found_jax)

    def _found_jax(self, code: CodeType | None, count: int) -> None:
        """A function of JAX was called again and again."""
        assert self._jax is not None
        self._tell_of(Found(self._read(count), code, self._calls))

    def open(self, candidate: StepCandidate | None) -> bool:
        """Enough steps of one kind were seen."""
        assert self._steps is not None
        if candidate is not None and (self._steps.has_gradients or candidate.framework == "jax"):
            jax = self._calls if candidate.framework == "jax" else None
            dataset = self._read(candidate.count)
            code, reader = self._steps.find_code(candidate), self._steps.find_reader(dataset)
            self._tell_of(Found(dataset, code, jax, reader=reader))
        return False

    def _hook_tapes(self, kind: Any) -> None:
        """See eager steps that read no data set."""
        original, loops = kind.__enter__, self

        def __enter__(self: Any) -> Any:
            loops._gradient()
            loops._taped()
            return original(self)

        kind.__enter__ = __enter__

    def _gradient(self) -> None:
        """A gradient is taken, or a function that takes one is traced."""
        busy = self._steps is not None and self._steps.busy
        if self._begins is None or busy or self._looks > _LOOKS or threading.current_thread() is not threading.main_thread():
            return
        self._looks += 1
        if Statement.around(sys._getframe(2)) is not None:
            begins, self._begins = self._begins, None
            begins()

    def _hook_whole(self, tf: Any) -> None:
        """See functions that are given a data set, and train on all of it in one call."""
        kind, data = function_class(tf), tf.data.Dataset
        original, loops = kind.__call__, self

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            given = next((each for each in (*args, *kwargs.values()) if isinstance(each, data)), None)
            if given is not None and self not in loops._looked:
                loops._whole(self, given, args, kwargs)
            return original(self, *args, **kwargs)

        kind.__call__ = __call__

    def _whole(self, function: Any, dataset: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A function's first call with a data set: its graph, which the call would make, tells
        whether it takes gradients.
        """
        if self._steps is None or self._steps.is_outside():
            return
        self._looked.add(function)
        before, self._steps.has_gradients = self._steps.has_gradients, False
        with contextlib.suppress(Exception):  # the call itself shall raise it
            function.get_concrete_function(*args, **kwargs)
        trains, self._steps.has_gradients = self._steps.has_gradients, self._steps.has_gradients or before
        code = code_of(function)
        if trains and code is not None:
            self._tell_of(Found(dataset, None, whole=code))

    def _taped(self) -> None:
        if self._steps is None or self._steps.is_outside():
            return
        self._tapes += 1
        if self._tapes > STEPS and not self._steps.has_steps(self._tapes):
            self._tell_of(Found(None, None))

    def _tell_of(self, found: Found) -> None:
        self.rest()
        self._found(found)

    def _read(self, count: int) -> Any:
        """The data set that is read in most of so many steps."""
        return self._steps.find_dataset(count) if self._steps is not None else None

    def rest(self) -> None:
        """See nothing more."""
        self.window.disable()
        if self._jax is not None:
            self._jax.rest()

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """See nothing inside the block."""
        steps, jax, listener = self._steps, self._calls, self._calls.listener if self._calls is not None else None
        before = (steps.busy, steps.has_gradients) if steps is not None else (False, False)
        if steps is not None:
            steps.busy = True
        if jax is not None:
            jax.listener = None
        try:
            yield
        finally:
            if steps is not None:
                steps.busy, steps.has_gradients = before
            if jax is not None:
                jax.listener = listener
