"""The runs below the workbench's folders, newest first, each under an id that its address keeps."""

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
    """A run and where it was found: `root` as the user gave it, `logdir` the log directory below it
    ("" for the root itself); `outside`: what of it a link leads out of the folders for, so that it
    is not opened.
    """

    info: RunInfo
    root: str
    logdir: str
    escaping_link: str = ""

    @once
    def id(self) -> str:
        """What the run's addresses contain: the same as long as it lies where it does."""
        return path_id(self.info.folder)


def path_id(folder: str) -> str:
    """The id of the run in a folder, a path or a URL, however the path is written."""
    place = folder
    if not is_url(folder):
        with contextlib.suppress(
            OSError, ValueError
        ):  # what cannot be resolved, or is no path at all, is none of the runs here
            place = os.path.realpath(os.path.expanduser(folder))
    return hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()[:12]


class RunList:
    """The runs below some folders, as they are whenever it is asked; what has not changed is not
    made again.

    outside: what of a run's folder a link leads out of the folders for, which is looked at once in
    each state of its files. `failures`: why a folder could not be read the last time, by how it was
    given.
    """

    def __init__(self, roots: Sequence[str], find_escaping_link: Callable[[str], str] = lambda _: "") -> None:
        self._roots, self._outside, self._looks, self._lock = tuple(roots), find_escaping_link, RunCache(), threading.Lock()
        self._last: tuple[ListedRun, ...] = ()
        self.failures: dict[str, str] = {}

    def refresh(self) -> tuple[ListedRun, ...]:
        """All runs, newest first; the same tuple as before where none has changed. A folder that is
        not there, or not yet, has none.
        """
        with self._lock:
            self._looks.begin_scan()
            before = {(one.info.folder, one.root): one for one in self._last}
            found: dict[str, ListedRun] = {}
            failures: dict[str, str] = {}
            for root in self._roots:
                for info in self._runs_at(root, failures):
                    known = before.get((info.folder, root))
                    same = known is not None and known.info is info
                    with contextlib.suppress(OSError):  # a link is being turned: it is not there for now
                        found.setdefault(info.folder, known if same and known else self._listed(root, info))
            self.failures = failures
            runs = tuple(sorted(found.values(), key=lambda run: run.info.sort_key, reverse=True))
            if len(runs) != len(self._last) or any(one is not other for one, other in zip(runs, self._last, strict=True)):
                self._last = runs
            return self._last

    def _listed(self, root: str, info: RunInfo) -> ListedRun:
        return ListedRun(info, root, _place(root, info), self._outside(info.folder))

    def _runs_at(self, root: str, failures: dict[str, str]) -> tuple[RunInfo, ...]:
        try:
            return find_runs(root, self._looks)
        except NotFoundError:  # nothing is there yet
            return ()
        except Exception as error:  # every store has errors of its own
            failures[root] = str(error) or type(error).__name__
            return ()


def scan_folders(roots: Sequence[str]) -> tuple[ListedRun, ...]:
    """The runs below some folders, newest first, for whoever asks once."""
    return RunList(roots).refresh()


def _place(root: str, info: RunInfo) -> str:
    above = info.folder.rstrip("/").rpartition("/")[0].removesuffix(PROFILE_FOLDER).rstrip("/")
    return above.removeprefix(root.rstrip("/")).strip("/") if above.startswith(root.rstrip("/")) else above
