# SPDX-License-Identifier: Apache-2.0
"""Evidence about the machine from outside the program: short calibration loops timed in each
capture, and the processor time that other programs used meanwhile.

The times of parts alone cannot distinguish a slower machine from a program whose work all takes
longer, with one thread instead of many or in 64 bits, because both change every part alike. So the
machine is named as the cause, and a gate passes because of it, only as far as this evidence
supports.
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

CALIBRATION_LOOPS = ("arithmetic", "memory", "Python")  # calibration loops that `capture/calibration.py` times
_TOLERANCE = math.log(1.05)  # log by which the times of loops on one machine may differ
_FOLLOWS = 0.1  # relative tolerance between the log of a loop's ratio and that of a program on the same machine
# cost of contention, as a multiple of the cores that other programs use: threads wait for the
# slowest of them, and caches are shared
_CONTENDED = 2.0
_CHANCE = 0.5  # sd of the log of a class's time due to waiting for cores where other programs use the whole machine
_FULL = 0.9  # share of the machine used by other programs beyond which nothing can be distinguished


@dataclass(frozen=True)
class Machine:
    """The machine of one capture.

    loop_ns: time of each calibration loop, ns
    others_share: share of the machine's processor time that other programs used; NaN where unknown
    """

    loop_ns: Mapping[str, float] = field(default_factory=dict)
    others_share: float = math.nan


class HasMachine(Protocol):
    """A capture with a record of its machine, which may be empty."""

    @property
    def machine(self) -> Machine:
        """Return the machine of the capture."""


@dataclass(frozen=True)
class MachineEvidence:
    """Comparison of the machines of two sides.

    loop_ratios: time of each calibration loop on the second side relative to the first; empty where
      unknown
    others_shares: share of the machine's time that other programs used on each side; None where
      unknown
    median_log: log factor of the median loop, computed per capture so that no single loop decides
      it
    """

    loop_ratios: Mapping[str, float] = field(default_factory=dict)
    others_shares: tuple[float, float] | None = None
    median_log: float = 0.0

    @property
    def available(self) -> bool:
        """Whether any evidence exists."""
        return bool(self.loop_ratios or self.others_shares)

    @property
    def log_shift(self) -> float:
        """Log factor by which the loops indicate that the machine is slower; 0 where it is within
        the tolerance of loops on one machine.
        """
        low, high = self._ends
        return 0.0 if low <= 0 <= high else self.median_log

    @property
    def max_class_log(self) -> float | None:
        """Maximum distance of the log factor of a class with few parts from that of all parts: on
        machines for which three different loops agree, no class of work differs by more than
        loops of one machine do. None without loops.
        """
        return _TOLERANCE if self.loop_ratios else None

    @property
    def expected_log(self) -> float:
        """Log factor by which a program is expected to take longer on the second machine: the ratio
        of the loops and the cost of the cores that other programs used.
        """
        return self.log_shift + _log_crowding(self.others_shares)

    @property
    def low_log(self) -> float:
        """Lower bound of the log factor by which the machine is slower."""
        return self._ends[0] + _CONTENDED * min(_log_crowding(self.others_shares), 0.0)

    @property
    def high_log(self) -> float:
        """Upper bound of the log factor by which the machine is slower."""
        return self._ends[1] + _CONTENDED * max(_log_crowding(self.others_shares), 0.0)

    @property
    def _ends(self) -> tuple[float, float]:
        """Return the log ratios of the two loops that agree best, with a margin for how far
        programs on one machine differ from them.
        """
        logs = sorted(map(math.log, self.loop_ratios.values())) or [0.0]
        low, high = min(pairwise(logs), key=lambda pair: pair[1] - pair[0], default=(logs[0], logs[0]))
        tolerance = _TOLERANCE + _FOLLOWS * max(abs(low), abs(high))
        return min(low, self.median_log) - tolerance, max(high, self.median_log) + tolerance

    @property
    def class_log_sd(self) -> float:
        """Sd of the log by which the machine may change classes of work differently: other programs
        take cores from work that uses many threads and none from work that uses one, and which
        work waits for a core is chance.
        """
        return math.hypot(_log_crowding(self.others_shares), _CHANCE * max(self.others_shares or (0.0, 0.0)))

    def explains(self, log_ratio: float) -> bool:
        """Whether the machine may be the reason that all work takes longer by this log factor."""
        return self.available and self.low_log <= log_ratio <= self.high_log


def compute_machine(run: Run, hosts: Sequence[str]) -> Machine:
    """Return the machine of a capture's hosts, the mean where there are several."""
    records = [run.record(host) for host in hosts]
    calibrations = [record.get("calibration") or {} for record in records]
    loops = {
        loop: fmean(float(times[loop]) for times in calibrations)
        for loop in CALIBRATION_LOOPS
        if calibrations and all(times.get(loop) for times in calibrations)
    }
    timelines = [run.by_host[host] for host in hosts]
    other_shares = [
        other_processes_cores(run, timeline) / cores
        for timeline in timelines
        if (cores := run.core_count(timeline)) and machine_utilization(run, timeline) > 0
    ]
    return Machine(loops, fmean(other_shares) if other_shares and len(other_shares) == len(hosts) else math.nan)


def compare_machines(before: Sequence[HasMachine], after: Sequence[HasMachine]) -> MachineEvidence:
    """Return the evidence from the machines of both sides, each over all of its captures."""
    one, two = ([capture.machine for capture in side] for side in (before, after))
    common = [loop for loop in CALIBRATION_LOOPS if all(loop in machine.loop_ns for machine in (*one, *two))]
    loops = {loop: math.exp(_log(two, [loop]) - _log(one, [loop])) for loop in common}
    others = fmean(machine.others_share for machine in one), fmean(machine.others_share for machine in two)
    middle = _log(two, common) - _log(one, common) if common else 0.0
    return MachineEvidence(loops, None if math.isnan(sum(others)) else others, middle)


def _log(machines: Sequence[Machine], loops: Sequence[str]) -> float:
    """Return the mean over captures of the log time of the median loop."""
    return fmean(median(math.log(machine.loop_ns[loop]) for loop in loops) for machine in machines)


def _log_crowding(others: tuple[float, float] | None) -> float:
    """Return the log by which the share of the machine available to work that uses all cores is
    smaller on the second side.
    """
    one, two = (min(max(share, 0.0), _FULL) for share in others or (0.0, 0.0))
    return math.log1p(-one) - math.log1p(-two)
