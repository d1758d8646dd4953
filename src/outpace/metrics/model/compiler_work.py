"""What devices did for the compiler: while it compiles for a GPU, XLA also runs kernels there, times what it may choose from, and compares the
results (autotuning). Whatever is launched by a thread that builds, or for no program by another one meanwhile, is work of the compiler."""

from __future__ import annotations

import numpy as np

from outpace._once import derived
from outpace.metrics.spans import Spans, union
from outpace.model.arrays import Indices, Mask, Picoseconds
from outpace.timeline import Timeline
from outpace.timeline.builds import jax_builds
from outpace.timeline.names import COMPILER_THREADS
from outpace.trace import dialect
from outpace.trace.algorithms import common, distinct


@derived
def compiler_work(timeline: Timeline) -> Indices:
    """Event rows of what devices did for the compiler, sorted; none for a profile of TensorFlow."""
    trace, builds = timeline.trace, jax_builds(timeline.trace)
    calls, launched = timeline.launches
    line, called = trace.line[calls], trace.start[calls]
    pool = np.fromiter((name.startswith(COMPILER_THREADS) for name in trace.lines.names), bool, len(trace.lines))
    row, start, end = (np.array([part[at] for part in ((b.row, b.start, b.end) for b in builds)], np.int64) for at in range(3))
    found = pool[line] | (_during(union(start, end), called) & _of_no_program(timeline, launched))
    builder = trace.line[row]
    for each in distinct(builder).tolist():
        mine = builder == each
        found |= (line == each) & _during(union(start[mine], end[mine]), called)
    return np.sort(launched[found]).astype(np.int64)


def _during(spans: Spans, times: Picoseconds) -> Mask:
    """Whether each of some times lies in one of the spans."""
    start, end = spans
    return np.asarray(np.searchsorted(start, times, side="right") > np.searchsorted(end, times, side="right"))


def _of_no_program(timeline: Timeline, rows: Indices) -> Mask:
    """Whether each kernel is one of no program that the profile knows; what copies is none."""
    trace, program = timeline.trace, timeline.trace.stat(dialect.PROGRAM_ID)
    order = np.argsort(rows, kind="stable")
    sorted_ = rows[order].astype(np.int64)
    found = np.zeros(len(rows), bool)
    found[order[common(sorted_, trace.stat(dialect.KERNEL_DETAILS).row)[0]]] = True
    found[order[common(sorted_, program.row)[0]]] = False
    return found
