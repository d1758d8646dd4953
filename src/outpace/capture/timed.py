"""A window by time alone, for scripts whose steps cannot be seen (JAX loops without marks, eager loops over arrays).

With `seconds` among the options it opens `delay` seconds after the framework's import. Without, it opens by itself when training runs and no
source of steps has seen any of it: JAX's own calls are C++ and cannot be watched without changing what the script gets from `jax.jit`.
The analysis then infers the steps from what was recorded.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from outpace.capture.choose import framework_in_use, keras_backend
from outpace.capture.compiles import CompileWatch
from outpace.capture.main_thread import on_main_thread, serve_while
from outpace.capture.session import Session
from outpace.capture.window import Candidate

_T = TypeVar("_T")

LENGTH_S = 3.0  # of a window that opens by itself
STEADY_S = 2.0  # of it at least after the last compilation
LONGEST_S = 14.0  # it lasts: a script may compile in every step
FIRST_LOOK_S = 1.5  # after the first sign of training; a script that trains for five seconds must be captured
KERAS_LOOK_S = 12.0  # where Keras runs on JAX: it builds models with JAX long before `fit` says that it begins
QUIET_S = 1.0  # without a compilation, before such a window opens
LATEST_S = 8.0  # it opens all the same: a script may compile in every step
LONGEST_COMPILATION_S = 60.0  # a single one that is waited for beyond that
TAPES = 5  # gradient tapes outside any step that say: an eager loop trains here
_POLL_S = 0.1
_END_S = 10.0  # for a profiler that is being started or stopped when the script ends


class TimedWindow:
    """Opens the window by time, if no step was seen by then; closes it, and stops the script when that is asked for."""

    def __init__(self, session: Session, compiles: CompileWatch) -> None:
        """A window for this session, not waiting yet."""
        self._session = session
        self._compiles = compiles
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._imported = 0.0  # when the last framework was, monotonic seconds: TensorFlow imports JAX before it is there itself
        self._training: float | None = None  # when it was first seen, monotonic seconds
        self.tapes = 0  # gradient tapes that were entered outside any step

    def start(self) -> None:
        """A framework was imported: start waiting; where we wait already, the delay counts from now."""
        self._imported = time.monotonic()
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._wait, name="outpace-window", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """The script has ended: wait no longer. A thread that the interpreter ends inside the profiler takes the process with it, so that it
        is waited for."""
        self._over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            serve_while(self._goes_on, _END_S)

    def _goes_on(self, seconds: float) -> bool:
        """Wait for our thread, so many seconds at most."""
        assert self._thread is not None
        self._thread.join(seconds)
        return self._thread.is_alive()

    def _wait(self) -> None:
        options = self._session.options
        if options.seconds is not None:
            while (left := self._imported + options.delay - time.monotonic()) > 0 or not self._reachable():
                if self._over.wait(max(left, _POLL_S)):
                    return
            self._capture(Candidate("seconds", mark=None), options.seconds)
            return
        while not self._session.window.taken:
            if self._over.wait(_POLL_S):
                return
            if self.due(time.monotonic()):
                self._capture(Candidate("seconds", mark=None, seconds=LENGTH_S), LENGTH_S)
                return

    def _reachable(self) -> bool:
        """Whether the framework that would be captured is there: TensorFlow imports JAX, and may take longer than the delay from then on."""
        return (framework_in_use() or "tensorflow") in self._session.profilers

    def due(self, now: float) -> bool:
        """Whether a window without steps is to open at `now`, in monotonic seconds."""
        if self._session.window.expecting or not self._trains():
            self._training = None
            return False
        if self._training is None:
            self._training = now
        since, watch = now - self._training, self._compiles
        quiet = QUIET_S if watch.last_s is None else now - watch.last_s
        if since < (KERAS_LOOK_S if keras_backend() == "jax" else FIRST_LOOK_S):
            return False
        if watch.pending and quiet >= QUIET_S:  # in the middle of a long one
            return quiet > LONGEST_COMPILATION_S
        return quiet >= QUIET_S or since >= LATEST_S

    def _trains(self) -> bool:
        """A sign of training: JAX has touched a device, or gradients are taken again and again."""
        if framework_in_use() == "jax":
            return bool(getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None))
        return self.tapes >= TAPES

    def _capture(self, step: Candidate, seconds: float) -> None:
        window = self._session.window
        step.framework = framework_in_use() or "tensorflow"
        if not self._on_main_thread(lambda: window.open_for_time(step, although_steps=step.seconds is not None)):
            return
        self._over.wait(seconds)
        if step.seconds is not None:
            self._outlast_compilations(time.monotonic() + LONGEST_S - seconds)
        self._on_main_thread(window.close)

    def _on_main_thread(self, change: Callable[[], _T]) -> _T:
        """Open or close the window between two calls of the training, unless it is being opened or closed already."""
        return on_main_thread(change, ready=lambda: not self._session.window.changing)

    def _outlast_compilations(self, until: float) -> None:
        """A window that opened during set-up, or at a step of a new shape, goes on until it holds steps that only run."""
        while (now := time.monotonic()) < until:
            compiled = self._compiles.last_s
            if compiled is None or (now - compiled >= STEADY_S and not self._compiles.pending) or self._over.wait(_POLL_S):
                return
