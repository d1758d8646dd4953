# SPDX-License-Identifier: Apache-2.0
"""Starts and stops profilers between two calls of the thread that trains, where the program might
crash otherwise. Standard library only.

Where `jax.profiler.stop_trace` ran on a thread of Outpace while the main thread launched CUDA
graphs, 8 of 10 programs crashed, and none where it ran on the main thread. Python runs *pending
calls* there between two bytecodes, when no call into C is under way. A thread of Outpace therefore
makes a request, and waits::

    run_between_calls(lambda: profiler.stop(save=True))

Everywhere else (TensorFlow, CPUs, no CUDA graphs) the function runs at once, on the calling thread.
It also does so, with a warning, where the main thread cannot run it: where that does not train, or
is inside one call for too long.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar, cast

from outpace.capture.faults import suppress_faults
from outpace.capture.frameworks import uses_cuda_graphs
from outpace.capture.messages import print_message
from outpace.frameworks.jax import CALLBACK_FILE, DEBUGGING_FILE
from outpace.model.errors import CaptureError

_T = TypeVar("_T")

# time limit for the main thread to be between two calls: calls that launch work on a GPU return at
# once
TIMEOUT_S = 30.0
# time that the main thread waits for other threads without a break, until it counts as not training
PARKED_S = 5.0
_POLL_S = 0.01
# files in which Python waits for other threads
_WAIT_FILES = ("threading.py", "queue.py", "selectors.py", "concurrent/futures/_base.py")
_STDLIB = threading.__file__.removesuffix("threading.py")


class Lock(Protocol):
    """A lock of `threading`, reentrant or not."""

    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool:
        """Acquire the lock within `timeout` seconds; False where that was not possible."""

    def release(self) -> None:
        """Release the lock."""


class _Request(Generic[_T]):
    """A function that is to run on the main thread, and its result.

    function: the function.
    ready: whether it may run now.
    done: set when it has run.
    result, error: what it returned, or raised.
    escaped: exception that is not the function's: Ctrl-C, or an exit raised by a signal handler of
        the program.
    """

    def __init__(self, function: Callable[[], _T], ready: Callable[[], bool]) -> None:
        self.function, self.ready = function, ready
        self.done = threading.Event()
        self.result: _T | None = None
        self.error: Exception | None = None
        self.escaped: BaseException | None = None

    def run(self) -> None:
        """Run the function on this thread."""
        try:
            self.result = self.function()
        except Exception as error:
            self.error = error
        except BaseException as error:
            self.error, self.escaped = CaptureError("The program was interrupted meanwhile."), error
        self.done.set()

    def take_result(self) -> _T:
        """Return what the function returned; raises what it raised."""
        if self.error is not None:
            raise self.error
        return cast(_T, self.result)


_requests: deque[_Request[Any]] = deque()
_call_scheduled = threading.Event()  # set while a pending call is registered with Python and has not run
_warned = threading.Event()


def run_between_calls(
    function: Callable[[], _T], training_thread: threading.Thread | None = None, is_ready: Callable[[], bool] = lambda: True
) -> _T:
    """Run a function that starts or stops a profiler, and return what it returns; raises what it
    raises.

    training_thread: thread that trains; the main thread by default.
    is_ready: called on the main thread just before; False postpones the function, because the
        program may hold a lock that it needs.
    """
    main = threading.main_thread()
    training_thread = training_thread or main
    if threading.current_thread() is training_thread or not uses_cuda_graphs():
        return function()
    return _run_on_main_thread(_Request(function, is_ready)) if training_thread is main else _run_with_warning(function)


def wait_and_serve(wait: Callable[[float], bool], seconds: float = math.inf) -> None:
    """Wait for threads of Outpace, and meanwhile run their requests to the main thread.

    wait: waits for the given seconds at most, and returns whether to continue.
    seconds: time limit.
    """
    deadline = time.monotonic() + seconds
    in_main = threading.current_thread() is threading.main_thread()
    while wait(_POLL_S) and time.monotonic() < deadline:
        if in_main:
            run_requests(sys._getframe(1))


@contextlib.contextmanager
def hold_lock(lock: Lock) -> Iterator[None]:
    """Hold a lock inside this context. The thread that has it may be waiting for the main thread,
    which therefore runs requests while it waits here.
    """
    wait_and_serve(lambda seconds: not lock.acquire(timeout=seconds))
    try:
        yield
    finally:
        lock.release()


def run_requests(frame: Any) -> None:
    """Run the waiting requests on the main thread, which calls this at `frame`."""
    for _ in range(len(_requests)):
        if _in_callback(frame):
            return
        try:
            request = _requests.popleft()
        except IndexError:
            return
        try:
            with suppress_faults():
                if request.ready():
                    request.run()
        finally:
            if not request.done.is_set():
                _requests.append(request)


def _run_on_main_thread(request: _Request[_T]) -> _T:
    """Have the main thread run a request; run it on this thread where the main thread cannot run it
    in time.
    """
    _requests.append(request)
    parked, deadline = _ParkedThread(), time.monotonic() + TIMEOUT_S
    while not request.done.wait(_POLL_S):
        _schedule_pending_call()
        if (parked.is_parked(PARKED_S) or time.monotonic() > deadline) and _withdraw(request):
            _run_with_warning(request.run)
    if request.escaped is not None:
        _raise_in_main_thread(request.escaped)
    return request.take_result()


def _run_with_warning(function: Callable[[], _T]) -> _T:
    """Run a function on this thread while the training may be inside a call; the first time, warn
    that this can crash.
    """
    if not _warned.is_set():
        _warned.set()
        print_message(
            "the training runs in a thread of its own, or is inside one call, between whose calls a capture cannot end. JAX can crash by that "
            "on NVIDIA GPUs; XLA_FLAGS=--xla_gpu_enable_command_buffer= in its environment avoids it (outpace profile --command-buffers off)"
        )
    return function()


def _in_callback(frame: Any) -> bool:
    """Whether a frame was called by a program that runs on a device."""
    while frame is not None:
        if frame.f_code.co_filename.replace("\\", "/").endswith((CALLBACK_FILE, DEBUGGING_FILE)):
            return True
        frame = frame.f_back
    return False


def _withdraw(request: _Request[Any]) -> bool:
    """Remove a request from the queue and return True; False where the main thread has taken it."""
    try:
        _requests.remove(request)
    except ValueError:
        return False
    return True


class _ParkedThread:
    """Measures how long the main thread has waited for other threads."""

    def __init__(self) -> None:
        self._place: tuple[int, int] | None = None
        self._since_s = 0.0

    def is_parked(self, seconds: float) -> bool:
        """Whether it has waited at one place for that many seconds."""
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        file = frame.f_code.co_filename if frame is not None else ""
        place = (id(frame), frame.f_lasti) if frame is not None and file in {_STDLIB + name for name in _WAIT_FILES} else None
        now = time.monotonic()
        if place is None or place != self._place:
            self._place, self._since_s = place, now
        return place is not None and now - self._since_s >= seconds


def _serve_pending_call(_: int | None) -> int:
    """Pending call that Python makes on the main thread between two bytecodes; returns 0 for
    success.
    """
    with suppress_faults():  # no exception can leave a pending call
        _call_scheduled.clear()
        run_requests(sys._getframe(1))
    return 0


# must live as long as Python may call it
_callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_serve_pending_call)


def _raise_in_main_thread(error: BaseException) -> None:
    """Make the main thread raise an exception like `error`, which could not be raised where it
    occurred.

    Python can only raise a class there, so that a class is created which is constructed with the
    arguments of `error`.
    """
    kind = type(error)
    copied_class = type(
        kind.__name__, (kind,), {"__init__": lambda self: kind.__init__(self, *error.args), "__module__": kind.__module__}
    )
    identity = ctypes.c_ulong(threading.main_thread().ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(copied_class))


def _schedule_pending_call() -> None:
    """Register the pending call, unless it is registered already."""
    if not _call_scheduled.is_set():
        _call_scheduled.set()
        # Python's queue is full: try again later
        if ctypes.pythonapi.Py_AddPendingCall(_callback, None):
            _call_scheduled.clear()


def _reset_after_fork() -> None:
    """Clear the requests in a forked child, which has none of the requesting threads."""
    _requests.clear()
    _call_scheduled.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
