"""A process that analyses for the workbench: whatever a profile costs, or does, the server goes on.

It is a Python of its own, which knows nothing of the program that asks (TensorBoard, a notebook), and ends with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from outpace.model import OutpaceError

if TYPE_CHECKING:
    from outpace.api import Profile
    from outpace.model import Report
    from outpace.ui.parts import Choice
    from outpace.ui.verdicts import Verdict

_T = TypeVar("_T")
_MOST_OPEN = 2  # profiles that a worker keeps open: a report's, and the one that was read before it
_START = "import sys; from outpace.ui.worker import serve; serve(*map(int, sys.argv[1:]))"


class Worker:
    """Runs functions in one process, which starts with the first of them, and anew after one that ended it; if `idle`, on cores that nobody
    else wants."""

    def __init__(self, idle: bool = False) -> None:
        self._idle = idle
        self._turn, self._changing = threading.Lock(), threading.Lock()
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._closed = False

    def ask(self, seconds: float, function: Callable[..., _T], *arguments: object) -> _T:
        """What the function returns in the worker's process; it must be importable there. Questions are answered one after the other.

        Raises what it raises; OutpaceError where it ended the process or took longer than `seconds`.
        """
        with self._turn:
            _, connection = self._started()
            try:
                connection.send((function, arguments))
                if not connection.poll(seconds):
                    self.stop()
                    raise OutpaceError(f"The analysis was ended after {seconds:.0f} s.")
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
        with self._changing:
            if self._closed:
                raise OutpaceError("The workbench is being closed.")
            if self._running is None:
                own, its = Pipe()
                with its:
                    command = [sys.executable, "-c", _START, str(its.fileno()), str(int(self._idle))]
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


def serve(connection: int, idle: int) -> None:
    """The worker's process: answers until whoever asks has gone."""
    from outpace import api

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C is for the server
    if idle:
        os.nice(19)
        with contextlib.suppress(AttributeError, OSError):  # Linux
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    api.load(None, "html")
    asking = Connection(connection)
    while True:
        try:
            function, arguments = asking.recv()
        except EOFError:
            return
        try:
            answer = False, function(*arguments)
        except Exception as error:  # the one who asked learns of it
            answer = True, error
        try:
            asking.send(answer)
        except BrokenPipeError:
            return
        except Exception as error:  # what cannot be sent
            asking.send((True, OutpaceError(f"{type(error).__name__}: {error}")))


_open: OrderedDict[tuple[str, str], Profile] = OrderedDict()  # in the worker's process


def profile(folder: str, state: str) -> Profile:
    """The opened profile of a run; `state` tells a folder whose files have changed from what it was."""
    from outpace import api

    key = folder, state
    if key not in _open:
        for old in [old for old in _open if old[0] == folder]:
            _open.pop(old).close()
        while len(_open) >= _MOST_OPEN:
            _open.popitem(last=False)[1].close()
        _open[key] = api.open(folder)
    _open.move_to_end(key)
    return _open[key]


class Opened(NamedTuple):
    """A report of a part of a run, what there is to choose from, and of all of a run its verdict."""

    report: Report
    choice: Choice
    verdict: Verdict | None


def opened(folder: str, state: str, query: Mapping[str, str]) -> Opened:
    """The report that an address asks for. Raises UsageError where the run has no such part."""
    from outpace import api
    from outpace.ui.parts import choice
    from outpace.ui.verdicts import of

    whole = profile(folder, state)
    there = choice(whole.run)
    part = there.part(query).of(whole.run)
    if part is whole.run:
        report = whole.report()
        return Opened(report, there, of(whole, report))
    return Opened(api.Profile(part).report(), there, None)


def compared(sides: Sequence[tuple[str, str, str]]) -> Opened:
    """The comparison of two runs, each by its name, its folder and its state."""
    from outpace.compare import Side, compare, report_of
    from outpace.ui.parts import NOTHING

    one, two = (Side.of(name, profile(folder, state).run) for name, folder, state in sides)
    report = report_of(compare(one, two))
    short = f"{report.headline.split(': ')[0].rstrip('.')}."
    return Opened(replace(report, headline=short), NOTHING, None)  # the page says it in full


def glimpsed(folder: str, state: str) -> Opened:
    """What is known first of a run: the picture of its step. What it costs, `opened` then finds done."""
    from outpace.ui.parts import choice

    whole = profile(folder, state)
    return Opened(whole.first_look(), choice(whole.run), None)
