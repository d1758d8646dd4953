"""Folders for caches on disk that live as long as the process that made them: until its usual end, or SIGTERM."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

from outpace.capture.family import noted
from outpace.capture.interrupt import OnTermination

_PREFIX = "outpace_cache_"
_folders: dict[str, int] = {}  # path: the process that made it
_ending: list[OnTermination] = []  # one for all folders


def new_folder(parent: str) -> str:
    """A new folder below `parent`. It is removed when this process ends, also by SIGTERM, or with its family, also by SIGKILL."""
    folder = noted(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    _folders[folder] = os.getpid()
    if not _ending:
        atexit.register(_remove)
        _ending.append(OnTermination(lambda _: _remove()))
        _ending[0].install()
    return folder


def is_temporary(path: str) -> bool:
    """Whether a path lies in such a folder."""
    return any(part.startswith(_PREFIX) for part in path.split(os.sep))


def _remove() -> None:
    """Not in a forked child, which ends while its parent still reads."""
    for folder, owner in _folders.items():
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)
