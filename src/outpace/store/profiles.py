# SPDX-License-Identifier: Apache-2.0
"""Descriptions of stored profiles: one host's file, the files of a run, and a summary of a run
folder.
"""

from __future__ import annotations

import contextlib
import datetime

from outpace._caching import once
from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.trace.formats import InMemoryProfile

_TIMESTAMP = compile_lazily(r"\d{4}(_\d{2}){5}")  # the name that TensorFlow and JAX give a run


@dataclass(frozen=True)
class ProfileFile:
    """One host's profile.

    host: file name without its ending.
    path: local path or URL.
    size: size of the file, bytes.
    in_memory: the content, where it is in memory.
    """

    host: str
    path: str
    size: int = 0
    in_memory: InMemoryProfile | None = None


@dataclass(frozen=True)
class ProfileSet:
    """The profiles of one run, one file per host, sorted by host.

    source: path or URL that was opened, or the description of a profile in memory.
    run: name of the run.
    folder: folder of the run; "" for a profile in memory.
    files: one file per host.
    older: number of older runs in the source.
    siblings: older runs that, by the names of their folders, may hold other hosts of the same run
        (see `host_folders`).
    """

    source: str
    run: str
    folder: str
    files: tuple[ProfileFile, ...]
    older: int = 0
    siblings: tuple[ProfileSet, ...] = ()


@dataclass(frozen=True)
class RunInfo:
    """One run of a log directory.

    run: name of the run.
    folder: path or URL of its folder.
    modified: time at which its newest profile was written, seconds since 1970; 0 where unknown.
    state: text built from the names, sizes and times of its files, which changes when one of them
        does.
    hosts: number of hosts with a profile.
    """

    run: str
    folder: str
    modified: float
    state: str = ""
    hosts: int = 1

    @once
    def sort_key(self) -> tuple[float, float, str]:
        """Sort key of runs: the time in the run's name where there is one, since copying a profile
        gives its file a new time; then the file time and the name.
        """
        written = self.modified
        if stamp := _TIMESTAMP.match(self.run):
            with contextlib.suppress(ValueError, OverflowError):  # the digits form no date
                written = datetime.datetime.strptime(stamp.group(), "%Y_%m_%d_%H_%M_%S").timestamp()
        return written, self.modified, self.run
