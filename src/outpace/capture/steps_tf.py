"""Finds the steps of custom TensorFlow loops: the script's own marks, repeated `tf.function` calls,
iterator reads.

Only the outermost calls on the script's main thread count. A step runs from the end of the previous
call to the end of this one, so that the input it waited for belongs to it; an eager loop's step
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

ReadSite = tuple[CodeType, int]  # what reads a data set: the code, and the line in it
UNTAPED_FACTOR = 10  # reads without a gradient tape in between (counting words, say) need that many times the warm-up


class LoopSteps:
    """Watches one process's custom loops. `busy` is set while another source (a Keras batch) owns
    the current call.
    """

    def __init__(self, session: CaptureSession, tf: Any, timed: TimedWindow | None = None) -> None:
        """A watcher that feeds the session's window, and tells a window by time of
        gradient tapes.
        """
        self._timed = timed
        self.busy = False
        self.has_marks = False  # the script marks its own steps: nothing else is counted any more
        self._session = session
        self._window = session.window
        self._in_graph: Callable[[], bool] = tf.inside_function
        self._main = threading.main_thread().ident
        self._depth = 0
        self._taped = False
        self._taping = False  # a gradient tape is open, or was in the call of a tf.function that is under way
        self._functions: dict[Any, StepCandidate] = {}
        self.has_gradients = False  # a gradient tape was used at all
        self._loops: weakref.WeakKeyDictionary[Any, StepCandidate] = weakref.WeakKeyDictionary()  # by data set
        self._recent: deque[weakref.ref[Any]] = deque(maxlen=4)  # data sets of the last reads
        self._iterators: weakref.WeakSet[Any] = weakref.WeakSet()
        self._readers: weakref.WeakKeyDictionary[Any, ReadSite] = weakref.WeakKeyDictionary()  # by data set

    def install(self, tf: Any) -> None:
        """Hook the classes of functions, iterators and tapes; a part that this TensorFlow lacks is
        left out.
        """
        self._hook_functions(function_class(tf))
        self._hook_tapes(tf.GradientTape)
        if ITERATOR_CLASS.value is not None:
            self._hook_iterators(ITERATOR_CLASS.value)

    def find_code(self, candidate: StepCandidate) -> CodeType | None:
        """Of the function whose calls are a candidate's steps; None where they are no calls."""
        return next((key for key, each in self._functions.items() if each is candidate and isinstance(key, CodeType)), None)

    def find_dataset(self, count: int) -> Any:
        """The data set that the script itself reads in most of so many steps; None where there is
        none. One that it read before, to count its examples for instance, is none that it reads
        now.
        """
        recent = {id(each()) for each in self._recent}
        read = [
            (id(dataset) in recent, each.count, dataset) for dataset, each in self._loops.items() if 2 * each.count >= count
        ]
        return max(read, key=lambda each: each[:2], default=(False, 0, None))[2]

    def find_reader(self, dataset: Any) -> ReadSite | None:
        """Where a data set was read last: the code, and the line in it; None where it was not."""
        return self._readers.get(dataset) if dataset is not None else None

    def has_steps(self, count: int) -> bool:
        """Whether anything was seen in most of so many steps."""
        return any(2 * each.count >= count for each in [*self._functions.values(), *self._loops.values()])

    def is_outside(self) -> bool:
        """Whether the current call is none of ours to count."""
        if self._window.is_off or self._depth or self.busy or self.has_marks or threading.get_ident() != self._main:
            return True
        return self._in_graph()

    def _hook_functions(self, kind: Any) -> None:
        original, steps = kind.__call__, self

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # the name shows in the user's tracebacks
            if steps.is_outside():
                return original(self, *args, **kwargs)
            steps._depth += 1
            around = steps._taping
            try:
                result = original(self, *args, **kwargs)
            finally:
                steps._depth -= 1
                trains, steps._taping = steps._taping, around
            steps._called(self, trains)
            return result

        kind.__call__ = __call__

    def _called(self, function: Any, trains: bool) -> None:
        """A function was called; `has_gradients`: inside a gradient tape, or it was traced with one
        in it.
        """
        code = code_of(function)
        # By code, not object: a tf.function made anew in each iteration is still one step (and a
        # mistake worth a profile).
        key = code if code is not None else id(function)
        candidate = self._functions.get(key)
        if candidate is None:
            candidate = self._functions[key] = StepCandidate(
                "custom loop", name=getattr(code, "co_name", ""), sees_gradients=True
            )
        candidate.trains = candidate.trains or trains
        self._window.end(candidate)
        self._window.begin(candidate, may_open=candidate.trains or not self._window.has_trained_recently())

    def _hook_tapes(self, kind: Any) -> None:
        original, leave, steps = kind.__enter__, kind.__exit__, self

        def __enter__(self: Any) -> Any:
            steps._taped = steps.has_gradients = True
            steps._taping = steps._taping or not steps.busy
            if steps._timed is not None and not steps.is_outside():
                steps._timed.tape_count += 1
            return original(self)

        def __exit__(self: Any, *details: Any) -> Any:
            steps._taping = steps._taping and steps._depth > 0  # inside a call it counts for all of that
            return leave(self, *details)

        kind.__enter__, kind.__exit__ = __enter__, __exit__

    def _hook_iterators(self, kind: Any) -> None:
        original, steps = kind.__next__, self

        def __next__(self: Any) -> Any:
            frame = sys._getframe(1)
            if not steps.is_outside() and not is_keras_code(frame.f_code):  # it reads eagerly, too, to adapt a layer
                steps._read(self)
                steps._readers[READ_DATASET.of(self, self)] = frame.f_code, frame.f_lineno
            return original(self)

        kind.__next__ = __next__

    def _read(self, iterator: Any) -> None:
        fresh = iterator not in self._iterators
        if fresh:
            self._iterators.add(iterator)
            record_iterator_end(iterator)
            for function in self._functions.values():  # an epoch's end or a validation lies within this step
                function.interrupted = function.interrupted or function.begin_ns is not None
        dataset = READ_DATASET.of(iterator, iterator)
        self._recent.append(weakref.ref(dataset))
        candidate = self._loops.setdefault(dataset, StepCandidate("eager loop"))
        if candidate.begin_ns is not None:
            candidate.interrupted = candidate.interrupted or fresh
            self._window.end(candidate)
        # tf.data feeding a JAX step; that JAX is imported says nothing, TensorFlow does it where
        # JAX is installed.
        with_jax = "jax" in self._session.profilers and not self.has_gradients and framework_in_use() == "jax"
        candidate.framework = "jax" if with_jax else "tensorflow"
        sure = self._taped or with_jax or candidate.count >= UNTAPED_FACTOR * max(1, self._window.options.warmup)
        called = max((function.count for function in self._functions.values()), default=0)
        self._taped = False
        self._window.begin(candidate, may_open=sure and 2 * called < max(1, candidate.count))


