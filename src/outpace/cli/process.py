# SPDX-License-Identifier: Apache-2.0
"""Settings and handlers of Outpace's own processes, which make a short run shorter and its end
clean. A training script does not get these settings.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import io
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

_STREAMS = ("stdin", "stdout", "stderr")  # in the order of their file descriptors
# seconds between two raises of TerminationSignal; supervisors wait 10 to 90 s before they kill a
# process
_AGAIN = 20.0
# parameters of `mallopt` in glibc's malloc.h
_ARENA_MAX, _MMAP_THRESHOLD, _TOP_PAD, _TRIM_THRESHOLD = -8, -3, -2, -1


def configure_process() -> None:
    """Set allocator, garbage collector and BLAS for a report; must be called before NumPy is
    imported.

    A report creates large arrays, uses each once and ends. Freed memory is therefore reused for the
    next array, in any thread, instead of being returned to the system (fresh pages cost a sixth of
    a report's time), no garbage is collected, and BLAS, which is not used, starts no threads.
    """
    gc.disable()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None  # glibc only
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, 1 << 30)
        mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
        mallopt(_TOP_PAD, 16 << 20)


@contextlib.contextmanager
def run_in_background(work: Callable[[], object]) -> Iterator[None]:
    """Return a context manager that runs a function on another core while the block runs. Errors
    of the function are ignored; the code that needs its result fails by itself.
    """

    def quietly() -> None:
        with contextlib.suppress(Exception):
            work()

    thread = threading.Thread(target=quietly)
    thread.start()
    try:
        yield
    finally:
        thread.join()


class TerminationSignal(BaseException):
    """Raised when a signal tells the process to end. Work in progress is abandoned as after an
    error, and its temporary files are removed.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal_number = number

    def end(self) -> NoReturn:
        """End the process by the signal itself, so that the sender sees the expected status."""
        if sys.platform != "win32":  # nothing raises this exception on Windows
            signal.setitimer(signal.ITIMER_REAL, 0)
        atexit._run_exitfuncs()
        signal.signal(self.signal_number, signal.SIG_DFL)
        os.kill(os.getpid(), self.signal_number)
        os._exit(128 + self.signal_number)  # not reached, unless the signal is blocked


def open_missing_streams() -> None:
    """Open substitutes for standard streams that were closed before this process started (`2>&-`,
    some daemons and schedulers).

    Python has None in their place, and the next opened files would get their file descriptors, to
    which libraries and child processes print. Reading from the substitute of standard input finds
    its end; text for standard error is lost. Writing to standard output raises, and what a child
    process prints is lost.
    """
    missing = [name for name in _STREAMS if getattr(sys, name) is None]
    for name in missing:
        number = _STREAMS.index(name)
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)
            if null != number:
                os.close(null)
    for name in missing:
        flags, mode = (os.O_WRONLY, "w") if name == "stderr" else (os.O_RDONLY, "w" if name == "stdout" else "r")
        stream = open(os.open(os.devnull, flags), mode, encoding="utf-8")  # noqa: SIM115  # stays open as long as the process lives
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


class _Whole(io.BufferedWriter):
    """A buffered writer that flushes each write at once and completely."""

    def write(self, data: Any, /) -> int:
        """Write the data and return the number of bytes written."""
        written = super().write(data)
        self.flush()
        return written


class _Sayings(io.FileIO):
    """Standard error for messages to people. Where writing fails (a full disk, a closed pipe), the
    text is lost and no error is raised.
    """

    def write(self, data: Any, /) -> int:
        """Write the data and return the number of bytes that need no further write. Waits where
        the reader is slow.
        """
        with contextlib.suppress(OSError):
            while (written := super().write(data)) is None:
                select.select((), (self,), (), 1.0)
            return written
        return len(data)


def install_full_writes() -> None:
    """Replace standard output and error by streams that write all of a text.

    Python's own unbuffered streams (PYTHONUNBUFFERED) lose the rest of a text that a pipe accepts
    only in part, for example when the process was stopped meanwhile (python/cpython#85393).
    Characters of a path or name that the output cannot encode are replaced. A standard error that
    accepts no more text is no reason to fail.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if name == "stderr" and _is_own(stream):
            raw = _Sayings(_STREAMS.index(name), "w", closefd=False)
            stream = io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, line_buffering=True)
        elif isinstance(stream.buffer, io.RawIOBase):
            stream = io.TextIOWrapper(_Whole(stream.detach()), stream.encoding, write_through=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
        stream.reconfigure(errors="replace")


def _is_own(stream: io.TextIOWrapper) -> bool:
    """Whether a stream is the process's original standard error; a Windows console has a writer of
    its own.
    """
    with contextlib.suppress(OSError):
        return sys.platform != "win32" and stream.fileno() == _STREAMS.index("stderr")
    return False


def raise_on_signals() -> None:
    """From now on, raise `TerminationSignal` on signals that end a process; ignored signals
    (`nohup`) stay ignored.

    Where the exception is raised inside a `__del__` or a C callback, Python prints it and
    continues, so that it is raised again every 20 seconds.
    """
    if sys.platform == "win32":  # Windows ends a process without a signal
        return
    ending = (signal.SIGTERM, signal.SIGHUP)

    def end(number: int, frame: FrameType | None) -> None:
        def repeat(_: int, frame: FrameType | None) -> NoReturn:
            raise TerminationSignal(number)

        for other in ending:
            signal.signal(other, signal.SIG_IGN)  # ignore repeats: supervisors send two signals in a row
        signal.signal(signal.SIGALRM, repeat)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN, _AGAIN)
        raise TerminationSignal(number)

    for number in ending:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)


def require_posix(command: str) -> None:
    """Raise UsageError on Windows, where Outpace reads profiles and cannot capture any."""
    if sys.platform == "win32":
        from outpace.model import UsageError

        raise UsageError(
            f"{command} needs Linux or macOS. On Windows, 'outpace report LOGDIR' explains a profile from any machine."
        )


def exit_process(exit_code: int) -> NoReturn:
    """Run everything registered for the process's end, then end it.

    The interpreter's teardown is skipped: it spends 20 ms on freeing memory that the system takes
    back anyway.
    """
    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(exit_code)
