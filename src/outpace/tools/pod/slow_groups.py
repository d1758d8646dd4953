# SPDX-License-Identifier: Apache-2.0
"""The limit from which slow workers count as another kind of workers (another generation of
machines, another NUMA node) rather than as stragglers.
"""

from __future__ import annotations

_SEVERAL, _FEW = 3, 0.1  # minimum size of a slow group: number of workers, and share of all workers


def is_slow_group(slow_count: int, worker_count: int) -> bool:
    """Whether the slow workers are so many that they are another kind of workers, and no
    stragglers.
    """
    return slow_count >= _SEVERAL and slow_count > _FEW * worker_count