def hook_marks(session: CaptureSession, steps: LoopSteps | None, namespace: Any, name: str, framework: str) -> None:
    """Replace a public step mark class by one that tells the window of its steps."""
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
                window.begin(candidate)  # before the mark exists: one made without a running profiler stays empty
            super().__init__(*args, **kwargs)

        def __exit__(self, *details: Any) -> Any:
            answer = super().__exit__(*details)
            if self._outpace and threading.get_ident() == main:
                window.end(candidate)
            return answer

    Marked.__name__, Marked.__qualname__ = original.__name__, original.__qualname__
    Marked.__module__, Marked.__doc__ = original.__module__, original.__doc__
    _publish(namespace, name, original, Marked)


def hook_profiler(session: CaptureSession, tf: Any) -> None:
    """Give way when the script starts TensorFlow's profiler itself, in any of the public ways."""
    public = tf.profiler.experimental
    original = public.start

    def start(logdir: Any, options: Any = None) -> Any:
        session.yield_to_user(logdir)
        return original(logdir, options)

    start.__doc__, start.__module__ = original.__doc__, original.__module__
    _publish(public, "start", original, start)
    if START_PROFILER.value is original:
        START_PROFILER.replace(start)


def hook_jax_profiler(session: CaptureSession, jax: Any) -> None:
    """Give way when the script starts JAX's profiler itself."""
    original = jax.profiler.start_trace

    @functools.wraps(original)
    def start_trace(log_dir: Any, *args: Any, **kwargs: Any) -> Any:
        with session.pause_snapshots():
            session.yield_to_user(log_dir)
            return original(log_dir, *args, **kwargs)

    jax.profiler.start_trace = start_trace
    if START_TRACE.value is original:
        START_TRACE.replace(start_trace)


def _publish(namespace: Any, name: str, original: Any, replaced: Any) -> None:
    """Put something into the place of a public name, also in `tensorflow.compat.v2`, which holds
    the same in a namespace of its own: Keras 2 marks its steps by that.
    """
    _, found, inside = namespace.__name__.partition(PUBLIC_API)
    twins = [module for key, module in list(sys.modules.items()) if found and key.endswith(f".compat.v2.{inside}")]
    for each in (namespace, *twins):
        if getattr(each, name, None) is original:
            setattr(each, name, replaced)
