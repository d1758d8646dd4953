"""Data sets with state of their own, so that reading them in a trial does not move on the user's shuffles and caches: the copies, the folders
of their caches on disk, which live as long as the process that made them (until its usual end, or SIGTERM), and how their iterators are
let go: TensorFlow waits for their threads, often for tens of seconds, and does nothing meanwhile.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from outpace.capture.family import noted
from outpace.capture.interrupt import OnTermination
from outpace.model.errors import RebuildError
from outpace.tune import guard
from outpace.tune.data.classes import construct
from outpace.tune.data.rebuild import Edit, copied

_PREFIX = "outpace_cache_"
_folders: dict[str, int] = {}  # path: the process that made it
_ending: list[OnTermination] = []  # one for all folders


def new_folder(parent: str) -> str:
    """A new folder below `parent`, or in the room of a guarded process. It is removed when this process ends, also by SIGTERM, or with its
    family, also by SIGKILL."""
    folder = noted(tempfile.mkdtemp(prefix=_PREFIX, dir=guard.room(parent)))
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


def isolated(dataset: Any) -> Any:
    """A faithful copy, whose caches on disk are files of its own where the user's do not exist yet; the data set itself where a stage of it
    is unknown and cannot be built again."""
    try:
        return copied(dataset, _elsewhere)
    except RebuildError:
        return dataset


def _elsewhere(node: Any) -> Edit | None:
    """The edit that moves a cache on disk which a trial would write."""
    if type(node).__name__ != "CacheDataset":
        return None
    path = os.fsdecode(node._filename.numpy())
    if not path or "://" in path or is_temporary(path) or os.path.exists(f"{path}.index"):
        return None

    def edit(old: Any, inputs: Sequence[Any]) -> Any:
        return construct(old, inputs, filename=os.path.join(new_folder(os.path.dirname(path) or "."), "cache"))

    return edit


def dispose(things: list[Any]) -> None:
    """Empty a list that holds the last references to iterators, in a thread of its own, so that nobody waits.

    The thread is a daemon: a program that ends meanwhile does not wait either.
    """
    threading.Thread(target=things.clear, name="outpace-disposal", daemon=True).start()


@contextlib.contextmanager
def chance_kept(seed: int | None = None) -> Iterator[None]:
    """Put the random numbers of Python and NumPy back at the end; inside they begin from a seed where one is given."""
    numpy = sys.modules.get("numpy")
    state, other = random.getstate(), numpy.random.get_state() if numpy is not None else None
    try:
        if seed is not None:
            random.seed(seed)
            if numpy is not None:
                numpy.random.seed(seed)
        yield
    finally:
        random.setstate(state)
        if numpy is not None:
            numpy.random.set_state(other)
