"""What may be asked about: runs and scripts below the folders that the server was given, wherever
links lead.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from outpace.model import NotFoundError, UsageError
from outpace.model.text import format_suggestion
from outpace.ui import folders
from outpace.ui.runs import ListedRun, scan_folders


class ServedFolders(folders.Folders):
    """The folders as they were given; NotFoundError for one that is not there."""

    def __init__(self, roots: Sequence[str]) -> None:
        super().__init__(roots)
        self.require_exists("Give folders with runs or scripts.")

    def find_runs(self) -> list[ListedRun]:
        """The runs, newest first; none that a link leads out of the folders for, of whose files
        neither.
        """
        return [run for run in scan_folders(self.roots) if not self.find_escaping_link(run.info.folder)]

    def require_run(self, name: str) -> str:
        """The folder of a run, by its id, its name, or the end of its path. Raises NotFoundError,
        or UsageError where it may be several.
        """
        runs = self.find_runs()
        wanted = name.rstrip("/")
        found = [run for run in runs if run.id == wanted] or [
            run for run in runs if wanted and f"/{run.info.folder.rstrip('/')}".endswith(f"/{wanted}")
        ]
        if not found:
            known = [run.info.run for run in runs]
            raise NotFoundError(
                f"There is no run {name!r} in the served folders.{format_suggestion(name, known)} The question 'runs' lists them."
            )
        if len(found) > 1:
            raise UsageError(
                f"{name!r} may be any of {len(found)} runs. Give the id of one: {', '.join(run.id for run in found[:5])}."
            )
        return found[0].info.folder

    def require_file(self, path: str) -> str:
        """A file or folder below the served ones, from one of them or as a whole path. Raises
        NotFoundError for any other, there or not.
        """
        for root in self.real_paths if "\0" not in path else ():
            place = os.path.realpath(os.path.join(root, path))
            if self.contains(place) and (os.path.isfile(place) or os.path.isdir(place)):
                return place
        raise NotFoundError(f"There is no file or folder {path!r} in the served folders.")

    def relative_path(self, path: str) -> str:
        """A path below the served folders, from the one that holds it."""
        root = next(root for root in self.real_paths if os.path.commonpath((path, root)) == root)
        return os.path.relpath(path, root)
