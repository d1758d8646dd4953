# SPDX-License-Identifier: Apache-2.0
"""How much time a step of all workers would save if a slow worker were repaired."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from outpace.metrics.cluster.workers import Worker
from outpace.model import leave_one_out_medians
from outpace.model.arrays import Values
from outpace.tools.pod.alignment import Alignment

_FEWEST = 3  # minimum number of shared steps for a comparison step by step; with fewer, means are compared


def compute_straggler_cost(workers: Sequence[Worker], excess: Values, alignment: Alignment) -> Values:
    """Return the mean time that a step of all workers saves by repairing each worker, ps, of shape
    (workers,). A repaired worker takes as long before the first collective as the median worker.

    A step continues when the last worker has arrived, so that repairing one saves only what it is
    later than the next. Workers are repaired one after the other, from the slowest on: what a
    worker saves is what it saves once the slower ones are repaired, and all of them together save
    no more than the step has. Steps are matched by their numbers; with fewer than three shared
    steps, means are compared instead.
    """
    order = np.argsort(-excess, kind="stable")
    leads = _leads(workers, alignment)[order]
    mended = np.minimum(leads, leave_one_out_medians(leads))
    still = np.maximum.accumulate(leads[::-1], axis=0)[::-1]  # time of the last worker that is not repaired yet
    late = np.maximum(np.maximum.accumulate(mended, axis=0), np.concatenate((still[1:], mended[-1:])))
    before = np.concatenate((still[:1], late[:-1]))
    saved = np.zeros(len(workers))
    saved[order] = np.where(excess[order] > 0, (before - late).mean(axis=1), 0.0)
    return saved


def _leads(workers: Sequence[Worker], aligned: Alignment) -> Values:
    """Return the time before the first collective, ps, of shape (workers, steps)."""
    rows = [
        dict(zip(aligned.numbers[w.host][w.steady_collective_steps].tolist(), w.steady_lead_ps.tolist(), strict=True))
        for w in workers
    ]
    shared = sorted(set.intersection(*(set(lead_by_step) for lead_by_step in rows)))
    if len(shared) < _FEWEST:
        return np.array([[w.mean_lead_ps] for w in workers])
    return np.array([[lead_by_step[number] for number in shared] for lead_by_step in rows], np.float64)
