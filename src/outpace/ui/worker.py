"""A process that analyses for the workbench: whatever a profile costs, or does, the server goes on."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, TimeoutError
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from outpace.model import OutpaceError

if TYPE_CHECKING:
    from outpace.api import Profile
    from outpace.model import Report
    from outpace.ui.parts import Choice
    from outpace.ui.verdicts import Verdict

_T = TypeVar("_T")
_MOST_OPEN = 2  # profiles that a worker keeps open: a report's, and the one that was read before it


class Worker:
    """Runs functions in one process of its own, which starts with the first of them, and anew after one that ended it."""

    def __init__(self, nice: int = 0) -> None:
        self._nice, self._lock = nice, threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def ask(self, seconds: float, function: Callable[..., _T], *arguments: object) -> _T:
        """What the function returns in the worker's process. It must be importable there.

        Raises what it raises; OutpaceError where it ended the process or took longer than `seconds`.
        """
        pool = self._started()
        future = pool.submit(function, *arguments)
        try:
            return future.result(seconds)
        except TimeoutError:
            self.stop()
            raise OutpaceError(f"The analysis was ended after {seconds:.0f} s.") from None
        except BrokenProcessPool:
            self.stop()
            raise OutpaceError("The process that analysed it was ended, perhaps for want of memory.") from None

    def stop(self) -> None:
        """End the process, whatever it does."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            for process in list((pool._processes or {}).values()):
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)

    def _started(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(1, context, initializer=_begin, initargs=(self._nice, os.getpid()))
            return self._pool


def _begin(nice: int, parent: int) -> None:
    """Settle the worker's process: it ends with the server, which also answers the terminal's Ctrl-C."""
    import signal

    from outpace import api

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(nice)
    api.load(None, "html")

    def watch() -> None:
        while os.getppid() == parent:
            threading.Event().wait(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


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
