"""What makes a short run shorter, at its start and its end. For processes that are Outpace's own: a
training script keeps its settings.
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
_AGAIN = 20.0  # seconds between two raises; supervisors wait 10 to 90 before they kill
_ARENA_MAX, _MMAP_THRESHOLD, _TOP_PAD, _TRIM_THRESHOLD = -8, -3, -2, -1  # of glibc's malloc.h


def configure_process() -> None:
    """Settings to make before NumPy is imported.

    A report makes large arrays, uses each once and ends: memory that is freed serves the next
    array, in whatever thread, instead of going back to the system (fresh pages cost a sixth of a
    report's time), no garbage is collected, and BLAS, which is not used, starts no threads.
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
        if sys.platform != "win32":  # where nothing raises this
            signal.setitimer(signal.ITIMER_REAL, 0)
        atexit._run_exitfuncs()
        signal.signal(self.signal_number, signal.SIG_DFL)
        os.kill(os.getpid(), self.signal_number)
        os._exit(128 + self.signal_number)  # not reached, unless the signal is blocked


def open_missing_streams() -> None:
    """Stand in for standard streams that were closed before this process started (`2>&-`, some
    daemons and schedulers). Python has None in their place, and the next files to be opened would
    get their numbers, and with those what libraries and child processes print.

    Input is at its end, and what goes to standard error is lost. Writing to standard output fails
    here; what a child process prints is lost.
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
        stream = open(os.open(os.devnull, flags), mode, encoding="utf-8")  # noqa: SIM115  # as long as the process lives
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
    """Let standard output and error write all of a text, also where Python's own are unbuffered
    (PYTHONUNBUFFERED): of what a pipe takes in part, as when the process was stopped meanwhile,
    those lose the rest (python/cpython#85393). A path or a name may hold characters that the output
    lacks; and standard error may take no more, which is no reason to fail.
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

    Where the exception is raised inside a `__del__` or a C callback, Python prints it and goes on:
    it is raised again every 20 seconds.
    """
    if sys.platform == "win32":  # it ends a process without a word
        return
    ending = (signal.SIGTERM, signal.SIGHUP)

    def told(number: int, frame: FrameType | None) -> None:
        def again(_: int, frame: FrameType | None) -> NoReturn:
            raise TerminationSignal(number)

        for each in ending:
            signal.signal(each, signal.SIG_IGN)  # ignore repeats: supervisors send two signals in a row
        signal.signal(signal.SIGALRM, again)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN, _AGAIN)
        raise TerminationSignal(number)

    for number in ending:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, told)


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
