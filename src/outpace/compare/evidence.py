"""What is known of the machine from outside the program: short loops that each capture timed, and
what other programs used meanwhile.

Parts alone cannot tell a slower machine from a program all of whose work takes longer, with one
thread instead of many or in 64 bits: both change everything alike. So the machine is named as the
cause, and a gate passes for it, only as far as this evidence goes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from statistics import fmean, median
from typing import Protocol

from outpace._dataclass import dataclass
from outpace.metrics.facts.cpu_saturation import machine_utilization, other_processes_cores
from outpace.timeline import Run

CALIBRATION_LOOPS = ("arithmetic", "memory", "Python")  # as `capture/calibration.py` times them
_TOLERANCE = math.log(1.05)  # loops of one machine differ by that
_FOLLOWS = 0.1  # of the log of a loop's ratio, by which a program may follow it less, or more
_CONTENDED = 2.0  # times as much as the cores that others use may cost: threads that wait for the slowest of them, caches that are shared
_CHANCE = 0.5  # sd of the log of what waiting for cores makes of a class, where others use all of the machine
_FULL = 0.9  # share of the machine for others beyond which nothing more can be told apart


@dataclass(frozen=True)
class Machine:
    """The machine of one capture. loops: ns that each loop took; others: share of its processor
    time that other programs used, NaN where nobody knows.
    """

    loop_ns: Mapping[str, float] = field(default_factory=dict)
    others_share: float = math.nan


class HasMachine(Protocol):
    """A capture whose machine is known, or not."""

    @property
    def machine(self) -> Machine:
        """The machine."""


@dataclass(frozen=True)
class MachineEvidence:
    """loops: how many times as long each loop takes on the second side's machine; others: share of
    the machine's time that other programs used on each side; both empty where it is not known.
    middle: the log factor of the middle loop, of each capture, so that none says it alone.
    """

    loop_ratios: Mapping[str, float] = field(default_factory=dict)
    others_shares: tuple[float, float] | None = None
    median_log: float = 0.0

    @property
    def available(self) -> bool:
        """Whether there is any."""
        return bool(self.loop_ratios or self.others_shares)

    @property
    def log_shift(self) -> float:
        """The log factor by which the loops say that the machine is slower; 0 where loops of one
        machine may differ by as much.
        """
        low, high = self._ends
        return 0.0 if low <= 0 <= high else self.median_log

    @property
    def max_class_log(self) -> float | None:
        """The log that a class of few parts lies from all parts at most: machines on which three
        different loops agree make no class of work apart by more than loops of one machine differ.
        None without loops.
        """
        return _TOLERANCE if self.loop_ratios else None

    @property
    def expected_log(self) -> float:
        """The log factor by which a program should take longer there: what the loops say, and what
        the cores cost that others took.
        """
        return self.log_shift + _crowded(self.others_shares)

    @property
    def low_log(self) -> float:
        """The log factor by which the machine is slower at least."""
        return self._ends[0] + _CONTENDED * min(_crowded(self.others_shares), 0.0)

    @property
    def high_log(self) -> float:
        """The log factor by which the machine is slower at most."""
        return self._ends[1] + _CONTENDED * max(_crowded(self.others_shares), 0.0)

    @property
    def _ends(self) -> tuple[float, float]:
        """What the two loops say that agree best, and how far programs of one machine lie from
        that.
        """
        logs = sorted(map(math.log, self.loop_ratios.values())) or [0.0]
        low, high = min(pairwise(logs), key=lambda pair: pair[1] - pair[0], default=(logs[0], logs[0]))
        tolerance = _TOLERANCE + _FOLLOWS * max(abs(low), abs(high))
        return min(low, self.median_log) - tolerance, max(high, self.median_log) + tolerance

    @property
    def class_log_sd(self) -> float:
        """By how much it lets classes of work lie apart (sd of the log): others take cores from
        what uses many, and none from one thread; and beside others it is chance what has to wait
        for a core.
        """
        return math.hypot(_crowded(self.others_shares), _CHANCE * max(self.others_shares or (0.0, 0.0)))

    def explains(self, log_ratio: float) -> bool:
        """Whether the machine may be what makes all work take longer by this log factor."""
        return self.available and self.low_log <= log_ratio <= self.high_log


def compute_machine(run: Run, hosts: Sequence[str]) -> Machine:
    """The machine of the hosts of a capture: of several, the mean."""
    records = [run.record(host) for host in hosts]
    told = [record.get("calibration") or {} for record in records]
    loops = {
        loop: fmean(float(each[loop]) for each in told)
        for loop in CALIBRATION_LOOPS
        if told and all(each.get(loop) for each in told)
    }
    timelines = [run.by_host[host] for host in hosts]
    used = [
        other_processes_cores(run, each) / cores
        for each in timelines
        if (cores := run.core_count(each)) and machine_utilization(run, each) > 0
    ]
    return Machine(loops, fmean(used) if used and len(used) == len(hosts) else math.nan)


def compare_machines(before: Sequence[HasMachine], after: Sequence[HasMachine]) -> MachineEvidence:
    """What is known of both sides' machines, each in all of its captures."""
    one, two = ([each.machine for each in side] for side in (before, after))
    common = [loop for loop in CALIBRATION_LOOPS if all(loop in each.loop_ns for each in (*one, *two))]
    loops = {loop: math.exp(_log(two, [loop]) - _log(one, [loop])) for loop in common}
    others = fmean(each.others_share for each in one), fmean(each.others_share for each in two)
    middle = _log(two, common) - _log(one, common) if common else 0.0
    return MachineEvidence(loops, None if math.isnan(sum(others)) else others, middle)


def _log(machines: Sequence[Machine], loops: Sequence[str]) -> float:
    """The mean over captures of the log of the middle one of some loops."""
    return fmean(median(math.log(each.loop_ns[loop]) for loop in loops) for each in machines)


def _crowded(others: tuple[float, float] | None) -> float:
    """The log of how much less of the machine is left on the second side for what uses
    all of it.
    """
    one, two = (min(max(each, 0.0), _FULL) for each in others or (0.0, 0.0))
    return math.log1p(-one) - math.log1p(-two)
