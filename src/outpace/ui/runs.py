"""The runs below the workbench's folders, newest first, each under an id that its address keeps."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence

from outpace._dataclass import dataclass
from outpace.model import NotFoundError, OutpaceError
from outpace.store.logdir import PROFILE_FOLDER, RunInfo, list_runs, run_at


@dataclass(frozen=True)
class Listed:
    """A run and where it was found: `root` as the user gave it, `place` the log directory below it ("" for the root itself)."""

    info: RunInfo
    root: str
    place: str

    @property
    def id(self) -> str:
        """What the run's addresses contain: the same as long as it lies where it does."""
        return id_of(self.info.folder)


def id_of(folder: str) -> str:
    """The id of the run in a folder, a path or a URL."""
    return hashlib.sha256(folder.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def listed(roots: Sequence[str]) -> tuple[Listed, ...]:
    """All runs below the folders, newest first. A folder that is not there, or not yet, has none."""
    found: dict[str, Listed] = {}
    for root in roots:
        with contextlib.suppress(OutpaceError, OSError):
            for info in _of(root):
                found.setdefault(info.folder, Listed(info, root, _place(root, info)))
    return tuple(sorted(found.values(), key=lambda run: run.info.age, reverse=True))


def _of(root: str) -> Sequence[RunInfo]:
    """The runs of a log directory; or the one that a run's folder, or a profile, is."""
    try:
        runs = list_runs(root)
    except NotFoundError:
        runs = ()
    return runs or (run_at(root),)


def _place(root: str, info: RunInfo) -> str:
    above = info.folder.rstrip("/").rpartition("/")[0].removesuffix(PROFILE_FOLDER).rstrip("/")
    return above.removeprefix(root.rstrip("/")).strip("/") if above.startswith(root.rstrip("/")) else above
