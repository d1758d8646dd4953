"""A process that analyses: whatever a profile costs, or does, whoever asks goes on.

It is a Python of its own, which knows nothing of the program that asks (TensorBoard, a notebook, a
training), and ends with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import TypeVar

from outpace.model import OutpaceError
from outpace.model.input_files import allowed_folders, confine_reads

_T = TypeVar("_T")
_START = "import sys; from {module} import serve; serve(*map(int, sys.argv[1:]))"


class WorkerProcess:
    """Runs functions in one process, which starts with the first of them, and anew after one that
    ended it; if `low_priority`, on cores that nobody else wants. `module`: whose `serve` answers.
    """

    def __init__(self, low_priority: bool = False, module: str = __name__) -> None:
        self._idle = low_priority
        self._start = _START.format(module=module)
        self._turn, self._changing = threading.Lock(), threading.Lock()
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._closed = False

    def call(self, timeout_s: float, function: Callable[..., _T], *arguments: object) -> _T:
        """What the function returns in the worker's process; it must be importable there. Questions
        are answered one after the other. There, too, nothing outside of the folders is opened that
        this thread is confined to.

        Raises what it raises; OutpaceError where it ended the process or took longer than
        `timeout_s`.
        """
        with self._turn:
            _, connection = self._started()
            try:
                connection.send((function, arguments, allowed_folders()))
                if not connection.poll(timeout_s):
                    self.stop()
                    raise OutpaceError(f"The analysis was ended after {timeout_s:.0f} s.")
                failed, value = connection.recv()
            except (EOFError, OSError):
                self.stop()
                raise OutpaceError("The process that analysed it was ended, perhaps for want of memory.") from None
        if failed:
            raise value
        result: _T = value
        return result

    def close(self) -> None:
        """End the process, and start none any more."""
        self._closed = True
        self.stop()

    def stop(self) -> None:
        """End the process, whatever it does."""
        with self._changing:
            running, self._running = self._running, None
        if running is not None:
            process, connection = running
            process.kill()
            process.wait()
            connection.close()

    def _started(self) -> tuple[subprocess.Popen[bytes], Connection]:
        if sys.platform == "win32":
            raise OutpaceError("A process that analyses inherits a pipe's end, as Linux and macOS have it.")
        with self._changing:
            if self._closed:
                raise OutpaceError("The process that analyses is being closed.")
            if self._running is None:
                own, its = Pipe()
                with its:
                    command = [sys.executable, "-c", self._start, str(its.fileno()), str(int(self._idle))]
                    process = subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        pass_fds=[its.fileno()],
                        env=_environment(),
                    )
                self._running = process, own
            return self._running


def _environment() -> dict[str, str]:
    """The worker finds the packages that this process has found, wherever from."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def serve(descriptor: int, low_priority: int) -> None:
    """The worker's process: answers until whoever asks has gone."""
    if sys.platform == "win32":  # where none is started
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is for who asks
    if low_priority:
        os.nice(19)
        with contextlib.suppress(AttributeError, OSError):  # Linux
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    asking = Connection(descriptor)
    while True:
        try:
            function, arguments, folders = asking.recv()
        except EOFError:
            return
        try:
            with confine_reads(folders):
                answer = False, function(*arguments)
        except Exception as error:  # the one who asked learns of it
            answer = True, error
        try:
            asking.send(answer)
        except BrokenPipeError:
            return
        except Exception as error:  # what cannot be sent
            asking.send((True, OutpaceError(f"{type(error).__name__}: {error}")))
