"""What the clocks of hosts are apart: a collective ends on all hosts at once, so that what its ends differ by is what their clocks do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from outpace._dataclass import dataclass
from outpace._once import derived
from outpace.metrics.program.digest import Digest, digests
from outpace.model import median
from outpace.model.interval import quantiles
from outpace.timeline import Run
from outpace.timeline.clock import shifts_ns, shifts_of

FEWEST = 3  # steps with a collective, below which a distance that stays the same may be chance
STEADY = 0.25  # of a step, as the middle half of the distances: hosts that do not wait for each other drift apart by more
_WRONG = 0.5  # of a step: a clock that is further off puts steps of one number at different times
_FURTHEST = 30 * 10**12  # ps: a clock that is set at all is never further off; what is further apart ran at another time


@dataclass(frozen=True)
class Offset:
    """How far a host's clock is ahead of that of most hosts, ps (negative: behind); spread: half the width of the middle half of the distances;
    steps: how many it is estimated from; wrong: whether by so much that steps of one number seem to run at different times."""

    ps: float
    spread: float
    steps: int
    wrong: bool


def ends_of(host: Digest) -> dict[int, int]:
    """By the program's number of a step, when its last collective ends, ps on the host's clock; none where the program does not count."""
    found: dict[int, int] = {}
    for worker in host.workers if host.numbered else ():
        if worker.before is not None:
            at = np.flatnonzero(worker.before.known)
            for number, end in zip(worker.number[at].tolist(), worker.before.end[at].tolist(), strict=True):
                found[number] = max(end, found.get(number, end))
    return found


def offset(ends: Mapping[int, int], usual: Mapping[int, float], step: float) -> Offset | None:
    """The distance of a host's ends of collectives from the usual ones, both ps on one clock, as an offset of its clock.

    None without evidence: few steps in common, or a distance that varies. `step`: length of a step, ps.
    """
    apart = [ends[number] - usual[number] for number in ends.keys() & usual.keys()]
    if len(apart) < FEWEST:
        return None
    low, high = quantiles(apart, 0.25, 0.75)
    if high - low > STEADY * step or abs(median(apart)) > _FURTHEST:
        return None
    return Offset(median(apart), (high - low) / 2, len(apart), abs(median(apart)) > _WRONG * step)


def offsets(hosts: Sequence[Digest]) -> dict[str, Offset]:
    """The offset of each host's clock that there is evidence for, from the median of all hosts (of two, from the first)."""
    zero = {host: 1000 * shift for host, shift in shifts_of({d.host: d.origin for d in hosts}).items()}
    ends = {d.host: {number: end + zero[d.host] for number, end in ends_of(d).items()} for d in hosts}
    ends = {host: known for host, known in ends.items() if known}
    if len(ends) < 2:
        return {}
    of_number: dict[int, list[int]] = {}
    for known in list(ends.values())[: 1 if len(ends) == 2 else None]:
        for number, end in known.items():
            of_number.setdefault(number, []).append(end)
    usual = {number: median(each) for number, each in of_number.items()}
    found = {d.host: offset(ends[d.host], usual, median(d.end - d.start)) for d in hosts if d.host in ends}
    return {host: each for host, each in found.items() if each is not None}


def zeros_of(hosts: Sequence[Digest]) -> dict[str, int]:
    """Per host: ps from the run's earliest event to the zero of its times, on one clock; clocks that are wrong are put right."""
    shift = shifts_of({d.host: d.origin for d in hosts})
    wrong = {host: each.ps for host, each in offsets(hosts).items() if each.wrong}
    return {host: 1000 * ns - round(wrong.get(host, 0.0)) for host, ns in shift.items()}


@derived
def right_shifts_ns(run: Run) -> dict[str, int]:
    """What each host's times (ns from its origin) are moved by onto one clock, as `shifts_ns` says; clocks that are wrong are put right."""
    if len(run.hosts) < 2:
        return shifts_ns(run)
    return {host: ps // 1000 for host, ps in zeros_of(digests(run)).items()}
