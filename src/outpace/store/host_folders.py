# SPDX-License-Identifier: Apache-2.0
"""Which folders of a log directory may hold hosts of one run, as far as their names show. The
profiles themselves decide it (`outpace.hosts`).

Each host of a run may write into a folder named after its own clock
(`plugins/profile/2026_01_01_00_00_01` and `..._03`), or into a log directory of its own
(`rank_0/plugins/profile/...`, or one with the name of a pod or node).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from outpace._lazy import compile_lazily
from outpace.store.profiles import ProfileFile, RunInfo

# Maximum time between two folders of one run, in seconds: far more than the time within which hosts
# start, and than clocks of one job differ.
MAX_FOLDER_GAP_S = 3600.0
_RANK = compile_lazily(
    r"(?P<job>(?:.*[-_.])?)(?:host|rank|node|nid|worker|chief|master|process|proc|replica|pod|machine)s?[-_.]?\d+"
    r"|(?:ip[-_.])?\d{1,3}(?:[-_.]\d{1,3}){3}(?:\..+)?"  # an IP address, or a host name that a cloud derives from one
    r"|[0-9a-f]{56}",  # the id of a Ray node
    re.IGNORECASE,
)


def is_close_in_time(first: RunInfo, second: RunInfo) -> bool:
    """Whether two folders were written close enough in time to belong to one run, by the times in
    their names, else by those of their files.

    Only folders that are close in time have their profiles read, so that a log directory of many
    months costs no more than its newest day.
    """
    return abs(first.sort_key[0] - second.sort_key[0]) <= MAX_FOLDER_GAP_S


def rank_of(path: str) -> str:
    """Return the folder name in a profile's path that stands for a host or rank (`rank_0`,
    `dp_rank_3`, `node07`, `trainer-worker-1`, an address, a Ray node); "" without one.

    Only words that the field uses for a process of a job count. Folders `run1` and `run2` are runs,
    not hosts; tasks and shards may belong to unrelated jobs.
    """
    return next((part for part in reversed(_above(path)) if _RANK.fullmatch(part)), "")


def is_same_location(first: ProfileFile, second: ProfileFile) -> bool:
    """Whether two folders lie where hosts of one run would write: in one log directory, or in log
    directories whose paths differ only in the names of hosts or ranks.

    Experiments have log directories of their own (`lr_0.1` and `lr_0.01` of a sweep) and may run at
    the same time on different hosts: these are not one run, however well their times agree.
    """
    return _place(first) == _place(second)


def has_related_names(first: ProfileFile, second: ProfileFile) -> bool:
    """Whether names show that two folders at one location belong to one job: they have the same
    parent folders, or are named after two ranks. Folders named after their hosts do not show it,
    since each trial of a sweep may have a container with its own name.
    """
    ranks = {rank_of(first.path), rank_of(second.path)}  # the ranks differ only where they name folders above the profile
    return _above(first.path) == _above(second.path) or (len(ranks) == 2 and "" not in ranks)


def _place(file: ProfileFile) -> list[str]:
    """Return the folders above a profile, with every folder that names a rank or the host itself
    replaced by a pattern with `*`.
    """
    return [_job(part, file.host) for part in _above(file.path)]


def _job(folder: str, host: str) -> str:
    rank = _RANK.fullmatch(folder)
    if rank is not None:
        return f"{rank['job'] or ''}*"  # ranks of two jobs (`a-worker-0`, `b-worker-0`) stay different
    return "*" if folder.partition(".")[0] == host.partition(".")[0] else folder


def _above(path: str) -> list[str]:
    """Return the folder names above `plugins/profile/<run>`."""
    parts = path.replace("\\", "/").rstrip("/").split("/")
    return parts[: -1 - parts[::-1].index("plugins")] if "plugins" in parts else parts[:-1]


def host_keys(files: Iterable[ProfileFile]) -> frozenset[tuple[str, str]]:
    """Return the keys that identify hosts: (rank in the folder's path, name of the file).

    Several processes of a node, or containers that are all called `localhost`, write files of one
    name into different folders.
    """
    return frozenset((rank_of(file.path), file.host) for file in files)


def has_distinct_hosts(first: Iterable[ProfileFile], second: Iterable[ProfileFile]) -> bool:
    """Whether no host occurs in both sets of files. A host profiles one run at a time, so that a
    host in both makes them two runs.
    """
    return not host_keys(first) & host_keys(second)


def can_be_one_run(first: Sequence[ProfileFile], second: Sequence[ProfileFile]) -> bool:
    """Whether the files of two folders may belong to one run, as far as names show."""
    return is_same_location(first[0], second[0]) and has_distinct_hosts(first, second)


def disambiguate_hosts(files: Sequence[ProfileFile]) -> tuple[ProfileFile, ...]:
    """Return the files of one run, sorted by host, with unique host names: a name that several
    files share gets its rank in front.
    """
    counts = Counter(file.host for file in files)
    named = (
        replace(f, host=f"{rank_of(f.path)}/{f.host}" if counts[f.host] > 1 and rank_of(f.path) else f.host) for f in files
    )
    return tuple(sorted(named, key=lambda file: file.host))
