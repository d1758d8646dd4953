"""What may be opened: runs and scripts below the folders that the server was given, wherever links lead."""

from __future__ import annotations

import os
from collections.abc import Sequence

from outpace.model import NotFoundError, UsageError
from outpace.model.text import meant
from outpace.store.tree import is_url
from outpace.ui.runs import Listed, listed


class Folders:
    """The folders as they were given; NotFoundError for one that is not there."""

    def __init__(self, given: Sequence[str]) -> None:
        missing = [folder for folder in given if not is_url(folder) and not os.path.isdir(folder)]
        if missing:
            raise NotFoundError(f"There is no folder {missing[0]}. Give folders with runs or scripts.")
        self._given = tuple(given)
        self._real = tuple(os.path.realpath(folder) for folder in given if not is_url(folder))

    def runs(self) -> list[Listed]:
        """The runs, newest first; none that a link leads out of the folders for, of whose files neither."""
        return [run for run in listed(self._given) if self._whole(run.info.folder)]

    def run(self, name: str) -> str:
        """The folder of a run, by its id, its name, or the end of its path. Raises NotFoundError, or UsageError where it may be several."""
        runs = self.runs()
        wanted = name.rstrip("/")
        found = [run for run in runs if run.id == wanted] or [
            run for run in runs if wanted and f"/{run.info.folder.rstrip('/')}".endswith(f"/{wanted}")
        ]
        if not found:
            known = [run.info.run for run in runs]
            raise NotFoundError(
                f"There is no run {name!r} in the served folders.{meant(name, known)} The question 'runs' lists them."
            )
        if len(found) > 1:
            raise UsageError(
                f"{name!r} may be any of {len(found)} runs. Give the id of one: {', '.join(run.id for run in found[:5])}."
            )
        return found[0].info.folder

    def file(self, path: str) -> str:
        """A file or folder below the served ones, from one of them or as a whole path. Raises NotFoundError for any other, there or not."""
        for root in self._real if "\0" not in path else ():
            place = os.path.realpath(os.path.join(root, path))
            if self.holds(place) and (os.path.isfile(place) or os.path.isdir(place)):
                return place
        raise NotFoundError(f"There is no file or folder {path!r} in the served folders.")

    def shown(self, path: str) -> str:
        """A path below the served folders, from the one that holds it."""
        root = next(root for root in self._real if _below(path, root))
        return os.path.relpath(path, root)

    def holds(self, path: str) -> bool:
        """Whether a path leads to something below the served folders."""
        return any(_below(os.path.realpath(path), root) for root in self._real)

    def require(self, folder: str) -> None:
        """Raise NotFoundError where a run's folder, or a file in it, has gone, or a link leads out of the served folders."""
        if not self._whole(folder):
            raise NotFoundError(f"{folder} was changed while it was read. Ask again.")

    def _whole(self, folder: str) -> bool:
        if is_url(folder):
            return True
        try:
            with os.scandir(folder) as entries:
                return self.holds(folder) and all(self.holds(entry.path) for entry in entries)
        except OSError:  # it has gone, or is not for us
            return False


def _below(path: str, root: str) -> bool:
    return os.path.commonpath((path, root)) == root
