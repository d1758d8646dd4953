"""From when on slow workers are a kind of workers: another generation of machines, another NUMA
node.
"""

from __future__ import annotations

_SEVERAL, _FEW = 3, 0.1  # workers, and of all workers: stragglers are few


def is_slow_group(slow_count: int, worker_count: int) -> bool:
    """Whether so many slow workers are a kind of workers, and no stragglers."""
    return slow_count >= _SEVERAL and slow_count > _FEW * worker_count
