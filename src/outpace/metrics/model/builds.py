"""Building programs: TensorFlow's graphs, and what JAX and XLA trace, lower and compile.

A call of a jitted JAX function that is not in its cache traces the Python function, lowers it and compiles it before it runs. Events name
some of this (`trace_to_jaxpr_dynamic`, `lower_sharding_computation`, `backend_compile_and_load`), and more of it where the Python tracer was
on; what lies between them is Python of the same work. So a build lasts from the start of the call to the end of the last of these events in
it.

While it compiles for a GPU, XLA also runs kernels there: it times what it may choose from, and compares the results (autotuning). Whatever
is launched by a thread that builds, or for no program by another one meanwhile, is work of the compiler.
"""

from __future__ import annotations

import numpy as np

from outpace._dataclass import dataclass
from outpace._once import derived
from outpace.metrics.spans import Spans, union
from outpace.model.arrays import Indices, Mask, Picoseconds
from outpace.timeline import Timeline
from outpace.timeline.names import COMPILER_THREADS, Is, called_function, module_function, names
from outpace.timeline.workers import runs_jax
from outpace.trace import Trace, dialect
from outpace.trace.algorithms import common, distinct


@dataclass(frozen=True)
class Build:
    """A program of JAX that was built: `row` of the event that began it, its time in ps, and the function."""

    row: int
    start: int
    end: int
    function: str


def jax_builds(timeline: Timeline) -> tuple[Build, ...]:
    """The programs that JAX built, in order of time by thread; none for a profile of TensorFlow."""
    trace = timeline.trace
    if not runs_jax(trace):
        return ()
    parts = timeline.names.rows(Is.BUILDS)
    parts = parts[_on_main_threads(trace, parts)]
    calls = timeline.names.rows(Is.CALL)
    rows = distinct(np.concatenate((parts, calls)))
    parent, _ = trace.nested(rows)
    above = dict(zip(rows.tolist(), parent.tolist(), strict=True))
    ends: dict[int, int] = {}
    for part in parts.tolist():
        top = part
        while above[top] >= 0:
            top = above[top]
        ends[top] = max(ends.get(top, 0), int(trace.end[part]))
    return tuple(Build(top, int(trace.start[top]), end, _function(trace, top, end)) for top, end in sorted(ends.items()))


@derived
def compiler_work(timeline: Timeline) -> Indices:
    """Event rows of what devices did for the compiler, sorted; none for a profile of TensorFlow."""
    trace, builds = timeline.trace, jax_builds(timeline)
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


def _on_main_threads(trace: Trace, rows: Indices) -> Mask:
    """Threads that call jitted functions, or that Python runs on: what a pool does for them is part of their builds."""
    of_python = names(trace).rows(Is.ON_PYTHON | Is.CALL)
    python = np.zeros(len(trace.lines), bool)
    python[trace.line[of_python]] = True
    return np.asarray(python[trace.line[rows]])


def _function(trace: Trace, top: int, end: int) -> str:
    """Name of the function that a build is of: as it was called, else as XLA calls its module."""
    if called := called_function(trace.names[trace.name[top]]):
        return called
    rows = names(trace).rows(Is.OF_MODULE)
    mine = rows[(trace.start[rows] >= trace.start[top]) & (trace.start[rows] < end)]
    return module_function(trace.names[trace.name[mine[0]]]) if len(mine) else ""
