# SPDX-License-Identifier: Apache-2.0
"""A summary of a host, for runs with too many hosts to load all their events: enough to decide
which hosts execute the same program, and which one is slow.
"""

from __future__ import annotations

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.cluster.host_signature import NUMBERED_SOURCES, HostSignature, host_signatures
from outpace.metrics.cluster.workers import Worker, workers
from outpace.metrics.facts.device_counts import DeviceCount, device_counts
from outpace.model.arrays import Numbers, Picoseconds
from outpace.timeline import Run, Timeline
from outpace.timeline.clock_origin import ClockOrigin, compute_origin


@dataclass(frozen=True, eq=False)
class HostSummary:
    """A host without its events.

    host: name of the host
    size_bytes: size of its profile
    event_count: number of events in its profile
    origin: zero of the host's times
    span_ps: first and last moment, ps from the origin
    step_number: number of each step
    step_start: start of each step, ps
    step_end: end of each step, ps
    has_step_numbers: whether the numbers are the program's own, so that one number is the same step
        on all hosts
    workers: the host itself, or its devices where it has several
    signature: what it executed
    device_count: number of its devices
    warnings: what a reader has to know of its profile
    """

    host: str
    size_bytes: int
    event_count: int
    origin: ClockOrigin
    span_ps: tuple[int, int]
    step_number: Numbers
    step_start: Picoseconds
    step_end: Picoseconds
    has_step_numbers: bool
    workers: tuple[Worker, ...]
    signature: HostSignature
    device_count: DeviceCount
    warnings: tuple[str, ...] = ()

    @property
    def capture_span_ns(self) -> tuple[int, int]:
        """The first and the last moment of the capture on the host's own clock, ns."""
        return self.origin.origin_ns + self.span_ps[0] // 1000, self.origin.origin_ns + self.span_ps[1] // 1000


@memoize
def host_summaries(run: Run) -> tuple[HostSummary, ...]:
    """Return a summary of each host.

    A run of very many hosts is handed the summaries of all of them in advance (`outpace.hosts`).
    """
    workers_of: dict[str, list[Worker]] = {timeline.host: [] for timeline in run.hosts}
    for worker in workers(run):
        workers_of[worker.host].append(worker)
    executed = {signature.host: signature for signature in host_signatures(run)}
    devices = {count.host: count for count in device_counts(run)}
    return tuple(
        _digest(timeline, tuple(workers_of[timeline.host]), executed[timeline.host], devices[timeline.host])
        for timeline in run.hosts
    )


def _digest(timeline: Timeline, host_workers: tuple[Worker, ...], executed: HostSignature, counted: DeviceCount) -> HostSummary:
    trace, steps = timeline.trace, timeline.steps
    return HostSummary(
        host=timeline.host,
        size_bytes=trace.size,
        event_count=len(trace),
        origin=compute_origin(timeline),
        span_ps=timeline.span_ps,
        step_number=steps.number,
        step_start=steps.start,
        step_end=steps.end,
        has_step_numbers=len(steps) > 0 and steps.source in NUMBERED_SOURCES,
        workers=host_workers,
        signature=executed,
        device_count=counted,
    )
