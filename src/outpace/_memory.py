# SPDX-License-Identifier: Apache-2.0
"""Memory that this process may use, which a control group can make smaller than the memory of the
machine. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

_GROUPS = (("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
           ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"))  # fmt: skip


def memory_limit() -> int | None:
    """Return the memory limit of this process in bytes: the memory of the machine, or the limit of
    the control group where that is smaller; None where neither is known, as on Windows.
    """
    found = [limit for limit, _ in _groups()]
    if sys.platform != "win32":
        found.append(int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    return min(found, default=None)


def free_memory() -> int:
    """Return the bytes that this process may still allocate: the machine's available memory, or
    what the control group leaves where that is less. Works on Linux only.
    """
    found = [max(0, limit - used) for limit, used in _groups()]
    with open("/proc/meminfo", encoding="ascii") as file:
        found += [int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")]
    return min(found)


def _groups() -> Iterator[tuple[int, int]]:
    """Yield (limit, usage) in bytes for every control group that has a memory limit."""
    for limit, usage in _GROUPS:
        with (
            contextlib.suppress(OSError, ValueError),  # the group does not exist, or its limit is "max" (none)
            open(limit, encoding="ascii") as most,
            open(usage, encoding="ascii") as used,
        ):
            yield int(most.read()), int(used.read())
