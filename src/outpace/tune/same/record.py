"""What one run of a text leaves behind."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from outpace._dataclass import dataclass
from outpace.tune.same.state import State


@dataclass(frozen=True)
class Record:
    """marks: the state by loop and pass (`END` for what follows a loop, by how often it was left). passes: how many each loop made, until it
    was cut or ended. printed: lines of its output. ended: how the script ended: empty for its own end, `cut` for the time limit, else the
    exception. ran, branches: lines of the branches that ran, and of all, by file. seconds: of the loop to the last mark. written: files, as
    paths from the folder that it ran in, that it would have written."""

    marks: Mapping[tuple[str, int, int], State]
    passes: Mapping[str, int]
    printed: tuple[str, ...]
    ended: str
    ran: Mapping[str, frozenset[int]] = field(default_factory=dict)
    branches: Mapping[str, frozenset[int]] = field(default_factory=dict)
    seconds: float = 0.0
    lines: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write it for the process that compares."""
        Path(path).write_bytes(pickle.dumps(self))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Record:
        """What a process of ours wrote into our private folder."""
        found = pickle.loads(Path(path).read_bytes())
        assert isinstance(found, cls)
        return found
