"""How busy the machine is, all processes together: a program that gets half a core may compete for
all of them. Standard library only.
"""

from __future__ import annotations

import os

from outpace._cpus import affinity_cpus

_STAT = "/proc/stat"  # Linux: first line "cpu user nice system idle iowait irq softirq steal ...", in ticks of all cores
_IDLE = (3, 4)  # idle, and waiting for storage


def read_cpu_ticks() -> tuple[int, int] | None:
    """(busy, all) ticks of the machine's cores since its start; None where the system
    does not say.
    """
    try:
        with open(_STAT, encoding="ascii") as file:
            numbers = [int(text) for text in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    return (sum(numbers) - sum(numbers[at] for at in _IDLE), sum(numbers)) if len(numbers) == 8 else None


def compute_machine_load(earlier: tuple[int, int] | None) -> float:
    """Share of the processor time of this machine's cores that was used since `earlier`; 0 where
    that is not known, or where this process may use only some of the cores.
    """
    now = read_cpu_ticks()
    if earlier is None or now is None or now[1] <= earlier[1] or affinity_cpus() != os.cpu_count():
        return 0.0
    return min(1.0, (now[0] - earlier[0]) / (now[1] - earlier[1]))
