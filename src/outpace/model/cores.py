"""How many cores this process may use. The standard library alone: training processes ask too."""

from __future__ import annotations

import os


def usable_cpus() -> int:
    """Cores that this process may run on, which a container or `taskset` can make fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def granted_cpus(quota: str | None = None) -> int:
    """Cores whose time this process may use: those that it may run on, at most what a container's quota gives. `quota` is the text of
    `cpu.max`: microseconds of processor time per so many microseconds."""
    if quota is None:
        try:
            with open("/sys/fs/cgroup/cpu.max", encoding="utf-8") as file:
                quota = file.read()
        except OSError:
            quota = ""
    parts, cores = quota.split(), usable_cpus()
    if len(parts) != 2 or not all(part.isdigit() for part in parts) or int(parts[1]) == 0:
        return cores
    return max(1, min(cores, round(int(parts[0]) / int(parts[1]))))
