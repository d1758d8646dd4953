"""Who analyses for the workbench: a few processes for what a person asks for, so that no run keeps
another one waiting, and others, beside them, for the verdicts of runs that nobody has opened.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from outpace.model import OutpaceError
from outpace.ui import run_summaries
from outpace.ui.folders import Folders
from outpace.ui.run_summaries import RunSummary, SummaryCache
from outpace.ui.runs import ListedRun
from outpace.ui.worker import Worker

_T = TypeVar("_T")
ANALYSIS_TIMEOUT = 600.0  # seconds for the analysis of one run
_MOST = 4  # processes for what is asked for: runs that are analysed at once
_KEPT = 2  # of them that stay, with the profiles that they have open
_MOST_OF_ONE = 6  # requests that wait for one run: as many as a browser has under way
MAX_WAITING = 24  # requests that wait for any run
_WATCHED = 30.0  # seconds after the last look at the list, in which verdicts still fill in
_FILLERS = 2


class BusyError(OutpaceError):
    """Too many requests wait for an analysis already."""


class _Desk:
    """A process, with the runs that it was asked about last and those that it is busy with."""

    def __init__(self) -> None:
        self.worker = Worker()
        self.known: frozenset[str] = frozenset()
        self.busy: frozenset[str] = frozenset()
        self.used = 0.0


class WorkerPool:
    """Answers what is asked of runs, each called by its folder, in as many processes as runs are
    asked about, up to a few. A run never takes more than one of them, and its profile stays open
    there.
    """

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._desks: list[_Desk] = []
        self._change = threading.Condition()
        self._waiting: Counter[str] = Counter()
        self._closed = False

    @contextlib.contextmanager
    def reserve(self, folders: Sequence[str]) -> Iterator[None]:
        """A place among the requests that wait for runs. Raises BusyError where none is left:
        whoever asks for something else needs threads, too.
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
                self._waiting += Counter()  # without those that nobody waits for

    def ask(self, folders: Sequence[str], function: Callable[..., _T], *arguments: object) -> _T:
        """What the function says in a process, which opens nothing outside of the folders. Raises
        what it and `Worker.call` do.
        """
        wanted = frozenset(folders)
        desk = self._taken(wanted)
        try:
            with self._folders.confined():
                return desk.worker.call(ANALYSIS_TIMEOUT, function, *arguments)
        finally:
            self._give_back(desk)

    def close(self) -> None:
        """End all processes, and start none any more."""
        with self._change:
            self._closed = True
            self._change.notify_all()
            desks = list(self._desks)
        for desk in desks:
            desk.worker.close()

    def _taken(self, runs: frozenset[str]) -> _Desk:
        """A process that is free for some runs, once there is one."""
        with self._change:
            while not self._closed:
                desk = None if any(runs & each.busy for each in self._desks) else self._free(runs)
                if desk is not None:
                    desk.busy = desk.known = runs
                    desk.used = time.monotonic()
                    return desk
                self._change.wait()
        raise OutpaceError("The processes that analyse are being closed.")

    def _free(self, runs: frozenset[str]) -> _Desk | None:
        """The free process that was asked about these runs before, or the one that was not asked
        for the longest time; else a new one.
        """
        free = [desk for desk in self._desks if not desk.busy]
        if free:
            return max(free, key=lambda desk: (len(runs & desk.known), -desk.used))
        if len(self._desks) == _MOST:
            return None
        self._desks.append(_Desk())
        return self._desks[-1]

    def _give_back(self, desk: _Desk) -> None:
        with self._change:
            desk.busy = frozenset()
            idle = sorted((each for each in self._desks if not each.busy), key=lambda each: each.used)
            spare = idle[: max(0, len(self._desks) - _KEPT)]
            self._desks = [each for each in self._desks if each not in spare]
            self._change.notify_all()
        for each in spare:
            each.worker.close()


class SummaryFiller:
    """Fills in the verdicts of runs that nobody has opened, newest first, as long as somebody looks
    at the list: in two processes on cores that nobody else wants, so that a run that takes long
    keeps one of them.
    """

    def __init__(self, runs: Callable[[], Sequence[ListedRun]], cache: SummaryCache, folders: Folders) -> None:
        self._runs, self._cache, self._folders = runs, cache, folders
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        self._last_look = -_WATCHED
        self._closed = False
        self._looked = [threading.Event() for _ in range(_FILLERS)]
        self._workers = [Worker(low_priority=True) for _ in range(_FILLERS)]
        for at in range(_FILLERS):
            threading.Thread(target=self._fill, args=(at,), daemon=True).start()

    def notify_viewed(self) -> None:
        """Somebody looks at the list."""
        self._last_look = time.monotonic()
        self._wake()

    def close(self) -> None:
        """End the processes."""
        self._closed = True
        self._wake()
        for worker in self._workers:
            worker.close()

    def _wake(self) -> None:
        for event in self._looked:
            event.set()

    def _fill(self, at: int) -> None:
        while not self._closed:
            self._looked[at].wait()
            self._looked[at].clear()
            with contextlib.suppress(Exception):  # whatever is wrong, the page says it, too, and its next look goes on here
                while not self._closed and time.monotonic() - self._last_look < _WATCHED and (run := self._next()) is not None:
                    self._judge(run, self._workers[at])
            self._workers[at].stop()

    def _next(self) -> ListedRun | None:
        """The newest run that has no verdict, and for which none is under way."""
        found = self._runs()
        with self._lock:
            for run in found:
                if not run.escaping_link and run.info.folder not in self._under_way and self._cache.get(run.info) is None:
                    self._under_way.add(run.info.folder)
                    return run
        return None

    def _judge(self, run: ListedRun, worker: Worker) -> None:
        try:
            with self._folders.confined():
                verdict = worker.call(ANALYSIS_TIMEOUT, run_summaries.summarize_run, run.info.folder)
        except Exception as error:  # whatever one run does, the others have their line
            verdict = RunSummary(error=str(error) or type(error).__name__)
        try:
            if not self._closed:
                self._cache.put(run.info, verdict)
        finally:
            with self._lock:
                self._under_way.discard(run.info.folder)
