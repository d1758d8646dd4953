# SPDX-License-Identifier: Apache-2.0
"""Reading of one host: its events, or a summary where a run has very many hosts."""

from __future__ import annotations

import sys
from dataclasses import replace

from outpace._dataclass import dataclass
from outpace.metrics.cluster.host_summary import HostSummary, host_summaries
from outpace.model.units import format_count
from outpace.store.logdir import local_copy
from outpace.store.profiles import ProfileFile
from outpace.timeline import Run
from outpace.trace import ReadLimits, Trace, Window, open_trace


@dataclass(frozen=True)
class HostRequest:
    """A host to read.

    file: profile of the host
    use_marks: whether the marks of steps are used
    window: part of the time to read; None for all of it
    """

    file: ProfileFile
    use_marks: bool = True
    window: Window | None = None


def read_host_trace(file: ProfileFile, limits: ReadLimits) -> Trace:
    """Return the events of a host. Raises the errors of `open_trace` and `local_copy`."""
    with local_copy(file) as place:
        return open_trace(place, file.host, limits)


def read_host_summary(request: HostRequest) -> HostSummary:
    """Return the summary of a host; its events are freed."""
    trace = read_host_trace(request.file, ReadLimits(request.window))
    summary = host_summaries(Run.from_traces([trace], use_marks=request.use_marks))[0]
    return replace(summary, warnings=format_trace_warnings(trace))


def intern_op_names(summary: HostSummary) -> HostSummary:
    """Return the summary with interned names of ops, which all hosts then share in memory: each
    summary otherwise has its own copies from the process that read it.
    """
    return replace(
        summary,
        signature=replace(summary.signature, op_ps={sys.intern(name): time for name, time in summary.signature.op_ps.items()}),
    )


def format_trace_warnings(trace: Trace) -> tuple[str, ...]:
    """Return warnings about a host's file: lost bytes and names, and the errors and warnings that
    the profiler recorded.
    """
    lost = []
    for loss in trace.damages:
        place = f" in plane {loss.plane}" if loss.plane else ""
        size = f"; {loss.size:,} bytes are missing" if loss.size else ""
        where = "" if loss.offset is None else f" at byte {loss.offset:,}{size}. Everything before it is in this report"
        lost.append(f"{trace.host}: {loss.description}{place}{where}.")
    nameless = [f"{trace.unnamed_events:,} of {len(trace):,} events"] * (trace.unnamed_events > 0)
    nameless += [format_count(trace.unnamed_stats, "stat")] * (trace.unnamed_stats > 0)
    if nameless:
        lost.append(
            f"{trace.host}: the names of {' and of '.join(nameless)} are lost with the end of the file; "
            "times and threads are right, ops and steps are unknown. Copy or capture the profile again."
        )
    return (*lost, *(f"{trace.host}: the profiler noted: {message}" for message in trace.messages))
