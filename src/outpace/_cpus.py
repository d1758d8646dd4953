"""The cores whose time this process may use, which a container or `taskset` can make fewer than the
machine has. Standard library only.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator

HALF_PRECISION_FLAGS = ("amx_bf16", "avx512_bf16")
_GROUPS, _OWN = "/sys/fs/cgroup", "/proc/self/cgroup"


def affinity_cpus() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def half_precision_flags(cpuinfo_path: str = "/proc/cpuinfo") -> tuple[str, ...]:
    """Instructions of this CPU that multiply matrices or vectors of bfloat16, by Linux' names; none
    where nobody says.
    """
    words: list[str] = []
    with contextlib.suppress(OSError):
        words = _text(cpuinfo_path).split()
    return tuple(flag for flag in HALF_PRECISION_FLAGS if flag in words)


@functools.cache
def available_cpus(cgroup_root: str = _GROUPS, cgroup_file: str = _OWN) -> int:
    """Cores that this process may run on, at most what the quotas of its control groups give.
    `cgroup_root` is where they are mounted, `cgroup_file` the file that says which are this
    process's.
    """
    quotas = [round(quota / period) for quota, period in _quotas(cgroup_root, cgroup_file) if quota > 0 and period > 0]
    return max(1, min([affinity_cpus(), *quotas]))


def _quotas(groups: str, own: str) -> Iterator[tuple[int, int]]:
    """(microseconds of processor time, per so many) of the process's groups and of those around
    them, as both versions write them.
    """
    with contextlib.suppress(OSError), open(own, encoding="utf-8") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if controllers else ("cpu.max",)
            folder = os.path.join(groups, controllers)
            for part in (
                "",
                *filter(None, path.split("/")),
            ):  # in a container the path may be the machine's: only the root is there
                folder = os.path.join(folder, part)
                with contextlib.suppress(OSError, ValueError):
                    quota, period = " ".join(_text(os.path.join(folder, name)) for name in names).split()
                    yield int(quota), int(period)


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
