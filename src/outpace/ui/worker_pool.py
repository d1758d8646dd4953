# SPDX-License-Identifier: Apache-2.0
"""The workbench's analysis processes: a few for requests of pages, so that no run delays another
one, and others of low priority for the summaries of runs that nobody has opened.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from outpace.model import OutpaceError
from outpace.ui import first_part
from outpace.ui.folders import Folders
from outpace.ui.run_summaries import RunSummary, SummaryCache
from outpace.ui.runs import ListedRun
from outpace.ui.worker import Worker

_T = TypeVar("_T")
ANALYSIS_TIMEOUT = 600.0  # seconds for the analysis of one run
_MOST = 4  # maximum number of processes for pages' requests: runs analysed at once
_MOST_IDLE = 2  # number of these processes that stay when idle, with their open profiles
_MOST_OF_ONE = 6  # maximum number of requests waiting for one run: a browser's limit of parallel requests
MAX_WAITING = 24  # maximum number of requests waiting for any run
_WATCH_SECONDS = 30.0  # seconds after the last request for the list during which summaries are computed
_FILLERS = 2


class BusyError(OutpaceError):
    """Raised when too many requests are waiting for an analysis."""


class _Desk:
    """An analysis process.

    worker: the process.
    known: runs of its last request, whose profiles are open.
    busy: runs that it is working on; empty while it is idle.
    used: time of its last request, monotonic seconds.
    """

    def __init__(self) -> None:
        self.worker = Worker()
        self.known: frozenset[str] = frozenset()
        self.busy: frozenset[str] = frozenset()
        self.used = 0.0


class WorkerPool:
    """Runs functions about runs, each named by its folder, in a limited number of processes. A run
    is processed by one of them at a time, and its profile stays open there.
    """

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._desks: list[_Desk] = []
        self._change = threading.Condition()
        self._waiting: Counter[str] = Counter()
        self._closed = False

    @contextlib.contextmanager
    def reserve(self, folders: Sequence[str]) -> Iterator[None]:
        """Return a context manager that counts a request among those waiting for runs. Raises
        BusyError where too many are waiting, because requests for other things need threads, too.
        """
        with self._change:
            if max(self._waiting[run] for run in folders) >= _MOST_OF_ONE or self._waiting.total() >= MAX_WAITING:
                raise BusyError("This run is still being analysed, and enough pages wait for it. Try again in a moment.")
            self._waiting.update(folders)
        try:
            yield
        finally:
            with self._change:
                self._waiting.subtract(folders)
                self._waiting += Counter()  # drops entries of zero

    def ask(self, folders: Sequence[str], function: Callable[..., _T], *arguments: object) -> _T:
        """Return the result of the function, called in a process that can open nothing outside of
        the folders. Raises the errors of the function and of `Worker.call`.
        """
        runs = frozenset(folders)
        desk = self._wait_for_desk(runs)
        try:
            with self._folders.confined():
                return desk.worker.call(ANALYSIS_TIMEOUT, function, *arguments)
        finally:
            self._give_back(desk)

    def close(self) -> None:
        """End all processes; none are started afterwards."""
        with self._change:
            self._closed = True
            self._change.notify_all()
            desks = list(self._desks)
        for desk in desks:
            desk.worker.close()

    def _wait_for_desk(self, runs: frozenset[str]) -> _Desk:
        """Wait for a process that is free for some runs, and return it marked as busy."""
        with self._change:
            while not self._closed:
                desk = None if any(runs & other.busy for other in self._desks) else self._find_free(runs)
                if desk is not None:
                    desk.busy = desk.known = runs
                    desk.used = time.monotonic()
                    return desk
                self._change.wait()
        raise OutpaceError("The processes that analyse are being closed.")

    def _find_free(self, runs: frozenset[str]) -> _Desk | None:
        """Return the free process whose last request was about these runs, or else the one that
        has been idle longest; a new one where none is free; None at the maximum.
        """
        free = [desk for desk in self._desks if not desk.busy]
        if free:
            return max(free, key=lambda desk: (len(runs & desk.known), -desk.used))
        if len(self._desks) == _MOST:
            return None
        self._desks.append(_Desk())
        return self._desks[-1]

    def _give_back(self, desk: _Desk) -> None:
        """Mark a process as idle, and end processes that need not stay."""
        with self._change:
            desk.busy = frozenset()
            idle = sorted((other for other in self._desks if not other.busy), key=lambda other: other.used)
            spare = idle[: max(0, len(self._desks) - _MOST_IDLE)]
            self._desks = [other for other in self._desks if other not in spare]
            self._change.notify_all()
        for other in spare:
            other.worker.close()


class SummaryFiller:
    """Computes the summaries of runs that nobody has opened, newest first, while a page shows the
    list. Two processes of low priority do it, so that a run that takes long occupies only one of
    them.
    """

    def __init__(self, runs: Callable[[], Sequence[ListedRun]], cache: SummaryCache, folders: Folders) -> None:
        self._runs, self._cache, self._folders = runs, cache, folders
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        self._last_look = -_WATCH_SECONDS
        self._closed = False
        self._wake_events = [threading.Event() for _ in range(_FILLERS)]
        self._workers = [Worker(low_priority=True) for _ in range(_FILLERS)]
        for index in range(_FILLERS):
            threading.Thread(target=self._fill, args=(index,), daemon=True).start()

    def notify_viewed(self) -> None:
        """Record that a page has requested the list, and continue to compute summaries."""
        self._last_look = time.monotonic()
        self._wake()

    def close(self) -> None:
        """End the processes."""
        self._closed = True
        self._wake()
        for worker in self._workers:
            worker.close()

    def _wake(self) -> None:
        """Wake up the threads."""
        for event in self._wake_events:
            event.set()

    def _fill(self, index: int) -> None:
        """Thread that computes summaries while a page shows the list."""
        while not self._closed:
            self._wake_events[index].wait()
            self._wake_events[index].clear()
            # the page reports the error, too, and its next request continues here
            with contextlib.suppress(Exception):
                while (
                    not self._closed
                    and time.monotonic() - self._last_look < _WATCH_SECONDS
                    and (run := self._next()) is not None
                ):
                    self._judge(run, self._workers[index])
            self._workers[index].stop()

    def _next(self) -> ListedRun | None:
        """Return the newest run that has no summary and for which none is being computed; None
        where there is none.
        """
        runs = self._runs()
        with self._lock:
            for run in runs:
                if not run.escaping_link and run.info.folder not in self._under_way and self._cache.get(run.info) is None:
                    self._under_way.add(run.info.folder)
                    return run
        return None

    def _judge(self, run: ListedRun, worker: Worker) -> None:
        """Compute and store the summary of a run."""
        try:
            with self._folders.confined():
                verdict = worker.call(ANALYSIS_TIMEOUT, first_part.summarize_run, run.info.folder)
        except Exception as error:  # an error of one run must not stop the others
            verdict = RunSummary(error=str(error) or type(error).__name__)
        try:
            if not self._closed:
                self._cache.put(run.info, verdict)
        finally:
            with self._lock:
                self._under_way.discard(run.info.folder)
