# SPDX-License-Identifier: Apache-2.0
"""Chooses the moments at which a thread's Python stack is sampled: a hundred a second at first,
fifty later. Standard library only.

There are two ways. **Signals** (Linux, when the main thread trains): two timers of the kernel send
a real-time signal to that thread alone; Python's handler runs there between two bytecodes. A line
of Python is therefore sampled while it runs. C code, whether it releases the GIL or not, is sampled
as it returns, on the line that called it, and the moments that passed meanwhile are counted for
that line. System calls that a signal interrupts are restarted. **A thread** (otherwise): it needs
the GIL to read the stack, and forces its release (`release_gil`). Of short pieces of Python between
calls that release the GIL, a part is counted for the call that follows. Each sample is weighted by
the time since the last one, so that C code that holds the GIL is not lost.

Measured on a loop of 2 ms of Python, 0.4 ms of sorting and 3 ms of sleep (36%, 8%, 56%): signals
gave 38%, 7% and 55%. With 37%, 5% and 58% a thread gave 28%, 4% and 68%; without the forced release
0%, 0% and 100%. A sample costs 6 µs on the training thread at 40 frames. The cost of a timer's
interrupt depends on the machine: nothing to speak of on most, 0.1 ms and so 1% of the step inside a
nested virtual machine (where a thread costs twice that).

The handler runs on a stack of its own. Code that a library compiled for itself (oneDNN's matrix
products in TensorFlow) stores data below the stack's end, where a signal would overwrite them and
crash the program. Without such a stack no signals are used.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from outpace.capture.faults import count_fault, suppress_faults
from outpace.capture.main_thread import run_requests

# (moment on the monotonic clock, time that the sample represents), both ns
SamplePoint = tuple[int, int]
SampleCallback = Callable[[FrameType, list[SamplePoint]], None]

# periods of the two timers, which cannot both be in phase with steps of one duration; 101 moments a
# second
SIGNAL_PERIODS_NS = (17_000_000, 23_500_000)
# time after which the rate is halved: a window of few short steps needs more moments than a long
# window
SLOWER_AFTER_NS = 5_000_000_000
THREAD_PERIOD_NS = 9_870_000  # average period of the thread
# times for which the GIL is released before a sample, so that a thread is not always sampled where
# it releases the GIL itself
GIL_RELEASE_S = (0.0005, 0.0031, 0.0013, 0.0044, 0.0022)
_SWITCH_S = 0.00005
_MICROSECOND = 1e-6
MAX_POINTS = 32  # maximum number of moments per sample; more are thinned out and get more weight
# files whose functions run on the thread by themselves and belong to no line of the program
_OWN_FILES = (__file__, os.path.join(os.path.dirname(__file__), "pauses.py"))
_SS_DISABLE, _STACK_BYTES = 2, 1 << 18
_CLOCK_MONOTONIC, _TIMER_ABSTIME, _SIGEV_THREAD_ID = 1, 1, 4


class _Event(ctypes.Structure):
    """`struct sigevent` of Linux."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("thread", ctypes.c_int),
        ("pad", ctypes.c_char * 44),
    )


class _Times(ctypes.Structure):
    """`struct itimerspec` of Linux: the interval, then the first time."""

    _fields_ = (
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("first_s", ctypes.c_long),
        ("first_ns", ctypes.c_long),
    )


