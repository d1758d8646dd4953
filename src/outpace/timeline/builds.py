# SPDX-License-Identifier: Apache-2.0
"""Builds of programs: graphs of TensorFlow, and tracing, lowering and compilation of JAX and XLA.

A call of a jitted JAX function that is not in its cache traces the Python function, lowers it and
compiles it before it runs. Events name some of this (`trace_to_jaxpr_dynamic`,
`lower_sharding_computation`, `backend_compile_and_load`), and more of it with the Python tracer on;
the time between these events is Python code of the same work. So a build lasts from the start of
the call to the end of the last such event in it.

Every function is built once, when it is called for the first time: no step of the steady state pays
for that (`find_first_builds`). A later build may be repeated again and again. An event is written
when it ends. Of a build that the end of the capture cut off, the profile therefore has the compiler
passes that had ended, and none of the events that contain them (`find_unfinished_build`).
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.model.arrays import Indices, Mask, Picoseconds
from outpace.timeline.causality import find_launches
from outpace.timeline.event_names import COMPILER_THREADS, EventFlag, event_names
from outpace.timeline.function_names import parse_called_function, parse_pass_function
from outpace.timeline.span_coverage import Spans
from outpace.timeline.xla_threads import has_jax_calls
from outpace.trace import Trace, dialect
from outpace.trace.algorithms import distinct, intersect_indices


@dataclass(frozen=True)
class Build:
    """Build of a JAX program.

    row: event row of the call or event that began it.
    start, end: ps.
    function: name of the function, "" where it is unknown.
    """

    row: int
    start: int
    end: int
    function: str


@memoize
def find_jax_builds(trace: Trace) -> tuple[Build, ...]:
    """Return the builds of JAX programs, by thread in order of time; none in a profile of
    TensorFlow.
    """
    if not has_jax_calls(trace):
        return ()
    parts = event_names(trace).rows(EventFlag.BUILD)
    parts = parts[_main_thread_mask(trace, parts)]
    calls = event_names(trace).rows(EventFlag.NAMED_CALL)
    rows = distinct(np.concatenate((parts, calls)))
    parent, _ = trace.compute_nesting(rows)
    above = dict(zip(rows.tolist(), parent.tolist(), strict=True))
    ends: dict[int, int] = {}
    for part in parts.tolist():
        top = part
        while above[top] >= 0:
            top = above[top]
        ends[top] = max(ends.get(top, 0), int(trace.end[part]))
    return tuple(Build(top, int(trace.start[top]), end, _function(trace, top, end)) for top, end in sorted(ends.items()))


@memoize
def find_first_builds(trace: Trace) -> Spans:
    """Return (start, end) of the first build of each function, ps, sorted by start.

    A function that runs earlier without being built was built before the capture, and has no first
    build. Builds without a function's name are left out.
    """
    spans = [*_first_of_jax(trace), *_first_of_tensorflow(trace)]
    start, end = np.array(sorted(spans), np.int64).reshape(-1, 2).T
    return start, end


@dataclass(frozen=True)
class UnfinishedBuild:
    """Build that was not complete at the end of the capture: the function, and the start of the
    compiler's first pass in ps.
    """

    function: str
    start: int


@memoize
def find_unfinished_build(trace: Trace) -> UnfinishedBuild | None:
    """Return the build that the end of the capture cut off; None where all builds are complete.

    Its passes are in no event of a build and in no call, and its thread calls no function after
    them.
    """
    names = event_names(trace)
    passes = names.rows(EventFlag.COMPILER_PASS)
    if len(passes) == 0:
        return None
    calls = names.rows(EventFlag.NAMED_CALL)
    outer = trace.find_outermost(distinct(np.concatenate((passes, names.rows(EventFlag.BUILD), calls))))
    outer = outer[intersect_indices(outer, passes)[0]]
    called = np.full(len(trace.lines), np.iinfo(np.int64).min)
    np.maximum.at(called, trace.line[calls], trace.end[calls])
    outer = outer[_main_thread_mask(trace, outer) & (trace.start[outer] >= called[trace.line[outer]])]
    if len(outer) == 0:
        return None
    last = trace.name[outer[np.argmax(trace.end[outer])]]
    function = parse_pass_function(trace.names[last])
    of_function = [parse_pass_function(trace.names[code]) == function for code in trace.name[outer].tolist()]
    return UnfinishedBuild(function, int(trace.start[outer[of_function]].min()))


@memoize
def find_autotuning_launches(trace: Trace) -> tuple[Indices, Indices]:
    """Return (rows of the host's calls, rows of what each launched on a device) for XLA's
    autotuning: while it compiles for a GPU, XLA runs candidate kernels there, measures them and
    compares the results.

    These launches are those of the building thread during a build, those of XLA's compile pool, and
    kernels of no program that are launched during a build by threads which launch at no other time
    and call no function.
    """
    host, device = find_launches(trace)
    builds, cut = find_jax_builds(trace), find_unfinished_build(trace)
    if len(host) == 0:
        return host, device
    line, called = trace.line[host], trace.start[host]
    spans = [(build.start, build.end) for build in builds] + ([(cut.start, trace.span_ps[1])] if cut is not None else [])
    pool = np.fromiter((name.startswith(COMPILER_THREADS) for name in trace.lines.names), bool, len(trace.lines))
    within, trains = _mask_within_spans(spans, called), np.zeros(len(trace.lines), bool)
    trains[line[~within]] = trains[trace.line[event_names(trace).rows(EventFlag.NAMED_CALL)]] = True
    mask = pool[line] | (within & ~trains[line] & _programless_mask(trace, device))
    for thread in {int(trace.line[build.row]) for build in builds}:
        thread_spans = [(build.start, build.end) for build in builds if trace.line[build.row] == thread]
        mask |= (line == thread) & _mask_within_spans(thread_spans, called)
    return host[mask], device[mask]


def _mask_within_spans(spans: list[tuple[int, int]], times: Picoseconds) -> Mask:
    """Return a boolean per time: whether it is in one of the spans, which may overlap."""
    if not spans:
        return np.zeros(len(times), bool)
    start, end = np.array(sorted(spans), np.int64).T
    at = np.searchsorted(start, times, side="right") - 1
    return np.asarray((at >= 0) & (times < np.maximum.accumulate(end)[np.maximum(at, 0)]))


def _programless_mask(trace: Trace, rows: Indices) -> Mask:
    """Return a boolean per device event: whether it is a kernel of no program in the profile."""
    order = np.argsort(rows, kind="stable")
    in_order = rows[order].astype(np.int64)
    mask = np.zeros(len(rows), bool)
    mask[order[intersect_indices(in_order, trace.stat(dialect.KERNEL_DETAILS).rows)[0]]] = True
    mask[order[intersect_indices(in_order, trace.stat(dialect.PROGRAM_ID).rows)[0]]] = False
    return mask


def _first_of_jax(trace: Trace) -> list[tuple[int, int]]:
    built = find_jax_builds(trace)
    first: dict[str, Build] = {}
    for build in sorted(built, key=lambda b: b.start):
        if build.function:
            first.setdefault(build.function, build)
    ran = _first_runs(trace, built)
    return [(b.start, b.end) for function, b in first.items() if ran.get(function, b.start) >= b.start]


def _first_runs(trace: Trace, built: tuple[Build, ...]) -> dict[str, int]:
    """Return the time of each function's first call that built nothing, ps. Calls within a build
    are left out, because they are traced and do not run.
    """
    calls = event_names(trace).rows(EventFlag.NAMED_CALL)
    for line in {int(trace.line[b.row]) for b in built}:
        spans = [(b.start, b.end) for b in built if trace.line[b.row] == line]
        start, end = np.array(sorted(spans), np.int64).T
        at = np.searchsorted(start, trace.start[calls], side="right") - 1
        calls = calls[(trace.line[calls] != line) | (at < 0) | (trace.start[calls] >= end[at])]
    first = np.full(len(trace.names), np.iinfo(np.int64).max)
    np.minimum.at(first, trace.name[calls], trace.start[calls])
    by_function: dict[str, int] = {}
    for name in distinct(trace.name[calls]).tolist():
        function = parse_called_function(trace.names[name]) or ""
        by_function[function] = min(by_function.get(function, int(first[name])), int(first[name]))
    return by_function


def _first_of_tensorflow(trace: Trace) -> list[tuple[int, int]]:
    """Return the spans of calls in which TensorFlow built a function's first graph, by its
    `tracing_count`.
    """
    counts = trace.stat(dialect.TRACING_COUNT)
    rows = counts.rows[counts.ints == 1]
    calls = trace.stat(dialect.TF_FUNCTION_CALL)
    at, place = intersect_indices(rows, calls.rows)
    code, modes = calls.encode_texts(place)
    traced = np.fromiter((mode.startswith("traced") for mode in modes), bool, len(modes))
    rows = rows[at][traced[code]] if len(at) else rows[:0]
    if len(rows) == 0:
        return []
    parts = event_names(trace).rows(EventFlag.BUILD)
    ends = trace.compute_subtree_ends(rows)
    spans = []
    for row, stop in zip(rows.tolist(), ends.tolist(), strict=True):
        inside = parts[np.searchsorted(parts, row) : np.searchsorted(parts, stop)]
        spans.append((int(trace.start[row]), int(trace.end[inside].max()) if len(inside) else int(trace.end[row])))
    return spans


def _main_thread_mask(trace: Trace, rows: Indices) -> Mask:
    """Return a boolean per event: whether its thread calls jitted functions or runs Python. Work of
    a thread pool is a part of these threads' builds.
    """
    of_python = event_names(trace).rows(EventFlag.PYTHON_THREAD | EventFlag.NAMED_CALL)
    python = np.zeros(len(trace.lines), bool)
    python[trace.line[of_python]] = True
    return np.asarray(python[trace.line[rows]])


def _function(trace: Trace, top: int, end: int) -> str:
    """Return the function of a build: from the name of its call, else from a pass of XLA in it."""
    if called := parse_called_function(trace.names[trace.name[top]]):
        return called
    rows = event_names(trace).rows(EventFlag.COMPILER_PASS)
    passes = rows[(trace.start[rows] >= trace.start[top]) & (trace.start[rows] < end)]
    return parse_pass_function(trace.names[trace.name[passes[0]]]) if len(passes) else ""
