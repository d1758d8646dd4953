# SPDX-License-Identifier: Apache-2.0
"""Number of CPU cores that this process may use, which a container or `taskset` can make smaller
than the number of cores of the machine. Standard library only.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
from collections.abc import Iterator

HALF_PRECISION_FLAGS = ("amx_bf16", "avx512_bf16")
_GROUPS, _OWN = "/sys/fs/cgroup", "/proc/self/cgroup"


def affinity_cpus() -> int:
    """Return the number of cores that this process may be scheduled on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def half_precision_flags(cpuinfo_path: str = "/proc/cpuinfo") -> tuple[str, ...]:
    """Return the bfloat16 instruction sets of this CPU, by the names of Linux' cpuinfo flags; empty
    where the file cannot be read.
    """
    words: list[str] = []
    with contextlib.suppress(OSError):
        words = _text(cpuinfo_path).split()
    return tuple(flag for flag in HALF_PRECISION_FLAGS if flag in words)


def cpu_name(cpuinfo_path: str = "/proc/cpuinfo") -> str:
    """Return the name of this machine's processor; its architecture where there is no other."""
    with contextlib.suppress(OSError):
        for line in _text(cpuinfo_path).splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


@functools.cache
def available_cpus(cgroup_root: str = _GROUPS, cgroup_file: str = _OWN) -> int:
    """Return the number of cores that this process may use, at least 1: the cores that it may be
    scheduled on, limited by the CPU quotas of its control groups.

    `cgroup_root` is the mount point of the control groups; `cgroup_file` is the file that lists the
    control groups of this process.
    """
    quotas = [round(quota / period) for quota, period in _quotas(cgroup_root, cgroup_file) if quota > 0 and period > 0]
    return max(1, min([affinity_cpus(), *quotas]))


def _quotas(groups: str, own: str) -> Iterator[tuple[int, int]]:
    """Yield (quota, period) in microseconds of processor time for the control groups of this
    process and all their parents, in the format of cgroup version 1 and of version 2.
    """
    with contextlib.suppress(OSError), open(own, encoding="utf-8") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if controllers else ("cpu.max",)
            folder = os.path.join(groups, controllers)
            # In a container the path may be the one on the machine: then only the root exists
            for part in ("", *filter(None, path.split("/"))):
                folder = os.path.join(folder, part)
                with contextlib.suppress(OSError, ValueError):
                    quota, period = " ".join(_text(os.path.join(folder, name)) for name in names).split()
                    yield int(quota), int(period)


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
