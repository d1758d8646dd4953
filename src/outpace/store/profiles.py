"""Profiles as a store shows them: one host's file, the files of a run, and what a folder says of
the run that it holds.
"""

from __future__ import annotations

import contextlib
import datetime
import re

from outpace._caching import once
from outpace._dataclass import dataclass
from outpace.trace.formats import InMemoryProfile

_TIMESTAMP = re.compile(r"\d{4}(_\d{2}){5}")  # what TensorFlow and JAX name a run after


@dataclass(frozen=True)
class ProfileFile:
    """One host's profile: `host` is the file name without its ending, `path` a local path or a URL.

    `in_memory`: its content, where that is in memory.
    """

    host: str
    path: str
    size: int = 0
    in_memory: InMemoryProfile | None = None


@dataclass(frozen=True)
class ProfileSet:
    """The profiles of one run, one file per host, sorted by host; `folder` holds them. `older`: how
    many older runs the source holds.

    `siblings`: of these, the folders that may hold other hosts of the same run, by their names: see
    `sessions`.
    """

    source: str
    run: str
    folder: str
    files: tuple[ProfileFile, ...]
    older: int = 0
    siblings: tuple[ProfileSet, ...] = ()


@dataclass(frozen=True)
class RunInfo:
    """One run of a log directory: its name, its folder, and when its newest profile was written
    (seconds, 0: unknown).

    `state` changes when its files do: it is made of their names, sizes and times. `hosts`: how many
    profiles it holds.
    """

    run: str
    folder: str
    modified: float
    state: str = ""
    hosts: int = 1

    @once
    def sort_key(self) -> tuple[float, float, str]:
        """Order of runs: by the time in the name where there is one, since copying a profile gives
        it a new file time.
        """
        written = self.modified
        if stamp := _TIMESTAMP.match(self.run):
            with contextlib.suppress(ValueError, OverflowError):  # digits that are no date
                written = datetime.datetime.strptime(stamp.group(), "%Y_%m_%d_%H_%M_%S").timestamp()
        return written, self.modified, self.run
