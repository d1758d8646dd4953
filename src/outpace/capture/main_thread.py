"""Runs functions of ours on the program's main thread, between two of its calls. Standard library only.

A profiler must neither begin nor end while the program is inside a call of its framework: where `jax.profiler.stop_trace` ran on a thread of
ours while the main thread launched CUDA graphs, 8 of 10 programs crashed, and none where it ran on the main thread. Python runs what is
*pending* there between two bytecodes, when no call into C is under way. A thread of ours therefore asks, and waits::

    window_opened = on_main_thread(lambda: window.open(step))

Where the main thread waits for other threads all the time (the program trains in one of these), it is never between two calls: after a while
the function runs on the thread that asks, as it would have without any of this.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from outpace.capture.choose import launches_graphs
from outpace.capture.recording import tell

_T = TypeVar("_T")

PARKED_S = 5.0  # that the main thread waits for other threads, without a break, until it counts as one that does not train
_POLL_S = 0.01
_WAITS = ("threading.py", "queue.py", "selectors.py", "concurrent/futures/_base.py")  # where Python waits for other threads
_IMPORTS = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
_PROFILERS = ("jax/_src/profiler.py", "tensorflow/python/profiler/profiler_v2.py")  # they hold a lock of their own
_STDLIB = threading.__file__.removesuffix("threading.py")


class _Request(Generic[_T]):
    """A function that waits for the main thread, and what came of it."""

    def __init__(self, function: Callable[[], _T], ready: Callable[[], bool]) -> None:
        self.function, self.ready = function, ready
        self.done = threading.Event()
        self.result: _T | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run it here and now."""
        try:
            self.result = self.function()
        except BaseException as error:  # it is the asking thread's, whatever it is
            self.error = error
        self.done.set()

    def answer(self) -> _T:
        """What it returned; raises what it raised."""
        if self.error is not None:
            raise self.error
        return cast(_T, self.result)


_requests: deque[_Request[Any]] = deque()
_pending = threading.Event()  # Python was told to call us, and has not done it yet
_warned = threading.Event()


def on_main_thread(function: Callable[[], _T], ready: Callable[[], bool] = lambda: True) -> _T:
    """Run a function on the main thread, wait for it, and return what it returns; it raises what the function raises.

    `ready` is asked there, just before: the main thread may be inside code of ours that the function would disturb. On the main thread itself
    the function runs at once.
    """
    if threading.current_thread() is threading.main_thread():
        return function()
    request = _Request(function, ready)
    _requests.append(request)
    parked = _ParkedThread()
    while not request.done.wait(_POLL_S):
        _call_soon()
        if parked.since(PARKED_S) and _withdrawn(request):
            _here(request.run)
    return request.answer()


def between_calls(thread: threading.Thread, function: Callable[[], _T]) -> _T:
    """Run a function between two calls of the thread that trains: of the main thread, since Python can ask no other; of others, here."""
    return on_main_thread(function) if thread is threading.main_thread() else _here(function)


def _here(function: Callable[[], _T]) -> _T:
    """Run a function that begins or ends a capture on a thread that does not train. What may happen is said once."""
    if not _warned.is_set() and launches_graphs():
        _warned.set()
        tell(
            "the training runs in a thread of its own, between whose calls a capture cannot end. JAX can crash by that on NVIDIA GPUs; "
            "XLA_FLAGS=--xla_gpu_enable_command_buffer= in its environment avoids it (outpace profile --command-buffers off)"
        )
    return function()


def serve_while(busy: Callable[[float], bool], seconds: float = math.inf) -> None:
    """Wait for threads of ours, which may be waiting for the main thread. `busy` waits so many seconds at most, and tells whether to go on."""
    until = time.monotonic() + seconds
    in_main = threading.current_thread() is threading.main_thread()
    while busy(_POLL_S) and time.monotonic() < until:
        if in_main:
            run_requests(None)


def run_requests(frame: Any) -> None:
    """Run what waits for the main thread, on which this is called. `frame`: where it is, None where the caller knows that it is at rest. Raises
    KeyboardInterrupt where Ctrl-C came meanwhile: it is the program's."""
    for _ in range(len(_requests)):
        if frame is not None and not _between_calls(frame):
            return
        with contextlib.suppress(IndexError):
            request = _requests.popleft()
            if request.ready():
                request.run()
                if isinstance(request.error, KeyboardInterrupt):
                    raise request.error
            else:
                _requests.append(request)


def _between_calls(frame: Any) -> bool:
    """Whether a thread that is at this frame is neither importing a module nor starting or stopping a profiler."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file in _IMPORTS or file.endswith(_PROFILERS):
            return False
        frame = frame.f_back
    return True


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


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
def _called(_: int | None) -> int:
    """What Python calls on the main thread between two bytecodes."""
    _pending.clear()
    try:
        run_requests(sys._getframe(1))
    except KeyboardInterrupt:  # nothing can be raised from here: Python calls that next
        ctypes.pythonapi.Py_AddPendingCall(ctypes.pythonapi.PyErr_SetInterruptEx, signal.SIGINT.value)
    except BaseException:  # nothing of ours reaches the program
        pass
    return 0


def _call_soon() -> None:
    if not _pending.is_set():
        _pending.set()
        if ctypes.pythonapi.Py_AddPendingCall(_called, None):  # the queue is full: next time
            _pending.clear()
