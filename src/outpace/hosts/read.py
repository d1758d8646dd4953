"""Reading one host: its events, or what is kept of it where there are very many."""

from __future__ import annotations

import sys
from dataclasses import replace

from outpace._dataclass import dataclass
from outpace.metrics.program.digest import Digest, digests
from outpace.model.units import counted
from outpace.store.logdir import local_copy
from outpace.store.profiles import ProfileFile
from outpace.timeline import Run
from outpace.trace import Limits, Trace, Window, open_trace


@dataclass(frozen=True)
class Asked:
    """A host to read: its profile, whether the marks of its steps count, and the part of the time that is wanted."""

    file: ProfileFile
    use_marks: bool = True
    window: Window | None = None


def trace_of(file: ProfileFile, limits: Limits) -> Trace:
    """The events of a host. Raises what `open_trace` and `local_copy` do."""
    with local_copy(file) as place:
        return open_trace(place, file.host, limits)


def digest_of(asked: Asked) -> Digest:
    """What is kept of a host; its events are let go."""
    trace = trace_of(asked.file, Limits(asked.window))
    found = digests(Run.of([trace], use_marks=asked.use_marks))[0]
    return replace(found, warnings=warnings_of(trace))


def shared(host: Digest) -> Digest:
    """The same with names of ops that all hosts share in memory: each brings its own from the process that read it."""
    return replace(host, facts=replace(host.facts, ops={sys.intern(name): time for name, time in host.facts.ops.items()}))


def warnings_of(trace: Trace) -> tuple[str, ...]:
    """What a reader must know of a host's file: bytes and names that are lost, and what the profiler itself noted."""
    lost = []
    for loss in trace.losses:
        place = f" in plane {loss.plane}" if loss.plane else ""
        size = f"; {loss.size:,} bytes are missing" if loss.size else ""
        where = "" if loss.offset is None else f" at byte {loss.offset:,}{size}. Everything before it is in this report"
        lost.append(f"{trace.host}: {loss.what}{place}{where}.")
    nameless = [f"{trace.nameless:,} of {len(trace):,} events"] * (trace.nameless > 0)
    nameless += [counted(trace.nameless_stats, "stat")] * (trace.nameless_stats > 0)
    if nameless:
        lost.append(
            f"{trace.host}: the names of {' and of '.join(nameless)} are lost with the end of the file; "
            "times and threads are right, ops and steps are unknown. Copy or capture the profile again."
        )
    return (*lost, *(f"{trace.host}: the profiler noted: {message}" for message in trace.messages))
