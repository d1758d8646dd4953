"""The memory that this process may use, which a control group can make less than the machine has.
Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

_GROUPS = (("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
           ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"))  # fmt: skip


def memory_limit() -> int | None:
    """Bytes that this machine has, or those of the control group where that has less; None where
    neither tells, as on Windows.
    """
    found = [limit for limit, _ in _groups()]
    if sys.platform != "win32":
        found.append(int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    return min(found, default=None)


def free_memory() -> int:
    """Bytes that this process may still take: what the machine has free, or what the control group
    leaves where that is less. Linux alone.
    """
    found = [max(0, limit - used) for limit, used in _groups()]
    with open("/proc/meminfo", encoding="ascii") as file:
        found += [int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")]
    return min(found)


def _groups() -> Iterator[tuple[int, int]]:
    """(limit, use) of control groups that have a limit."""
    for limit, usage in _GROUPS:
        with (
            contextlib.suppress(OSError, ValueError),  # no such group, or no limit ("max")
            open(limit, encoding="ascii") as most,
            open(usage, encoding="ascii") as used,
        ):
            yield int(most.read()), int(used.read())
