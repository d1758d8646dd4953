"""Folders for caches on disk that live as long as the process that made them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

_PREFIX = "outpace_cache_"


def new_folder(parent: str) -> str:
    """A new folder below `parent`. It is removed when this process ends in the usual way; a process that is killed leaves it."""
    folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
    atexit.register(_remove, folder, os.getpid())
    return folder


def is_temporary(path: str) -> bool:
    """Whether a path lies in such a folder."""
    return any(part.startswith(_PREFIX) for part in path.split(os.sep))


def _remove(folder: str, owner: int) -> None:
    """Not in a forked child, which ends while its parent still reads."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
