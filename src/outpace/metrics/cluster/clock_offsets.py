"""What the clocks of hosts are apart: a collective ends on all hosts at once, so that what its ends
differ by is what their clocks do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.cluster.host_summary import HostSummary, host_summaries
from outpace.model import median
from outpace.model.interval import quantiles
from outpace.timeline import Run
from outpace.timeline.clock_origin import compute_origin_shifts_ns, compute_shifts_ns

MIN_OFFSET_STEPS = 3  # steps with a collective, below which a distance that stays the same may be chance
MAX_OFFSET_SPREAD = (
    0.25  # of a step, as the middle half of the distances: hosts that do not wait for each other drift apart by more
)
_WRONG = 0.5  # of a step: a clock that is further off puts steps of one number at different times
_FURTHEST = 30 * 10**12  # ps: a clock that is set at all is never further off; what is further apart ran at another time


@dataclass(frozen=True)
class ClockOffset:
    """How far a host's clock is ahead of that of most hosts, ps (negative: behind); spread: half
    the width of the middle half of the distances; steps: how many it is estimated from; wrong:
    whether by so much that steps of one number seem to run at different times.
    """

    offset_ps: float
    spread_ps: float
    step_count: int
    is_wrong: bool


def last_collective_ends(summary: HostSummary) -> dict[int, int]:
    """By the program's number of a step, when its last collective ends, ps on the host's clock;
    none where the program does not count.
    """
    found: dict[int, int] = {}
    for worker in summary.workers if summary.has_step_numbers else ():
        if worker.lead_times is not None:
            at = np.flatnonzero(worker.lead_times.has_collective)
            for number, end in zip(worker.number[at].tolist(), worker.lead_times.collectives_end_ps[at].tolist(), strict=True):
                found[number] = max(end, found.get(number, end))
    return found


def estimate_offset(ends: Mapping[int, int], median_ends: Mapping[int, float], step_ps: float) -> ClockOffset | None:
    """The distance of a host's ends of collectives from the usual ones, both ps on one clock, as an
    offset of its clock.

    None without evidence: few steps in common, or a distance that varies. `step_ps`: length of a
    step, ps.
    """
    apart = [ends[number] - median_ends[number] for number in ends.keys() & median_ends.keys()]
    if len(apart) < MIN_OFFSET_STEPS:
        return None
    low, high = quantiles(apart, 0.25, 0.75)
    if high - low > MAX_OFFSET_SPREAD * step_ps or abs(median(apart)) > _FURTHEST:
        return None
    return ClockOffset(median(apart), (high - low) / 2, len(apart), abs(median(apart)) > _WRONG * step_ps)


def clock_offsets(summaries: Sequence[HostSummary]) -> dict[str, ClockOffset]:
    """The offset of each host's clock that there is evidence for, from the median of all hosts (of
    two, from the first).
    """
    zero = {host: 1000 * shift for host, shift in compute_origin_shifts_ns({d.host: d.origin for d in summaries}).items()}
    ends = {d.host: {number: end + zero[d.host] for number, end in last_collective_ends(d).items()} for d in summaries}
    ends = {host: known for host, known in ends.items() if known}
    if len(ends) < 2:
        return {}
    of_number: dict[int, list[int]] = {}
    for known in list(ends.values())[: 1 if len(ends) == 2 else None]:
        for number, end in known.items():
            of_number.setdefault(number, []).append(end)
    usual = {number: median(each) for number, each in of_number.items()}
    found = {
        d.host: estimate_offset(ends[d.host], usual, median(d.step_end - d.step_start)) for d in summaries if d.host in ends
    }
    return {host: each for host, each in found.items() if each is not None}


def host_zeros_ps(summaries: Sequence[HostSummary]) -> dict[str, int]:
    """Per host: ps from the run's earliest event to the zero of its times, on one clock; clocks
    that are wrong are put right.
    """
    shift = compute_origin_shifts_ns({d.host: d.origin for d in summaries})
    wrong = {host: each.offset_ps for host, each in clock_offsets(summaries).items() if each.is_wrong}
    return {host: 1000 * ns - round(wrong.get(host, 0.0)) for host, ns in shift.items()}


@memoize
def corrected_shifts_ns(run: Run) -> dict[str, int]:
    """What each host's times (ns from its origin) are moved by onto one clock, as
    `compute_shifts_ns` says; clocks that are wrong are put right.
    """
    if len(run.hosts) < 2:
        return compute_shifts_ns(run)
    return {host: ps // 1000 for host, ps in host_zeros_ps(host_summaries(run)).items()}
