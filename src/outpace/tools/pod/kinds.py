"""From when on slow workers are a kind of workers: another generation of machines, another NUMA node."""

from __future__ import annotations

_SEVERAL, _FEW = 3, 0.1  # workers, and of all workers: stragglers are few


def are_a_kind(slow: int, every: int) -> bool:
    """Whether so many slow workers are a kind of workers, and no stragglers."""
    return slow >= _SEVERAL and slow > _FEW * every
