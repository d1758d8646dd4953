"""Which steps of several hosts belong together, and what their clocks have to do with each other."""

from __future__ import annotations

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.program.same_program import ran_together, step_spans
from outpace.model import Table, median
from outpace.model.arrays import Numbers
from outpace.timeline import Run, Timeline
from outpace.timeline.clock import shifts_ns
from outpace.tools.pod.schema import CLOCKS

_OVERLAP = 0.5  # of the shorter one, for two steps to have run at the same time


@dataclass(frozen=True, eq=False)
class Alignment:
    """`numbers`: by host, the aligned number of each of its steps. `shared`: numbers that all hosts have. `how` says it in a sentence."""

    numbers: dict[str, Numbers]
    shared: tuple[int, ...]
    how: str
    clocks: Table


def align(run: Run) -> Alignment:
    """Match steps by their numbers when hosts count alike, and by overlap in time where the numbers have nothing in common."""
    hosts = [t for t in run.hosts if len(t.steps)]
    zero = origins(run)
    numbers = {t.host: t.steps.number for t in hosts}
    shared = _common(numbers)
    how = "only one host recorded steps" if len(hosts) < 2 else _by_number(hosts, shared, zero)
    if len(hosts) > 1 and not shared and _common(matched := _by_overlap(hosts, zero)):
        numbers, shared = matched, _common(matched)
        how = f"the hosts count their steps differently; {len(shared)} of them are matched by when they ran, numbered as on {hosts[0].host}"
    return Alignment(numbers, shared, how, _clocks(run, numbers, shared, zero))


def origins(run: Run) -> dict[str, int]:
    """Per host: ps from the run's earliest event to the trace's zero, on one clock."""
    return {host: 1000 * shift for host, shift in shifts_ns(run).items()}


def _common(numbers: dict[str, Numbers]) -> tuple[int, ...]:
    sets = [set(n.tolist()) for n in numbers.values()]
    return tuple(sorted(set.intersection(*sets))) if sets else ()


def _by_number(hosts: list[Timeline], shared: tuple[int, ...], zero: dict[str, int]) -> str:
    fewest = min(len(t.steps) for t in hosts)
    if not shared:
        return "the hosts share no step number, and none of their steps ran at the same time: each host is shown by itself"
    steps = f"step {shared[0]} is" if len(shared) == 1 else f"{len(shared)} steps ({shared[0]} to {shared[-1]}) are"
    how = f"{steps} on {'both' if len(hosts) == 2 else f'all {len(hosts)}'} hosts, matched by number"
    if len(shared) < fewest:
        how += "; the other steps are not on every host"
    spans = [step_spans(t, zero[t.host]) for t in hosts]
    apart = [number for number in shared if not ran_together(s[number] for s in spans)]
    if len(apart) > len(shared) / 2:
        how += "; steps of one number did not run at the same time: these train independently"
    return how


def _by_overlap(hosts: list[Timeline], zero: dict[str, int]) -> dict[str, Numbers]:
    """Numbers of the first host's steps for every host's steps that overlap one of them; -1 - i for steps that overlap none."""
    first = hosts[0].steps
    begin, finish = first.start + zero[hosts[0].host], first.end + zero[hosts[0].host]
    numbers = {hosts[0].host: first.number}
    for t in hosts[1:]:
        start, end = t.steps.start + zero[t.host], t.steps.end + zero[t.host]
        middle = (start + end) // 2
        at = np.clip(np.searchsorted(begin, middle, side="right") - 1, 0, len(begin) - 1)
        overlap = np.minimum(end, finish[at]) - np.maximum(start, begin[at])
        same = overlap >= _OVERLAP * np.minimum(end - start, finish[at] - begin[at])
        same[1:] &= at[1:] != at[:-1]  # of two steps in the time of one, the first
        numbers[t.host] = np.where(same, first.number[at], -1 - np.arange(len(at)))
    return numbers


def _clocks(run: Run, numbers: dict[str, Numbers], shared: tuple[int, ...], zero: dict[str, int]) -> Table:
    ends: dict[str, dict[int, int]] = {}
    on_all = set(shared)
    for t in run.hosts:
        if t.host in numbers:
            known = zip(numbers[t.host].tolist(), (t.steps.end + zero[t.host]).tolist(), strict=True)
            ends[t.host] = {number: end for number, end in known if number in on_all}
    base = next(iter(ends.values()), {})
    rows = []
    for t in run.hosts:
        steps, mine = t.steps, ends.get(t.host, {})
        offset = median([mine[number] - base[number] for number in shared]) if mine and base else float("nan")
        bounds = (int(steps.number[0]), int(steps.number[-1])) if len(steps) else (float("nan"), float("nan"))
        rows.append((t.host, t.span[0] + zero[t.host], t.span[1] - t.span[0], *bounds, len(mine), offset))
    return Table.from_rows("clocks", "Hosts and their clocks", CLOCKS, rows)
