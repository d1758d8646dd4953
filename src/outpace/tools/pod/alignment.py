# SPDX-License-Identifier: Apache-2.0
"""Alignment of steps: which steps of several hosts belong together, and how far their clocks
differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.cluster.clock_offsets import ClockOffset, clock_offsets, host_zeros_ps
from outpace.metrics.cluster.host_summary import HostSummary
from outpace.metrics.cluster.program_groups import steps_overlap
from outpace.model import Table, Unit, humanize, median
from outpace.model.arrays import Numbers
from outpace.tools.pod.schema import CLOCKS

_OVERLAP = 0.5  # minimum overlap of two steps that ran at the same time, as a share of the shorter one


@dataclass(frozen=True, eq=False)
class Alignment:
    """The steps of several hosts, matched with each other.

    numbers: by host, the aligned number of each of its steps.
    shared_numbers: numbers that all hosts have.
    description: how the steps were matched, a sentence without its capital and full stop.
    clocks: table `CLOCKS`.
    zero: by host, ps from the run's earliest event to the zero of the host's times, on one clock.
    """

    numbers: dict[str, Numbers]
    shared_numbers: tuple[int, ...]
    description: str
    clocks: Table
    zero: dict[str, int]


def align_steps(digests: Sequence[HostSummary]) -> Alignment:
    """Match steps by their numbers when hosts count alike, and by overlap in time where the hosts
    share no number.
    """
    hosts = [d for d in digests if len(d.step_number)]
    zero, apart = host_zeros_ps(digests), clock_offsets(digests)
    numbers = {d.host: d.step_number for d in hosts}
    shared = _common(numbers)
    how = "only one host recorded steps" if len(hosts) < 2 else _by_number(hosts, shared, zero)
    if len(hosts) > 1 and not shared and _common(matched := _by_overlap(hosts, zero)):
        numbers, shared = matched, _common(matched)
        how = f"the hosts count their steps differently; {len(shared)} of them are matched by when they ran, numbered as on {hosts[0].host}"
    remarks = "".join(f". {sentence}" for sentence in format_clock_offsets(apart))
    return Alignment(numbers, shared, how + remarks, _clocks(digests, numbers, shared, zero, apart), zero)


def format_clock_offsets(host_offsets: Mapping[str, ClockOffset]) -> list[str]:
    """Return a sentence for each host whose clock is so wrong that its steps had to be shifted."""
    return [
        f"The clock of {host} is {humanize(abs(offset.offset_ps), Unit.PS)} {'ahead of' if offset.offset_ps > 0 else 'behind'} "
        "that of the others, by the ends "
        f"of their collectives in {offset.step_count} steps (± {humanize(offset.spread_ps, Unit.PS)}): its times are put right"
        for host, offset in host_offsets.items()
        if offset.is_wrong
    ]


def _common(numbers: dict[str, Numbers]) -> tuple[int, ...]:
    sets = [set(n.tolist()) for n in numbers.values()]
    return tuple(sorted(set.intersection(*sets))) if sets else ()


def _by_number(hosts: list[HostSummary], shared: tuple[int, ...], zero: dict[str, int]) -> str:
    """Return how steps were matched by number, in words, and whether steps of one number ran at the
    same time.
    """
    fewest = min(len(d.step_number) for d in hosts)
    if not shared:
        return "the hosts share no step number, and none of their steps ran at the same time: each host is shown by itself"
    steps = f"step {shared[0]} is" if len(shared) == 1 else f"{len(shared)} steps ({shared[0]} to {shared[-1]}) are"
    how = f"{steps} on {'both' if len(hosts) == 2 else f'all {len(hosts)}'} hosts, matched by number"
    if len(shared) < fewest:
        how += "; the other steps are not on every host"
    spans = [_spans(d, zero[d.host]) for d in hosts]
    apart = [number for number in shared if not steps_overlap(s[number] for s in spans)]
    if len(apart) > len(shared) / 2:
        how += "; steps of one number did not run at the same time: these train independently"
    return how


def _spans(host: HostSummary, zero: int) -> dict[int, tuple[int, int]]:
    """Return (start, end) of every step by its number, ps on the run's clock."""
    bounds = zip((host.step_start + zero).tolist(), (host.step_end + zero).tolist(), strict=True)
    return dict(zip(host.step_number.tolist(), bounds, strict=True))


def _by_overlap(hosts: list[HostSummary], zero: dict[str, int]) -> dict[str, Numbers]:
    """Return the aligned numbers of every host's steps: the number of the first host's step that a
    step overlaps; -1 - i for the i-th step of a host that overlaps none.
    """
    first = hosts[0]
    begin, finish = first.step_start + zero[first.host], first.step_end + zero[first.host]
    numbers = {first.host: first.step_number}
    for digest in hosts[1:]:
        start, end = digest.step_start + zero[digest.host], digest.step_end + zero[digest.host]
        middle = (start + end) // 2
        at = np.clip(np.searchsorted(begin, middle, side="right") - 1, 0, len(begin) - 1)
        overlap = np.minimum(end, finish[at]) - np.maximum(start, begin[at])
        same = overlap >= _OVERLAP * np.minimum(end - start, finish[at] - begin[at])
        same[1:] &= at[1:] != at[:-1]  # where two steps overlap the same step of the first host, only the first is matched
        numbers[digest.host] = np.where(same, first.step_number[at], -1 - np.arange(len(at)))
    return numbers


def _clocks(
    every: Sequence[HostSummary],
    numbers: dict[str, Numbers],
    shared: tuple[int, ...],
    zero: dict[str, int],
    apart: Mapping[str, ClockOffset],
) -> Table:
    """Return table `CLOCKS`: a row per host with its steps and the offset of its clock. `apart` has
    the clock offsets by host.
    """
    ends: dict[str, dict[int, int]] = {}
    on_all = set(shared)
    for digest in every:
        if digest.host in numbers:
            step_ends = zip(numbers[digest.host].tolist(), (digest.step_end + zero[digest.host]).tolist(), strict=True)
            ends[digest.host] = {number: end for number, end in step_ends if number in on_all}
    base = next(iter(ends.values()), {})
    rows = []
    for digest in every:
        host_ends = ends.get(digest.host, {})
        offset = median([host_ends[number] - base[number] for number in shared]) if host_ends and base else float("nan")
        row = CLOCKS.row(
            host=digest.host,
            start_ps=digest.span_ps[0] + zero[digest.host],
            window_ps=digest.span_ps[1] - digest.span_ps[0],
            first_step=int(digest.step_number[0]) if len(digest.step_number) else float("nan"),
            last_step=int(digest.step_number[-1]) if len(digest.step_number) else float("nan"),
            shared_steps=len(host_ends),
            offset_ps=offset,
            clock_ps=apart[digest.host].offset_ps if digest.host in apart else float("nan"),
        )
        rows.append(row)
    return CLOCKS.build(rows)
