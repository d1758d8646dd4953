"""What one run of a text leaves behind."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path

from outpace._dataclass import dataclass
from outpace.tune.same.state import State

CUT_SHORT = "cut"  # how a run ended that had no more time


@dataclass(frozen=True)
class Record:
    """marks: the state by loop, how often it was entered, and pass (`passes.END` for what follows it). passes: how many each loop made, until
    it was cut or ended. printed: lines of its output. ended: how the script ended: empty for its own end, `cut` for the time limit, else the
    exception. ran, branches: first lines of the branches that ran after training began, and of all, by file. files: what it would have
    written, by path from the folder that it ran in: lines of a text, else nothing. memory: bytes at most. threads: that would keep the process
    from ending. said: lines of its log and on stderr."""

    marks: Mapping[tuple[str, int, int], State]
    passes: Mapping[str, int]
    printed: tuple[str, ...]
    ended: str
    ran: Mapping[str, frozenset[int]] = field(default_factory=dict)
    branches: Mapping[str, frozenset[int]] = field(default_factory=dict)
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    memory: int = 0
    threads: int = 0
    said: tuple[str, ...] = ()

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write it for the process that compares."""
        Path(path).write_bytes(pickle.dumps(self))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Record:
        """What a process of ours wrote into our private folder."""
        found = pickle.loads(Path(path).read_bytes())
        assert isinstance(found, cls)
        return found


_MOST_TEXT = 1 << 20  # bytes of a file that is compared line by line


def files_of(paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Files by path, with their lines where they are short texts."""
    found: dict[str, tuple[str, ...]] = {}
    for path in paths:
        found[path] = ()
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if os.path.isfile(path) and os.path.getsize(path) <= _MOST_TEXT:
                found[path] = tuple(Path(path).read_text(encoding="utf-8").splitlines())
    return found