class _Stack(ctypes.Structure):
    """`stack_t` of Linux."""

    _fields_ = (("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


class _Claim:
    """The real-time signal that this process uses, and the callback of its handler.

    number: number of the signal; None while none is claimed.
    callback: function that gets the frame of each tick.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.callback: Callable[[FrameType], None] | None = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handler of the signal. A late tick finds no callback.

        It also runs the requests to the main thread: pending calls do not interrupt Python's sleep,
        but signals do.
        """
        run_requests(frame)
        callback = self.callback
        if callback is not None and frame is not None:
            callback(frame)

    def drop(self) -> None:
        """Restore the signal's default; only the main thread can."""
        if self.number is not None and _is_main_thread():
            # ignored first, which drops a pending signal: by default it would end the process
            signal.signal(self.number, signal.SIG_IGN)
            signal.signal(self.number, signal.SIG_DFL)
            self.number = None


_claim = _Claim()
_stack: ctypes.Array[ctypes.c_char] | None = None


def claim_signal() -> bool:
    """Claim a free real-time signal, once per process, and return whether there is one.

    Returns False where none is free, and outside the main thread while none is claimed.
    """
    if _claim.number is not None:
        return True
    if sys.platform != "linux" or not _is_main_thread() or not _has_own_stack():
        return False
    for number in range(signal.SIGRTMAX - 3, signal.SIGRTMIN + 3, -1):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _claim.handle)
            signal.siginterrupt(number, False)
            _claim.number = number
            return True
    return False


def _has_own_stack() -> bool:
    """Whether signal handlers of this thread run on a stack of their own (Python's do since 3.10);
    creates one where there is none.
    """
    global _stack
    libc = ctypes.CDLL(None)
    current = _Stack()
    if libc.sigaltstack(None, ctypes.byref(current)):
        return False
    if not current.flags & _SS_DISABLE:
        return True
    memory = ctypes.create_string_buffer(_STACK_BYTES)
    new_stack = _Stack(ctypes.addressof(memory), 0, _STACK_BYTES)
    if libc.sigaltstack(ctypes.byref(new_stack), None):
        return False
    _stack = memory  # must live as long as the process
    return True


def _is_main_thread() -> bool:
    """Whether this is the main thread."""
    return threading.current_thread() is threading.main_thread()


class SignalTicks:
    """Moments by signals to the main thread; `claim_signal` must have claimed one."""

    def __init__(self) -> None:
        # (timer, [period, next moment]), ns
        self._timers: list[tuple[ctypes.c_void_p, list[int]]] = []
        self._libc: Any = None
        self._is_busy = False
        self._callback: SampleCallback | None = None
        self._moment_ns = 0  # time that one moment represents, ns
        self._slower_at_ns: int | None = None

    def start(self, callback: SampleCallback) -> bool:
        """Start the timers; `callback` gets the frame and the moments of each sample. Returns False
        where the system has no such timers.
        """
        main = threading.main_thread()
        if _claim.number is None or _claim.callback is not None or main.native_id is None:
            return False
        self._libc = ctypes.CDLL(None)
        if not hasattr(self._libc, "timer_create"):  # in the GNU C library before 2.34
            self._libc = ctypes.CDLL("librt.so.1")
        self._callback = callback
        now = time.monotonic_ns()
        shift = now % 1_009  # other periods in every capture
        periods = [period + 500 * shift for period in SIGNAL_PERIODS_NS]
        self._slower_at_ns = now + SLOWER_AFTER_NS
        self._moment_ns = round(1 / sum(1 / period for period in periods))
        for period in periods:
            if not self._add_timer(main.native_id, period, now):
                self.stop()
                return False
        _claim.callback = self._tick
        return True

    def _add_timer(self, thread: int, period: int, now: int) -> bool:
        """Create and start a timer that signals the thread; False where that fails."""
        timer = ctypes.c_void_p()
        event = _Event(signo=_claim.number or 0, notify=_SIGEV_THREAD_ID, thread=thread)
        if self._libc.timer_create(_CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)):
            return False
        plan = [period, now + period]
        self._timers.append((timer, plan))
        return self._set_timer(timer, plan)

    def _set_timer(self, timer: ctypes.c_void_p, plan: list[int]) -> bool:
        """Start a timer at its next moment; False where that fails."""
        period, first = plan
        times = _Times(*divmod(period, 10**9), *divmod(first, 10**9))
        return not self._libc.timer_settime(timer, _TIMER_ABSTIME, ctypes.byref(times), None)

    def _slow_down(self, now: int) -> None:
        """Double the periods of the timers."""
        self._slower_at_ns = None
        self._moment_ns *= 2
        for timer, plan in self._timers:
            plan[:] = 2 * plan[0], now + 2 * plan[0]
            self._set_timer(timer, plan)

    def stop(self) -> None:
        """Stop the timers. Moments that a long call has delayed are counted for the current frame
        of the thread.
        """
        if _claim.callback == self._tick:
            _claim.callback = None
        for timer, _ in self._timers:
            self._libc.timer_delete(timer)
        if not _is_main_thread():
            frame = sys._current_frames().get(threading.main_thread().ident or 0)
            if frame is not None:
                self._tick(frame)
        self._timers.clear()
        _claim.drop()

    def _tick(self, frame: FrameType) -> None:
        """Sample the frame for all moments that have passed. A signal may arrive in the middle of
        this very function.
        """
        if self._is_busy or self._callback is None:
            return
        self._is_busy = True
        try:
            # the signal arrived as one of Outpace's own calls began
            while frame.f_code.co_filename in _OWN_FILES and frame.f_back is not None:
                frame = frame.f_back
            now = time.monotonic_ns()
            points: list[SamplePoint] = []
            for _, plan in self._timers:
                points += _pop_due_points(plan, now, self._moment_ns)
            if points:
                self._callback(frame, points)
            if self._slower_at_ns is not None and now >= self._slower_at_ns:
                self._slow_down(now)
        except Exception as error:
            count_fault(error)
            # the profile has no further Python lines, and the program is not disturbed
            _claim.callback = None
        finally:
            self._is_busy = False


