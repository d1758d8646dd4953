"""The runs below the workbench's folders, newest first, each under an id that its address keeps."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence

from outpace._dataclass import dataclass
from outpace.store.logdir import PROFILE_FOLDER, runs_at
from outpace.store.profiles import RunInfo
from outpace.store.tree import is_url


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
    """The id of the run in a folder, a path or a URL, however the path is written."""
    place = folder
    if not is_url(folder):
        with contextlib.suppress(ValueError):  # what no file system takes for a path, is none of the runs here
            place = os.path.realpath(os.path.expanduser(folder))
    return hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def listed(roots: Sequence[str]) -> tuple[Listed, ...]:
    """All runs below the folders, newest first. A folder that is not there, or not yet, has none."""
    found: dict[str, Listed] = {}
    for root in roots:
        with contextlib.suppress(Exception):  # every store has errors of its own
            for info in runs_at(root):
                found.setdefault(info.folder, Listed(info, root, _place(root, info)))
    return tuple(sorted(found.values(), key=lambda run: run.info.age, reverse=True))


def _place(root: str, info: RunInfo) -> str:
    above = info.folder.rstrip("/").rpartition("/")[0].removesuffix(PROFILE_FOLDER).rstrip("/")
    return above.removeprefix(root.rstrip("/")).strip("/") if above.startswith(root.rstrip("/")) else above
