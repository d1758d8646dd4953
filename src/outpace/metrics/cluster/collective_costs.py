"""What workers without accelerators spend in collectives: the transfer's own time, and waiting for
the one that comes last.
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
    """`last_worker`: the worker that spends least, since it comes last: what it spends
    (`transfer_ps`, ps per step; `share` of its step) is the transfer's own time. `wait_ps`: the
    most that another one spends beyond that, ps; None where one worker's profile is all there is,
    which does not tell waiting from the transfer. `count`, `collective_type`: the collectives of a
    step and their type.
    """

    last_worker: str
    transfer_ps: float
    share: float
    wait_ps: float | None
    count: float
    collective_type: str


@memoize
def collective_costs(run: Run) -> tuple[CollectiveCost, ...]:
    """One for each program whose workers have no device and run collectives."""
    mine = {t.host: t for t in run.hosts if len(t.steps.steady_rows) and not t.device_planes and collective_rows(t)}
    groups = [[mine[host] for host in group if host in mine] for group in program_groups(run).groups]
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