def _pop_due_points(plan: list[int], now: int, weight: int) -> list[SamplePoint]:
    """Return the moments of one timer that have passed, with `weight` ns of weight, and advance
    `plan` ([period, next moment]).
    """
    period, first = plan
    count = (now - first) // period + 1
    if count <= 0:
        return []
    plan[1] = first + count * period
    if count <= MAX_POINTS:
        return [(first + index * period, weight) for index in range(count)]
    return [(first + index * count * period // MAX_POINTS, weight * count // MAX_POINTS) for index in range(MAX_POINTS)]


class _ShortSwitchInterval:
    """Python's switch interval, short while any thread is inside this context, and restored
    afterwards.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._user_count, self._original_s = 0, 0.0
        if sys.platform != "win32":
            os.register_at_fork(after_in_child=self._restore_after_fork)

    def __enter__(self) -> None:
        with self._lock:
            self._user_count += 1
            if self._user_count == 1:
                self._original_s = sys.getswitchinterval()
                sys.setswitchinterval(_SWITCH_S)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._user_count -= 1
            if not self._user_count:
                self._restore()

    def _restore(self) -> None:
        """Restore the interval."""
        # not where the program has set another interval meanwhile
        if abs(sys.getswitchinterval() - _SWITCH_S) < _MICROSECOND:
            # Python truncates to whole microseconds
            sys.setswitchinterval(self._original_s + _MICROSECOND / 2)

    def _restore_after_fork(self) -> None:
        """Restore the interval in a forked child, which has none of the threads that would do
        it.
        """
        if self._user_count:
            self._restore()
        self._lock, self._user_count = threading.Lock(), 0


_short_switch_interval = _ShortSwitchInterval()


def release_gil(seconds: float) -> None:
    """Let the other threads run for `seconds`, and then stop them wherever they are.

    Without it, a thread of Outpace that wakes gets the GIL where another thread releases it by
    itself, as it reads a file, and never between two such places (before 5 ms are over); a callback
    from C, at whose end the GIL is free, would never be sampled. A thread that wants the GIL
    meanwhile gets it within a twentieth of a millisecond.
    """
    with _short_switch_interval:
        time.sleep(seconds)


class ThreadTicks:
    """Moments by a thread of its own, for any thread and any system; the module's docstring says
    what it misses.
    """

    def __init__(self, thread_id: int) -> None:
        """Create it for the thread with this identity."""
        self._thread_id = thread_id
        self._stop_event = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, callback: SampleCallback) -> bool:
        """Start the sampling thread; `callback` gets the frame and the moments of each sample.
        Returns True.
        """
        self._thread = threading.Thread(target=self._run, args=(callback,), name="outpace-sampler", daemon=True)
        self._thread.start()
        return True

    def stop(self) -> None:
        """Stop sampling; wait one period at most for the sampling thread."""
        self._stop_event.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(1.0)

    def _run(self, callback: SampleCallback) -> None:
        """Sample at random intervals until `stop` is called or the watched thread ends."""
        last_ns = time.monotonic_ns()
        seed = last_ns
        with suppress_faults():
            while True:
                # a generator of its own, because `random` belongs to the program
                seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
                release_s = GIL_RELEASE_S[seed % len(GIL_RELEASE_S)]
                wait_ns = THREAD_PERIOD_NS // 2 + (seed >> 33) % THREAD_PERIOD_NS
                wanted_ns = time.monotonic_ns() + wait_ns
                if self._stop_event.wait(max(0.0, wait_ns / 1e9 - release_s)):
                    return
                release_gil(release_s)
                now_ns = time.monotonic_ns()
                frame = sys._current_frames().get(self._thread_id)
                if frame is None:  # the thread has ended
                    return
                callback(frame, _spread_points(last_ns, wanted_ns, now_ns))
                last_ns = now_ns


def _spread_points(last_ns: int, wanted_ns: int, now_ns: int) -> list[SamplePoint]:
    """Return the moments of one sample: the wanted one, and more where the GIL came late, because
    the watched thread held it then.

    last_ns, wanted_ns, now_ns: moments of the last sample, of the wanted one and of this one.
    """
    count = min(MAX_POINTS, 1 + max(0, now_ns - wanted_ns) // THREAD_PERIOD_NS)
    return [(wanted_ns + index * (now_ns - wanted_ns) // count, (now_ns - last_ns) // count) for index in range(count)]
