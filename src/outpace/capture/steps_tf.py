# SPDX-License-Identifier: Apache-2.0
"""Finds the steps of custom TensorFlow loops: the script's own marks, repeated `tf.function` calls,
and iterator reads.

Only the outermost calls on the script's main thread count. A step runs from the end of the previous
call to the end of this one, so that it contains the input it waited for. A step of an eager loop
runs from one iterator read to the next.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from types import CodeType
from typing import Any

from outpace.capture.frames import code_of, is_keras_code
from outpace.capture.frameworks import framework_in_use
from outpace.capture.pauses import record_iterator_end
from outpace.capture.session import CaptureSession
from outpace.capture.timed_window import TimedWindow
from outpace.capture.window import StepCandidate
from outpace.frameworks.jax import START_TRACE
from outpace.frameworks.tensorflow import ITERATOR_CLASS, PUBLIC_API, READ_DATASET, START_PROFILER, function_class

ReadSite = tuple[CodeType, int]  # code that reads a data set, and the line in it
# factor on the warm-up of a loop that reads data without a gradient tape (counting words, for
# example)
UNTAPED_FACTOR = 10


class LoopSteps:
    """Watches the custom loops of a process.

    busy: set while another source of steps (a Keras batch) owns the current call.
    has_marks: set when the script marks its own steps, after which nothing else is counted.
    has_gradients: set when a gradient tape was used at all.
    """

    def __init__(self, session: CaptureSession, tf: Any, timed: TimedWindow | None = None) -> None:
        """Create a watcher for the session's window; `timed` counts gradient tapes for a window by
        time.
        """
        self._timed_window = timed
        self.busy = False
        self.has_marks = False
        self._session = session
        self._window = session.window
        self._is_in_graph: Callable[[], bool] = tf.inside_function
        self._main_id = threading.main_thread().ident
        self._depth = 0
        self._tape_since_read = False
        # a gradient tape is open, or was opened in the running call of a tf.function
        self._is_tape_open = False
        self._calls: dict[Any, StepCandidate] = {}
        self.has_gradients = False
        self._reads: weakref.WeakKeyDictionary[Any, StepCandidate] = weakref.WeakKeyDictionary()  # by data set
        self._recent_datasets: deque[weakref.ref[Any]] = deque(maxlen=4)  # data sets of the last reads
        self._iterators: weakref.WeakSet[Any] = weakref.WeakSet()
        self._readers: weakref.WeakKeyDictionary[Any, ReadSite] = weakref.WeakKeyDictionary()  # by data set

    def install(self, tf: Any) -> None:
        """Hook the classes of functions, iterators and tapes; a class that this TensorFlow lacks is
        left out.
        """
        self._hook_functions(function_class(tf))
        self._hook_tapes(tf.GradientTape)
        if ITERATOR_CLASS.value is not None:
            self._hook_iterators(ITERATOR_CLASS.value)

    def find_code(self, candidate: StepCandidate) -> CodeType | None:
        """Return the code of the function whose calls are a candidate's steps; None where the steps
        are no calls.
        """
        return next((key for key, step in self._calls.items() if step is candidate and isinstance(key, CodeType)), None)

    def find_dataset(self, count: int) -> Any:
        """Return the data set that the script itself reads in most of `count` steps; None without
        one.

        A recently read data set is preferred to one that was only read before the training, to
        count its examples for instance.
        """
        recent_ids = {id(ref()) for ref in self._recent_datasets}
        candidates = [
            (id(dataset) in recent_ids, step.count, dataset) for dataset, step in self._reads.items() if 2 * step.count >= count
        ]
        return max(candidates, key=lambda item: item[:2], default=(False, 0, None))[2]

    def find_reader(self, dataset: Any) -> ReadSite | None:
        """Return the code and line that read a data set last; None where it was not read."""
        return self._readers.get(dataset) if dataset is not None else None

    def has_steps(self, count: int) -> bool:
        """Whether anything was seen in most of `count` steps."""
        return any(2 * step.count >= count for step in [*self._calls.values(), *self._reads.values()])

    def is_outside(self) -> bool:
        """Whether the current call must not be counted: nested, on another thread, in a graph, or
        of another source of steps.
        """
        if self._window.is_off or self._depth or self.busy or self.has_marks or threading.get_ident() != self._main_id:
            return True
        return self._is_in_graph()

    def _hook_functions(self, kind: Any) -> None:
        """Hook the calls of `tf.function` objects."""
        original, steps = kind.__call__, self

        # this name appears in the user's tracebacks
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            if steps.is_outside():
                return original(self, *args, **kwargs)
            steps._depth += 1
            was_open = steps._is_tape_open
            try:
                result = original(self, *args, **kwargs)
            finally:
                steps._depth -= 1
                trains, steps._is_tape_open = steps._is_tape_open, was_open
            steps._count_call(self, trains)
            return result

        kind.__call__ = __call__

    def _count_call(self, function: Any, trains: bool) -> None:
        """Count a call of a function; `trains`: it ran inside a gradient tape, or was traced with
        one in it.
        """
        code = code_of(function)
        # By code, not object: a tf.function that is created in each iteration is still one step
        # (and a mistake worth a profile).
        key = code if code is not None else id(function)
        candidate = self._calls.get(key)
        if candidate is None:
            candidate = self._calls[key] = StepCandidate("custom loop", name=getattr(code, "co_name", ""), sees_gradients=True)
        candidate.trains = candidate.trains or trains
        self._window.end(candidate)
        self._window.begin(candidate, may_open=candidate.trains or not self._window.has_trained_recently())

    def _hook_tapes(self, kind: Any) -> None:
        """Hook gradient tapes."""
        original, leave, steps = kind.__enter__, kind.__exit__, self

        def __enter__(self: Any) -> Any:
            steps._tape_since_read = steps.has_gradients = True
            steps._is_tape_open = steps._is_tape_open or not steps.busy
            if steps._timed_window is not None and not steps.is_outside():
                steps._timed_window.tape_count += 1
            return original(self)

        def __exit__(self: Any, *details: Any) -> Any:
            # inside a call, the tape counts for the whole call
            steps._is_tape_open = steps._is_tape_open and steps._depth > 0
            return leave(self, *details)

        kind.__enter__, kind.__exit__ = __enter__, __exit__

    def _hook_iterators(self, kind: Any) -> None:
        """Hook reads of tf.data iterators."""
        original, steps = kind.__next__, self

        def __next__(self: Any) -> Any:
            frame = sys._getframe(1)
            # Keras also reads eagerly, for instance to adapt a layer, which is no training step
            if not steps.is_outside() and not is_keras_code(frame.f_code):
                steps._count_read(self)
                steps._readers[READ_DATASET.of(self, self)] = frame.f_code, frame.f_lineno
            return original(self)

        kind.__next__ = __next__

    def _count_read(self, iterator: Any) -> None:
        """Count a read of an iterator as the end of a step and the begin of the next."""
        is_new = iterator not in self._iterators
        if is_new:
            self._iterators.add(iterator)
            record_iterator_end(iterator)
            # this step contains an epoch's end or a validation
            for function in self._calls.values():
                function.interrupted = function.interrupted or function.begin_ns is not None
        dataset = READ_DATASET.of(iterator, iterator)
        self._recent_datasets.append(weakref.ref(dataset))
        candidate = self._reads.setdefault(dataset, StepCandidate("eager loop"))
        if candidate.begin_ns is not None:
            candidate.interrupted = candidate.interrupted or is_new
            self._window.end(candidate)
        # The data may feed a JAX step. That JAX is imported proves nothing, because TensorFlow
        # imports it where it is installed.
        with_jax = "jax" in self._session.profilers and not self.has_gradients and framework_in_use() == "jax"
        candidate.framework = "jax" if with_jax else "tensorflow"
        certain = self._tape_since_read or with_jax or candidate.count >= UNTAPED_FACTOR * max(1, self._window.options.warmup)
        most_calls = max((function.count for function in self._calls.values()), default=0)
        self._tape_since_read = False
        self._window.begin(candidate, may_open=certain and 2 * most_calls < max(1, candidate.count))


def hook_marks(session: CaptureSession, steps: LoopSteps | None, namespace: Any, name: str, framework: str) -> None:
    """Replace a public step mark class by a subclass that reports its steps to the window."""
    original = getattr(namespace, name)
    window, main = session.window, threading.main_thread().ident
    candidate = StepCandidate("own marks", mark=None, framework=framework)
    keys = {"step_num", "step", "group_id"}

    class Marked(original):  # type: ignore[misc, valid-type]  # the class is only known at run time
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            explicit = framework == "jax" or bool(kwargs.get("_r"))
            self._outpace = explicit and bool(keys & kwargs.keys()) and not (steps is not None and steps.busy)
            if self._outpace and threading.get_ident() == main:
                if steps is not None:
                    steps.has_marks = True
                # opened before the mark is created, because a mark that is created without a
                # running profiler stays empty
                window.begin(candidate)
            super().__init__(*args, **kwargs)

        def __exit__(self, *details: Any) -> Any:
            answer = super().__exit__(*details)
            if self._outpace and threading.get_ident() == main:
                window.end(candidate)
            return answer

    Marked.__name__, Marked.__qualname__ = original.__name__, original.__qualname__
    Marked.__module__, Marked.__doc__ = original.__module__, original.__doc__
    _replace_public(namespace, name, original, Marked)


def hook_profiler(session: CaptureSession, tf: Any) -> None:
    """Hook all public ways to start TensorFlow's profiler, so that the session gives way to the
    script's own.
    """
    public = tf.profiler.experimental
    original = public.start

    def start(logdir: Any, options: Any = None) -> Any:
        session.yield_to_user(logdir)
        return original(logdir, options)

    start.__doc__, start.__module__ = original.__doc__, original.__module__
    _replace_public(public, "start", original, start)
    if START_PROFILER.value is original:
        START_PROFILER.replace(start)


def hook_jax_profiler(session: CaptureSession, jax: Any) -> None:
    """Hook JAX's profiler, so that the session gives way when the script starts it itself."""
    original = jax.profiler.start_trace

    @functools.wraps(original)
    def start_trace(log_dir: Any, *args: Any, **kwargs: Any) -> Any:
        with session.pause_snapshots():
            session.yield_to_user(log_dir)
            return original(log_dir, *args, **kwargs)

    jax.profiler.start_trace = start_trace
    if START_TRACE.value is original:
        START_TRACE.replace(start_trace)


def _replace_public(namespace: Any, name: str, original: Any, replacement: Any) -> None:
    """Replace a public name, also in `tensorflow.compat.v2`, which has the same object in a
    namespace of its own: Keras 2 marks its steps through it.
    """
    _, is_public, inside = namespace.__name__.partition(PUBLIC_API)
    twins = [module for key, module in list(sys.modules.items()) if is_public and key.endswith(f".compat.v2.{inside}")]
    for module in (namespace, *twins):
        if getattr(module, name, None) is original:
            setattr(module, name, replacement)
