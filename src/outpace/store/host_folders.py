"""Which folders of a log directory may hold hosts of one run, as far as their names tell; what the
profiles say decides (`outpace.hosts`).

Each host of a run may write into a folder called after its own clock
(`plugins/profile/2026_01_01_00_00_01` and `..._03`), or into a log directory of its own
(`rank_0/plugins/profile/...`, a pod's or a node's name).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from outpace.store.profiles import ProfileFile, RunInfo

MAX_FOLDER_GAP_S = 3600.0  # seconds between two folders of one run: far more than hosts take to begin together, or than clocks of one job differ
_RANK = re.compile(
    r"(?P<job>(?:.*[-_.])?)(?:host|rank|node|nid|worker|chief|master|process|proc|replica|pod|machine)s?[-_.]?\d+"
    r"|(?:ip[-_.])?\d{1,3}(?:[-_.]\d{1,3}){3}(?:\..+)?"  # an address, or a name that clouds make of one
    r"|[0-9a-f]{56}",  # a node of Ray
    re.IGNORECASE,
)


def is_close_in_time(first: RunInfo, second: RunInfo) -> bool:
    """Whether two folders were written close enough in time to be of one run: by the times in their
    names, or those of their files.

    Profiles are only read of folders that are, so that a log directory of many months costs no more
    than its newest day.
    """
    return abs(first.sort_key[0] - second.sort_key[0]) <= MAX_FOLDER_GAP_S


def rank_of(path: str) -> str:
    """The folder of a profile's path that is called after a host or rank (`rank_0`, `dp_rank_3`,
    `node07`, `trainer-worker-1`, an address, a node of Ray), or "".

    Only words that the field uses for a process of a job count: folders `run1` and `run2` are runs,
    not hosts, and so are tasks and shards, which jobs that have nothing to do with each other may
    be.
    """
    return next((part for part in reversed(_above(path)) if _RANK.fullmatch(part)), "")


def is_same_location(first: ProfileFile, second: ProfileFile) -> bool:
    """Whether two folders lie where hosts of one run would: in one log directory, or in some that
    differ by what names their hosts alone.

    Experiments have log directories of their own (`lr_0.1` and `lr_0.01` of a sweep), and run at
    once on hosts of their own: these are not one run, however well their times fit.
    """
    return _place(first) == _place(second)


def has_related_names(first: ProfileFile, second: ProfileFile) -> bool:
    """Whether names say that two folders in one place are of one job: they lie together, or are
    called after ranks of it. Folders called after their hosts are not: each trial of a sweep may
    have a container of its name.
    """
    ranks = {rank_of(first.path), rank_of(second.path)}  # one of both is of a folder above
    return _above(first.path) == _above(second.path) or (len(ranks) == 2 and "" not in ranks)


def _place(file: ProfileFile) -> list[str]:
    """The folders above a profile, with what numbers the processes of a job left out of them, and
    so that it may be of a host.
    """
    return [_job(part, file.host) for part in _above(file.path)]


def _job(folder: str, host: str) -> str:
    rank = _RANK.fullmatch(folder)
    if rank is not None:
        return f"{rank['job'] or ''}*"  # ranks of two jobs (`a-worker-0`, `b-worker-0`) are not of one
    return "*" if folder.partition(".")[0] == host.partition(".")[0] else folder


def _above(path: str) -> list[str]:
    """The folders above `plugins/profile/<run>`."""
    parts = path.replace("\\", "/").rstrip("/").split("/")
    return parts[: -1 - parts[::-1].index("plugins")] if "plugins" in parts else parts[:-1]


def host_keys(files: Iterable[ProfileFile]) -> frozenset[tuple[str, str]]:
    """What tells hosts apart: the name of the file, and the rank that its folder is called after.

    Several processes of a node, or containers that are all called `localhost`, write files of one
    name into folders of their own.
    """
    return frozenset((rank_of(file.path), file.host) for file in files)


def has_distinct_hosts(first: Iterable[ProfileFile], second: Iterable[ProfileFile]) -> bool:
    """Whether no host is in both. A host profiles one run at a time, so that one that is in both
    makes them two runs.
    """
    return not host_keys(first) & host_keys(second)


def can_be_one_run(first: Sequence[ProfileFile], second: Sequence[ProfileFile]) -> bool:
    """Whether the files of two folders may be of one run, as far as names tell."""
    return is_same_location(first[0], second[0]) and has_distinct_hosts(first, second)


def disambiguate_hosts(files: Sequence[ProfileFile]) -> tuple[ProfileFile, ...]:
    """The files of one run with names of hosts that differ: those that several share have their
    rank in front.
    """
    known = Counter(file.host for file in files)
    named = (replace(f, host=f"{rank_of(f.path)}/{f.host}" if known[f.host] > 1 and rank_of(f.path) else f.host) for f in files)
    return tuple(sorted(named, key=lambda file: file.host))
