"""The folders that somebody named to look into. Links may lead anywhere inside of them, and nothing
outside of them is opened or shown.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from outpace.model.errors import NotFoundError
from outpace.model.input_files import confine_reads, is_inside, special_file_type
from outpace.store.tree import is_url, local_path


def resolve_path(path: str) -> str:
    """Where a path leads; empty, which is in no folder, where that cannot be told: a link is being
    turned.
    """
    try:
        return os.path.realpath(path)
    except OSError:
        return ""


class Folders:
    """Folders as they were given: paths and URLs. What is in a store has no links."""

    def __init__(self, roots: Sequence[str]) -> None:
        self.roots = tuple((local_path(each) or each) if is_url(each) else each for each in roots)
        self._local = tuple(path for path in map(local_path, self.roots) if path is not None)

    @property
    def real_paths(self) -> tuple[str, ...]:
        """The local ones, wherever links lead that are in the paths as they were given."""
        return tuple(place for place in map(resolve_path, self._local) if place)

    def require_exists(self, advice: str) -> None:
        """Raise NotFoundError, with some advice, where a local one is not there, or is
        no folder.
        """
        for given in self.roots:
            path = local_path(given)
            if path is not None and not os.path.isdir(path):
                other = "a file" if os.path.isfile(path) else special_file_type(path)
                there = f"{given} is {other}, not a folder." if other else f"There is no folder {given}."
                raise NotFoundError(f"{there} {advice.replace('PATH', path)}")

    @contextlib.contextmanager
    def confined(self) -> Iterator[None]:
        """Within the block, nothing outside of the folders is opened."""
        with confine_reads(self.real_paths):
            yield

    def contains(self, path: str) -> bool:
        """Whether a path leads to something below the folders."""
        return is_inside(resolve_path(path), self.real_paths)

    def find_escaping_link(self, folder: str) -> str:
        """The first of a folder, and of what is directly in it, that a link leads out of the
        folders for; empty where none is.

        What is no link lies where its folder lies, so that most of a folder is not looked at twice.
        Raises OSError where a link is being turned, so that nothing can be told for now.
        """
        if is_url(folder):
            return ""
        real = tuple(map(os.path.realpath, self._local))
        if not is_inside(os.path.realpath(folder), real):
            return folder
        try:
            with os.scandir(folder) as entries:
                links = sorted(entry.path for entry in entries if entry.is_symlink())
        except OSError:  # it has gone, or is not for us
            return ""
        return next((link for link in links if not is_inside(os.path.realpath(link), real)), "")
