# SPDX-License-Identifier: Apache-2.0
"""The folders that the user chose to serve. Links inside them may lead to other places inside
them; nothing outside of them is opened or shown.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from outpace.model.errors import NotFoundError
from outpace.model.input_files import confine_reads, is_inside, special_file_type
from outpace.store.tree import is_url, local_path


def resolve_path(path: str) -> str:
    """Return the real path behind all links; "", which is in no folder, where resolving fails
    because a link is being replaced.
    """
    try:
        return os.path.realpath(path)
    except OSError:
        return ""


class Folders:
    """The served folders: paths and URLs, in the user's spelling. Stores behind URLs have no
    links.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        self.roots = tuple((local_path(root) or root) if is_url(root) else root for root in roots)
        self._local = tuple(path for path in map(local_path, self.roots) if path is not None)

    @property
    def real_paths(self) -> tuple[str, ...]:
        """The real paths of the local folders, with all links resolved."""
        return tuple(place for place in map(resolve_path, self._local) if place)

    def require_exists(self, advice: str) -> None:
        """Raise NotFoundError, with `advice` as its second sentence, where a local folder does not
        exist or is not a folder.
        """
        for root in self.roots:
            path = local_path(root)
            if path is not None and not os.path.isdir(path):
                other = "a file" if os.path.isfile(path) else special_file_type(path)
                problem = f"{root} is {other}, not a folder." if other else f"There is no folder {root}."
                raise NotFoundError(f"{problem} {advice.replace('PATH', path)}")

    @contextlib.contextmanager
    def confined(self) -> Iterator[None]:
        """Return a context manager inside which no file outside of the folders can be opened."""
        with confine_reads(self.real_paths):
            yield

    def contains(self, path: str) -> bool:
        """Whether the real path of `path` is inside one of the folders."""
        return is_inside(resolve_path(path), self.real_paths)

    def find_escaping_link(self, folder: str) -> str:
        """Return the first path, of `folder` and its direct entries, that a link leads out of the
        served folders; "" where there is none.

        Entries that are no links lie where their folder lies, so they are not resolved. Raises
        OSError where a link is being replaced, so that no result is possible for now.
        """
        if is_url(folder):
            return ""
        real = tuple(map(os.path.realpath, self._local))
        if not is_inside(os.path.realpath(folder), real):
            return folder
        try:
            with os.scandir(folder) as entries:
                links = sorted(entry.path for entry in entries if entry.is_symlink())
        except OSError:  # the folder was removed, or is not readable
            return ""
        return next((link for link in links if not is_inside(os.path.realpath(link), real)), "")
