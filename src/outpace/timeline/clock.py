"""One clock for all hosts of a run."""

from __future__ import annotations

from outpace.timeline.run import Run
from outpace.timeline.timeline import Timeline

_COMPARABLE = 24 * 3600 * 10**9  # hosts further apart than a day were not captured together, or their clocks say nothing


def shifts_ns(run: Run) -> dict[str, int]:
    """What each host's times (ns from its origin) are moved by, so that the earliest moment of the run is 0.

    The moments of hosts are compared by the wall clock where all files say when their capture began (a profiler counts from there), else by
    the times that stand in them. Hosts whose clocks do not compare all begin at 0.
    """
    origin = {t.host: _origin(t) for t in run.hosts if len(t.trace)}
    if not origin:
        return {t.host: 0 for t in run.hosts}
    if len({walled for _, walled in origin.values()}) > 1:
        origin = {t.host: (t.trace.origin_ns, False) for t in run.hosts if t.host in origin}
    earliest = {t.host: origin[t.host][0] + int(t.trace.start.min()) // 1000 for t in run.hosts if t.host in origin}
    first = min(earliest.values())
    together = max(earliest.values()) - first <= _COMPARABLE
    first_of = dict.fromkeys(earliest, first) if together else earliest
    return {t.host: origin[t.host][0] - first_of[t.host] if t.host in origin else 0 for t in run.hosts}


def _origin(timeline: Timeline) -> tuple[int, bool]:
    """Origin in ns, and whether it is by the wall clock."""
    unix = timeline.unix_origin_ns
    return (timeline.trace.origin_ns, False) if unix is None else (unix, True)
