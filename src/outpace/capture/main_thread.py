"""Begins and ends profilers between two calls of the thread that trains, where the program might
not survive another way. Standard library only.

Where `jax.profiler.stop_trace` ran on a thread of Outpace while the main thread launched CUDA
graphs, 8 of 10 programs crashed, and none where it ran on the main thread. Python runs what is
*pending* there between two bytecodes, when no call into C is under way. A thread of Outpace
therefore asks, and waits::

    run_between_calls(lambda: profiler.stop(save=True))

Everywhere else (TensorFlow, CPUs, no CUDA graphs) the function runs at once, on the thread that
asks. It does so, with a warning, where the main thread cannot be had, too: where it does not train,
or is inside one call for too long.
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

TIMEOUT_S = 30.0  # for the main thread to be between two calls: what runs on a GPU is handed over, and returns at once
PARKED_S = 5.0  # that the main thread waits for other threads, without a break, until it counts as one that does not train
_POLL_S = 0.01
_WAITS = ("threading.py", "queue.py", "selectors.py", "concurrent/futures/_base.py")  # where Python waits for other threads
_STDLIB = threading.__file__.removesuffix("threading.py")


class Lock(Protocol):
    """A lock of `threading`, whether its thread can take it again or not."""

    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool:
        """Take it, within so many seconds; False where that was not possible."""

    def release(self) -> None:
        """Let go of it."""


class _Request(Generic[_T]):
    """A function that waits for the main thread, and what came of it."""

    def __init__(self, function: Callable[[], _T], ready: Callable[[], bool]) -> None:
        self.function, self.ready = function, ready
        self.done = threading.Event()
        self.result: _T | None = None
        self.error: Exception | None = None
        self.escaped: BaseException | None = (
            None  # what is none of the function's: Ctrl-C, or an exit that a handler of the program's asks for
        )

    def run(self) -> None:
        """Run it here and now."""
        try:
            self.result = self.function()
        except Exception as error:
            self.error = error
        except BaseException as error:
            self.error, self.escaped = CaptureError("The program was interrupted meanwhile."), error
        self.done.set()

    def answer(self) -> _T:
        """What it returned; raises what it raised."""
        if self.error is not None:
            raise self.error
        return cast(_T, self.result)


_requests: deque[_Request[Any]] = deque()
_pending = threading.Event()  # Python was told to call us, and has not done it yet
_warned = threading.Event()


def run_between_calls(
    function: Callable[[], _T], training_thread: threading.Thread | None = None, is_ready: Callable[[], bool] = lambda: True
) -> _T:
    """Run a function that begins or ends a profiler, and return what it returns; it raises what the
    function raises.

    `training_thread`: the thread that trains; the main one by default. `is_ready` is asked on the
    main thread just before: the program may hold what the function needs.
    """
    main = threading.main_thread()
    training_thread = training_thread or main
    if threading.current_thread() is training_thread or not uses_cuda_graphs():
        return function()
    return _asked(_Request(function, is_ready)) if training_thread is main else _unsafely(function)


def wait_and_serve(wait: Callable[[float], bool], seconds: float = math.inf) -> None:
    """Wait for threads of ours, which may be waiting for the main thread. `wait` waits so many
    seconds at most, and tells whether to go on.
    """
    until = time.monotonic() + seconds
    in_main = threading.current_thread() is threading.main_thread()
    while wait(_POLL_S) and time.monotonic() < until:
        if in_main:
            run_requests(sys._getframe(1))


@contextlib.contextmanager
def hold_lock(lock: Lock) -> Iterator[None]:
    """Hold a lock. Whoever has it now may be waiting for the main thread, which therefore serves
    while it waits here.
    """
    wait_and_serve(lambda seconds: not lock.acquire(timeout=seconds))
    try:
        yield
    finally:
        lock.release()


def run_requests(frame: Any) -> None:
    """Run what waits for the main thread, on which this is called, at this frame."""
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


def _asked(request: _Request[_T]) -> _T:
    """Have the main thread run a request, or run it here once that cannot be waited for
    any longer.
    """
    _requests.append(request)
    parked, until = _ParkedThread(), time.monotonic() + TIMEOUT_S
    while not request.done.wait(_POLL_S):
        _call_soon()
        if (parked.since(PARKED_S) or time.monotonic() > until) and _withdrawn(request):
            _unsafely(request.run)
    if request.escaped is not None:
        _raise_in_main_thread(request.escaped)
    return request.answer()


def _unsafely(function: Callable[[], _T]) -> _T:
    """Run a function on a thread that does not train, while another one may be inside a call. What
    may happen is said once.
    """
    if not _warned.is_set():
        _warned.set()
        print_message(
            "the training runs in a thread of its own, or is inside one call, between whose calls a capture cannot end. JAX can crash by that "
            "on NVIDIA GPUs; XLA_FLAGS=--xla_gpu_enable_command_buffer= in its environment avoids it (outpace profile --command-buffers off)"
        )
    return function()


def _in_callback(frame: Any) -> bool:
    """Whether a thread that is at this frame was called by a program that runs on a device."""
    while frame is not None:
        if frame.f_code.co_filename.replace("\\", "/").endswith((CALLBACK_FILE, DEBUGGING_FILE)):
            return True
        frame = frame.f_back
    return False


def _withdrawn(request: _Request[Any]) -> bool:
    """Take a request back; False where the main thread has it."""
    try:
        _requests.remove(request)
    except ValueError:
        return False
    return True


class _ParkedThread:
    """Whether the main thread waits for other threads, and since when."""

    def __init__(self) -> None:
        self._at: tuple[int, int] | None = None
        self._since = 0.0

    def since(self, seconds: float) -> bool:
        """Whether it has waited at one place for so long."""
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        file = frame.f_code.co_filename if frame is not None else ""
        at = (id(frame), frame.f_lasti) if frame is not None and file in {_STDLIB + name for name in _WAITS} else None
        now = time.monotonic()
        if at is None or at != self._at:
            self._at, self._since = at, now
        return at is not None and now - self._since >= seconds


def _called(_: int | None) -> int:
    """What Python calls on the main thread between two bytecodes."""
    with suppress_faults():  # nothing can be raised from here
        _pending.clear()
        run_requests(sys._getframe(1))
    return 0


_callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_called)  # kept for as long as Python may call it


def _raise_in_main_thread(error: BaseException) -> None:
    """Have the main thread raise an exception like this one, which could not be raised where it
    came up. Python makes it of a class alone.
    """
    kind = type(error)
    alike = type(
        kind.__name__, (kind,), {"__init__": lambda self: kind.__init__(self, *error.args), "__module__": kind.__module__}
    )
    identity = ctypes.c_ulong(threading.main_thread().ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(alike))


def _call_soon() -> None:
    if not _pending.is_set():
        _pending.set()
        if ctypes.pythonapi.Py_AddPendingCall(_callback, None):  # the queue is full: next time
            _pending.clear()


def _forget() -> None:
    """A fork's child has none of the threads that ask."""
    _requests.clear()
    _pending.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
