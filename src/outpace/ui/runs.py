# SPDX-License-Identifier: Apache-2.0
"""The runs below the workbench's folders, newest first, each with an id for its address."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Sequence

from outpace._caching import once
from outpace._dataclass import dataclass
from outpace.model.errors import NotFoundError
from outpace.store.logdir import PROFILE_FOLDER, RunCache, find_runs
from outpace.store.profiles import RunInfo
from outpace.store.tree import is_url


@dataclass(frozen=True)
class ListedRun:
    """A run below the served folders.

    info: name, folder and state of the run.
    root: the folder in the user's spelling.
    logdir: the log directory below `root` ("" for the root itself).
    escaping_link: a path of the run that a link leads out of the folders, so that the run is not
        opened; "" without one.
    """

    info: RunInfo
    root: str
    logdir: str
    escaping_link: str = ""

    @once
    def id(self) -> str:
        """The id in the run's addresses; it depends only on where the run lies."""
        return path_id(self.info.folder)


def path_id(folder: str) -> str:
    """Return the id of the run in a folder, a path or a URL, in whatever spelling."""
    place = folder
    if not is_url(folder):
        # a path that cannot be resolved, or is not valid, is not a run of these folders
        with contextlib.suppress(OSError, ValueError):
            place = os.path.realpath(os.path.expanduser(folder))
    return hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()[:12]


class RunList:
    """The runs below some folders. Each call of `refresh` scans the folders, and reuses the entries
    of runs that have not changed.

    failures: why a folder could not be read in the last scan, by the folder as the user gave it.
    """

    def __init__(self, roots: Sequence[str], find_escaping_link: Callable[[str], str] = lambda _: "") -> None:
        """Create the list. `find_escaping_link(folder)` returns a path of a run that a link leads
        out of the folders, or ""; it is called once for each state of the run's files.
        """
        self._roots, self._outside, self._looks, self._lock = tuple(roots), find_escaping_link, RunCache(), threading.Lock()
        self._last: tuple[ListedRun, ...] = ()
        self.failures: dict[str, str] = {}

    def refresh(self) -> tuple[ListedRun, ...]:
        """Return all runs, newest first; the same tuple as before where none has changed. A folder
        that does not exist has none.
        """
        with self._lock:
            self._looks.begin_scan()
            before = {(one.info.folder, one.root): one for one in self._last}
            by_folder: dict[str, ListedRun] = {}
            failures: dict[str, str] = {}
            for root in self._roots:
                for info in self._runs_at(root, failures):
                    previous = before.get((info.folder, root))
                    same = previous is not None and previous.info is info
                    with contextlib.suppress(OSError):  # a link is being replaced: the run is skipped for now
                        by_folder.setdefault(info.folder, previous if same and previous else self._list_run(root, info))
            self.failures = failures
            runs = tuple(sorted(by_folder.values(), key=lambda run: run.info.sort_key, reverse=True))
            if len(runs) != len(self._last) or any(one is not other for one, other in zip(runs, self._last, strict=True)):
                self._last = runs
            return self._last

    def _list_run(self, root: str, info: RunInfo) -> ListedRun:
        """Return the entry of a new or changed run. Raises OSError while a link of the run is being
        replaced.
        """
        return ListedRun(info, root, _place(root, info), self._outside(info.folder))

    def _runs_at(self, root: str, failures: dict[str, str]) -> tuple[RunInfo, ...]:
        """Return the runs below a folder; none, with the reason in `failures`, where it cannot be
        read.
        """
        try:
            return find_runs(root, self._looks)
        except NotFoundError:  # the folder does not exist yet
            return ()
        except Exception as error:  # every store has errors of its own
            failures[root] = str(error) or type(error).__name__
            return ()


def scan_folders(roots: Sequence[str]) -> tuple[ListedRun, ...]:
    """Return the runs below some folders, newest first, from a single scan."""
    return RunList(roots).refresh()


def _place(root: str, info: RunInfo) -> str:
    """Return a run's log directory relative to the root."""
    above = info.folder.rstrip("/").rpartition("/")[0].removesuffix(PROFILE_FOLDER).rstrip("/")
    return above.removeprefix(root.rstrip("/")).strip("/") if above.startswith(root.rstrip("/")) else above
