# SPDX-License-Identifier: Apache-2.0
"""The runs and scripts that clients may ask about: those below the server's folders, with all
links resolved.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from outpace.model import NotFoundError, UsageError
from outpace.model.text import format_suggestion
from outpace.ui import folders
from outpace.ui.runs import ListedRun, scan_folders


class ServedFolders(folders.Folders):
    """The folders that the server was started with. Raises NotFoundError for one that does not
    exist.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        super().__init__(roots)
        self.require_exists("Give folders with runs or scripts.")

    def find_runs(self) -> list[ListedRun]:
        """Return the runs, newest first, without those that are, or have a file that is, outside
        of the folders by a link.
        """
        return [run for run in scan_folders(self.roots) if not self.find_escaping_link(run.info.folder)]

    def require_run(self, name: str) -> str:
        """Return the folder of a run from its id, its name, or the end of its path. Raises
        NotFoundError where no run matches, UsageError where several do.
        """
        runs = self.find_runs()
        ending = name.rstrip("/")
        matches = [run for run in runs if run.id == ending] or [
            run for run in runs if ending and f"/{run.info.folder.rstrip('/')}".endswith(f"/{ending}")
        ]
        if not matches:
            names = [run.info.run for run in runs]
            raise NotFoundError(
                f"There is no run {name!r} in the served folders.{format_suggestion(name, names)} The question 'runs' lists them."
            )
        if len(matches) > 1:
            raise UsageError(
                f"{name!r} may be any of {len(matches)} runs. Give the id of one: {', '.join(run.id for run in matches[:5])}."
            )
        return matches[0].info.folder

    def require_file(self, path: str) -> str:
        """Return a file or folder below the served ones, from a relative or an absolute path.
        Raises NotFoundError for any other path, whether it exists or not.
        """
        for root in self.real_paths if "\0" not in path else ():
            place = os.path.realpath(os.path.join(root, path))
            if self.contains(place) and (os.path.isfile(place) or os.path.isdir(place)):
                return place
        raise NotFoundError(f"There is no file or folder {path!r} in the served folders.")

    def relative_path(self, path: str) -> str:
        """Return a path relative to the served folder that contains it."""
        root = next(root for root in self.real_paths if os.path.commonpath((path, root)) == root)
        return os.path.relpath(path, root)
