# SPDX-License-Identifier: Apache-2.0
"""Measures how busy the machine is, over all processes: a program that gets half a core may compete
for all of them. Standard library only.
"""

from __future__ import annotations

import os

from outpace._cpus import affinity_cpus

# Linux: the first line is "cpu user nice system idle iowait irq softirq steal ...", in ticks of all
# cores
_STAT_FILE = "/proc/stat"
_IDLE_FIELDS = (3, 4)  # fields `idle` and `iowait` (waiting for storage)


def read_cpu_ticks() -> tuple[int, int] | None:
    """Return (busy, all) ticks of the machine's cores since its start; None where the system does
    not provide them.
    """
    try:
        with open(_STAT_FILE, encoding="ascii") as file:
            numbers = [int(text) for text in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    return (sum(numbers) - sum(numbers[field] for field in _IDLE_FIELDS), sum(numbers)) if len(numbers) == 8 else None


def compute_machine_load(earlier: tuple[int, int] | None) -> float:
    """Return the share of the time of this machine's cores that was busy since the ticks `earlier`,
    0 to 1.

    Returns 0 where that is not known, or where this process may use only some of the cores.
    """
    now = read_cpu_ticks()
    if earlier is None or now is None or now[1] <= earlier[1] or affinity_cpus() != os.cpu_count():
        return 0.0
    return min(1.0, (now[0] - earlier[0]) / (now[1] - earlier[1]))
