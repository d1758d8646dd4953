"""HLO ops as events that ran: kernels on devices, and what XLA's worker threads ran on a CPU."""

from __future__ import annotations

import numpy as np

from outpace.timeline import Timeline
from outpace.timeline.steps import Array


def ran_rows(timeline: Timeline) -> Array:
    """Rows of the events that name an HLO op and ran it. A host's launch call names the op of its kernel, and is none of them."""
    trace = timeline.trace
    rows = trace.stat("hlo_op").row
    launched = trace.stat("correlation_id").has(len(trace))[rows]
    on_host = np.fromiter((p.name.startswith("/host:") for p in trace.planes), bool, len(trace.planes))
    return np.asarray(rows[~(launched & on_host[trace.lines.plane[trace.line[rows]]])])
