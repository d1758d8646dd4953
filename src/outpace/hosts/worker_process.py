# SPDX-License-Identifier: Apache-2.0
"""Worker process for analyses: whatever a profile costs or crashes, the calling process continues.

The worker is a separate Python interpreter that has no state of the caller (TensorBoard, a
notebook, a training), and it ends with the caller.
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
    """Runs functions in one process, which starts with the first call, and starts again after a
    call that ended it.

    low_priority: whether the process only uses cores that no other program wants
    module: module whose `serve` function answers
    """

    def __init__(self, low_priority: bool = False, module: str = __name__) -> None:
        self._idle = low_priority
        self._start = _START.format(module=module)
        self._turn, self._changing = threading.Lock(), threading.Lock()
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._closed = False

    def call(self, timeout_s: float, function: Callable[..., _T], *arguments: object) -> _T:
        """Return the result of the function, run in the worker's process, where it must be
        importable. Calls are answered one after the other. The worker opens nothing outside of
        the folders that the calling thread is confined to.

        Raises the exception of the function; OutpaceError where it ended the process or took longer
        than `timeout_s`.
        """
        with self._turn:
            _, connection = self._start_process()
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
        """End the process, and start no further one."""
        self._closed = True
        self.stop()

    def stop(self) -> None:
        """End the process, even during a call."""
        with self._changing:
            running, self._running = self._running, None
        if running is not None:
            process, connection = running
            process.kill()
            process.wait()
            connection.close()

    def _start_process(self) -> tuple[subprocess.Popen[bytes], Connection]:
        if sys.platform == "win32":
            raise OutpaceError("A process that analyses inherits a pipe's end, as Linux and macOS have it.")
        with self._changing:
            if self._closed:
                raise OutpaceError("The process that analyses is being closed.")
            if self._running is None:
                connection, inherited = Pipe()
                with inherited:
                    command = [sys.executable, "-c", self._start, str(inherited.fileno()), str(int(self._idle))]
                    process = subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        pass_fds=[inherited.fileno()],
                        env=_environment(),
                    )
                self._running = process, connection
            return self._running


def _environment() -> dict[str, str]:
    """Return environment variables with which the worker finds the packages that this process has
    found, from any path.
    """
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def serve(descriptor: int, low_priority: int) -> None:
    """Serve calls in the worker's process until the caller has gone."""
    if sys.platform == "win32":  # no worker is started on Windows
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is meant for the caller
    if low_priority:
        os.nice(19)
        with contextlib.suppress(AttributeError, OSError):  # only Linux has this scheduler
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
        except Exception as error:  # the exception is sent to the caller
            answer = True, error
        try:
            asking.send(answer)
        except BrokenPipeError:
            return
        except Exception as error:  # the result cannot be pickled
            asking.send((True, OutpaceError(f"{type(error).__name__}: {error}")))
