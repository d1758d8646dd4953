# SPDX-License-Identifier: Apache-2.0
"""Estimate how far the clocks of hosts differ.

A collective ends on all hosts at the same moment: a difference between its recorded ends is a
difference between clocks.
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

MIN_OFFSET_STEPS = 3  # minimum number of steps with a collective: in fewer, a constant distance may be chance
# Largest interquartile range of the distances, as a share of a step: those of hosts that do not
# wait for each other vary by more.
MAX_OFFSET_SPREAD = 0.25
_WRONG_OFFSET = 0.5  # share of a step: a larger offset puts steps with the same number at different times
_MAX_OFFSET_PS = 30 * 10**12  # ps: clocks that are set at all never differ by more; the hosts ran at different times instead


@dataclass(frozen=True)
class ClockOffset:
    """The offset of a host's clock from the clocks of most hosts.

    offset_ps: how far the clock is ahead, ps; negative where it is behind
    spread_ps: half the interquartile range of the distances, ps
    step_count: number of steps from which the offset is estimated
    is_wrong: whether the offset puts steps with the same number at different times
    """

    offset_ps: float
    spread_ps: float
    step_count: int
    is_wrong: bool


def last_collective_ends(summary: HostSummary) -> dict[int, int]:
    """Return the end of each step's last collective by step number, ps on the host's clock.

    The result is empty where the step numbers are not the program's own.
    """
    ends: dict[int, int] = {}
    for worker in summary.workers if summary.has_step_numbers else ():
        if worker.lead_times is not None:
            at = np.flatnonzero(worker.lead_times.has_collective)
            for number, end in zip(worker.number[at].tolist(), worker.lead_times.collectives_end_ps[at].tolist(), strict=True):
                ends[number] = max(end, ends.get(number, end))
    return ends


def estimate_offset(ends: Mapping[int, int], median_ends: Mapping[int, float], step_ps: float) -> ClockOffset | None:
    """Return the offset of a host's clock from the distance of its collectives' ends to the median
    ends.

    ends: end of a step's last collective on this host by step number, ps
    median_ends: the same as a median over hosts, ps, counted from the same origin
    step_ps: length of a step, ps

    Return None without evidence: where fewer than `MIN_OFFSET_STEPS` steps are common to both,
    where the distance varies, or where it is so large that the hosts ran at different times.
    """
    apart = [ends[number] - median_ends[number] for number in ends.keys() & median_ends.keys()]
    if len(apart) < MIN_OFFSET_STEPS:
        return None
    low, high = quantiles(apart, 0.25, 0.75)
    if high - low > MAX_OFFSET_SPREAD * step_ps or abs(median(apart)) > _MAX_OFFSET_PS:
        return None
    return ClockOffset(median(apart), (high - low) / 2, len(apart), abs(median(apart)) > _WRONG_OFFSET * step_ps)


def clock_offsets(summaries: Sequence[HostSummary]) -> dict[str, ClockOffset]:
    """Return the offset of each host's clock from the median of all hosts, by host.

    Of two hosts, the offset is from the first one. Hosts without evidence are left out.
    """
    zero = {
        host: 1000 * shift
        for host, shift in compute_origin_shifts_ns({summary.host: summary.origin for summary in summaries}).items()
    }
    ends = {
        summary.host: {number: end + zero[summary.host] for number, end in last_collective_ends(summary).items()}
        for summary in summaries
    }
    ends = {host: by_number for host, by_number in ends.items() if by_number}
    if len(ends) < 2:
        return {}
    of_number: dict[int, list[int]] = {}
    for by_number in list(ends.values())[: 1 if len(ends) == 2 else None]:
        for number, end in by_number.items():
            of_number.setdefault(number, []).append(end)
    usual = {number: median(values) for number, values in of_number.items()}
    offsets = {
        summary.host: estimate_offset(ends[summary.host], usual, median(summary.step_end - summary.step_start))
        for summary in summaries
        if summary.host in ends
    }
    return {host: offset for host, offset in offsets.items() if offset is not None}


def host_zeros_ps(summaries: Sequence[HostSummary]) -> dict[str, int]:
    """Return the time from the run's earliest event to the zero of each host's times, ps by host.

    All are on one clock: the offset of a wrong clock is subtracted.
    """
    shift = compute_origin_shifts_ns({summary.host: summary.origin for summary in summaries})
    wrong = {host: offset.offset_ps for host, offset in clock_offsets(summaries).items() if offset.is_wrong}
    return {host: 1000 * ns - round(wrong.get(host, 0.0)) for host, ns in shift.items()}


@memoize
def corrected_shifts_ns(run: Run) -> dict[str, int]:
    """Return the shift that puts each host's times on one clock, ns by host.

    These are the shifts of `compute_shifts_ns` less the offsets of clocks that are wrong.
    """
    if len(run.hosts) < 2:
        return compute_shifts_ns(run)
    return {host: ps // 1000 for host, ps in host_zeros_ps(host_summaries(run)).items()}
