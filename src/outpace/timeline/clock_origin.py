# SPDX-License-Identifier: Apache-2.0
"""A common clock for all hosts of a run."""

from __future__ import annotations

from collections.abc import Mapping

from outpace._dataclass import dataclass
from outpace.timeline.run import Run
from outpace.timeline.timeline import Timeline

_COMPARABLE = 24 * 3600 * 10**9  # ns: hosts more than a day apart were not captured together, or their clocks are wrong


@dataclass(frozen=True)
class ClockOrigin:
    """Origin of a host's times.

    origin_ns: wall clock time if `is_wall_clock`, else `file_ns`.
    file_ns: the origin as the file writes it.
    first_event_ns: time from the origin to the earliest event; None without events.
    """

    origin_ns: int
    is_wall_clock: bool
    file_ns: int
    first_event_ns: int | None


def compute_origin(timeline: Timeline) -> ClockOrigin:
    """Return the origin of a host's times."""
    trace, unix = timeline.trace, timeline.unix_origin_ns
    first = timeline.zero_ps // 1000 if len(trace) else None
    return ClockOrigin(trace.origin_ns if unix is None else unix, unix is not None, trace.origin_ns, first)


def compute_shifts_ns(run: Run) -> dict[str, int]:
    """Return, by host, the shift in ns of its times (ns from its origin) with which the earliest
    moment of the run is 0: see `compute_origin_shifts_ns`.
    """
    return compute_origin_shifts_ns({t.host: compute_origin(t) for t in run.hosts})


def compute_origin_shifts_ns(origins: Mapping[str, ClockOrigin]) -> dict[str, int]:
    """Return, by host, the shift of its times in ns.

    Hosts are compared by the wall clock where all files record when their capture began (a profiler
    counts from there), else by the times in the files. Hosts whose clocks are not comparable all
    begin at 0.
    """
    with_events = {host: origin for host, origin in origins.items() if origin.first_event_ns is not None}
    if not with_events:
        return dict.fromkeys(origins, 0)
    walled = all(origin.is_wall_clock for origin in with_events.values())
    zero = {host: origin.origin_ns if walled else origin.file_ns for host, origin in with_events.items()}
    earliest = {host: zero[host] + (origin.first_event_ns or 0) for host, origin in with_events.items()}
    first = min(earliest.values())
    together = max(earliest.values()) - first <= _COMPARABLE
    first_of = dict.fromkeys(earliest, first) if together else earliest
    return {host: zero[host] - first_of[host] if host in with_events else 0 for host in origins}
