"""One clock for all hosts of a run."""

from __future__ import annotations

from collections.abc import Mapping

from outpace._dataclass import dataclass
from outpace.timeline.run import Run
from outpace.timeline.timeline import Timeline

_COMPARABLE = 24 * 3600 * 10**9  # hosts further apart than a day were not captured together, or their clocks say nothing


@dataclass(frozen=True)
class ClockOrigin:
    """Where a host's times are counted from: `origin_ns` by the wall clock if it is
    `is_wall_clock`, else as the file writes it, which is `file_ns`; `first_event_ns`: ns from there
    to the earliest event, None where there is none.
    """

    origin_ns: int
    is_wall_clock: bool
    file_ns: int
    first_event_ns: int | None


def compute_origin(timeline: Timeline) -> ClockOrigin:
    """The origin of a host's times."""
    trace, unix = timeline.trace, timeline.unix_origin_ns
    first = timeline.zero_ps // 1000 if len(trace) else None
    return ClockOrigin(trace.origin_ns if unix is None else unix, unix is not None, trace.origin_ns, first)


def compute_shifts_ns(run: Run) -> dict[str, int]:
    """What each host's times (ns from its origin) are moved by, so that the earliest moment of the
    run is 0: see `compute_origin_shifts_ns`.
    """
    return compute_origin_shifts_ns({t.host: compute_origin(t) for t in run.hosts})


def compute_origin_shifts_ns(origins: Mapping[str, ClockOrigin]) -> dict[str, int]:
    """What each host's times are moved by.

    The moments of hosts are compared by the wall clock where all files say when their capture began
    (a profiler counts from there), else by the times that stand in them. Hosts whose clocks do not
    compare all begin at 0.
    """
    known = {host: origin for host, origin in origins.items() if origin.first_event_ns is not None}
    if not known:
        return dict.fromkeys(origins, 0)
    walled = all(origin.is_wall_clock for origin in known.values())
    zero = {host: origin.origin_ns if walled else origin.file_ns for host, origin in known.items()}
    earliest = {host: zero[host] + (origin.first_event_ns or 0) for host, origin in known.items()}
    first = min(earliest.values())
    together = max(earliest.values()) - first <= _COMPARABLE
    first_of = dict.fromkeys(earliest, first) if together else earliest
    return {host: zero[host] - first_of[host] if host in known else 0 for host in origins}
