# SPDX-License-Identifier: Apache-2.0
"""Split the collectives' time of workers without accelerators into transfer and waiting.

The worker that arrives last does not wait: what it spends is the transfer.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.cluster.program_groups import program_groups
from outpace.metrics.facts.collectives import collective_rows, covered_step_ps
from outpace.timeline import Run, Timeline


@dataclass(frozen=True)
class CollectiveCost:
    """Cost of the collectives of one program's workers.

    last_worker: host that spends least in collectives, since it arrives last and does not wait
    transfer_ps: time of that host in collectives per step, ps: the transfer itself
    share: `transfer_ps` as a share of that host's step
    wait_ps: largest time of another worker beyond `transfer_ps`, ps; None where only one worker was
        profiled, because waiting and transfer can't be told apart then
    count: collectives per step
    collective_type: most frequent type of collective
    """

    last_worker: str
    transfer_ps: float
    share: float
    wait_ps: float | None
    count: float
    collective_type: str


@memoize
def collective_costs(run: Run) -> tuple[CollectiveCost, ...]:
    """Return the cost of collectives of each program whose workers have no device and run
    collectives.
    """
    timelines = {
        timeline.host: timeline
        for timeline in run.hosts
        if len(timeline.steps.steady_rows) and not timeline.device_planes and collective_rows(timeline)
    }
    groups = [[timelines[host] for host in group if host in timelines] for group in program_groups(run).groups]
    return tuple(_exchange(group) for group in groups if group)


def _exchange(group: list[Timeline]) -> CollectiveCost:
    spent = []
    for timeline in group:
        rows = np.concatenate(list(collective_rows(timeline).values()))
        spent.append(float(covered_step_ps(timeline, rows)[timeline.steps.steady_rows].mean()))
    least = min(spent)
    last = group[spent.index(least)]
    steps, kinds = last.steps, collective_rows(last)
    most = max(kinds, key=lambda kind: len(kinds[kind]))
    share = least / float(steps.duration[steps.steady_rows].mean())
    return CollectiveCost(
        last.host, least, share, max(spent) - least if len(group) > 1 else None, len(kinds[most]) / len(steps), most
    )
