"""What workers without accelerators spend in collectives: the transfer's own time, and waiting for the one that comes last."""

from __future__ import annotations

import numpy as np

from outpace._dataclass import dataclass
from outpace._once import derived
from outpace.metrics.machine.collectives import collective_rows, covered
from outpace.metrics.program.same_program import same_program
from outpace.timeline import Run, Timeline


@dataclass(frozen=True)
class Exchange:
    """`last`: the worker that spends least, since it comes last: what it spends (`transfer`, ps per step; `share` of its step) is the
    transfer's own time. `waits`: the most that another one spends beyond that, ps; None where one worker's profile is all there is, which does
    not tell waiting from the transfer. `count`, `what`: the collectives of a step and their type."""

    last: str
    transfer: float
    share: float
    waits: float | None
    count: float
    what: str


@derived
def exchanges(run: Run) -> tuple[Exchange, ...]:
    """One for each program whose workers have no device and run collectives."""
    mine = {t.host: t for t in run.hosts if len(t.steps.whole) and not t.device_planes and collective_rows(t)}
    groups = [[mine[host] for host in group if host in mine] for group in same_program(run).groups]
    return tuple(_exchange(group) for group in groups if group)


def _exchange(group: list[Timeline]) -> Exchange:
    spent = []
    for timeline in group:
        rows = np.concatenate(list(collective_rows(timeline).values()))
        spent.append(float(covered(timeline, rows)[timeline.steps.whole].mean()))
    least = min(spent)
    last = group[spent.index(least)]
    steps, kinds = last.steps, collective_rows(last)
    most = max(kinds, key=lambda kind: len(kinds[kind]))
    share = least / float(steps.duration[steps.whole].mean())
    return Exchange(
        last.host, least, share, max(spent) - least if len(group) > 1 else None, len(kinds[most]) / len(steps), most
    )
