# SPDX-License-Identifier: Apache-2.0
"""Calls that built a graph or compiled a function, and what made TensorFlow or JAX do it."""

from __future__ import annotations

import bisect
import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from outpace._lazy import compile_lazily
from outpace.metrics.source_line import format_source_line
from outpace.model import Row, Table
from outpace.timeline import Run, Timeline
from outpace.timeline.builds import find_jax_builds
from outpace.tools.functions.jax_compilations import find_build_steps, iter_build_notes
from outpace.tools.functions.schema import TRACES
from outpace.trace import dialect

FIRST, VALUE, SHAPE, DTYPE, STRUCTURE, SAME_ARGUMENTS, SAME_ARRAYS, SAME_PROGRAM, UNKNOWN = (
    "first",
    "python value",
    "shape",
    "dtype",
    "structure",
    "same arguments",
    "same arrays",
    "same program",
    "unknown",
)
"""Kinds of change between two graphs or programs of a function.

Two kinds are inferred from compiled programs alone: `SAME_ARRAYS`, where something other than the
arrays changed, and `SAME_PROGRAM`, where a program was compiled twice and shows no change.
"""
_SPEC = compile_lazily(r"TensorSpec\(shape=(?P<shape>.*?), dtype=(?P<dtype>[^)]*)\)")
_ARRAY = compile_lazily(r"(?P<dtype>Python \w+|\w+)(?:\[(?P<shape>[\d,]*)\].*)?")  # `float32[16,64]` of JAX, `Python int`
_SAME = "the same arguments as before: a new function object, or state that it captured"
_SAME_JITTED = "the same shapes, dtypes and static arguments as before: a new function object, or other devices"
# Tolerance between the profiler's clock and the clock of the recorded traces, which are read at
# different times; ns.
_SLACK_NS = 2_000_000
_Trace = Mapping[str, Any]


def compute_traces(run: Run) -> Table:
    """Return `TRACES`: every call that built a graph, in order of time, followed by the functions
    that JAX compiled for which the capture recorded the arguments.
    """
    rows = [row for timeline in run.hosts for row in _rows(timeline, run.record(timeline.host).get("traces") or ())]
    rows += [row for timeline in run.hosts for row in _jit_rows(timeline, run.record(timeline.host).get("compilations") or ())]
    return TRACES.build(rows)


def _jit_rows(timeline: Timeline, noted: tuple[_Trace, ...]) -> Iterator[Row]:
    """Yield rows of `TRACES` for the functions that JAX compiled and whose arguments the capture
    recorded.
    """
    with_arguments = [note for note in noted if note.get("arguments") is not None]
    builds = find_jax_builds(timeline.trace) if with_arguments else ()
    for build, step in zip(builds, find_build_steps(timeline, builds).tolist() if builds else (), strict=True):
        note = next(
            (n for n in iter_build_notes(timeline, build, with_arguments) if build.function in str(n.get("program") or "")),
            None,
        )
        if note is None:
            continue
        source = format_source_line(note["file"], note["line"]) if note["line"] else ""
        why = (source, *diff_arguments(note["before"], note["arguments"], _SAME_JITTED))
        yield _row(timeline, build.function, step, (build.start, build.end), float("nan"), why)


def _rows(timeline: Timeline, noted: tuple[_Trace, ...]) -> Iterator[Row]:
    """Yield rows of `TRACES` for a host's tf.function calls that built a graph."""
    trace = timeline.trace
    stat = trace.stat(dialect.TF_FUNCTION_CALL)
    traced = stat.rows[np.fromiter((mode.startswith("traced") for mode in stat.texts()), bool, len(stat))]
    for row, graphs in zip(traced.tolist(), trace.stat(dialect.TRACING_COUNT).take_ints(traced, 0).tolist(), strict=True):
        name = trace.names[trace.name[row]]
        start, end = int(trace.start[row]), int(trace.end[row])
        why = _why(timeline, noted, name, start, end - start, graphs)
        yield _row(timeline, name, int(timeline.step_index[row]), (start, end), graphs, why)


def _row(timeline: Timeline, function: str, step: int, span: tuple[int, int], graphs: float, why: tuple[str, str, str]) -> Row:
    source, cause, kinds = why
    return TRACES.row(
        host=timeline.host,
        function=function,
        source=source,
        step=int(timeline.steps.number[step]) if step >= 0 else float("nan"),
        start_ps=span[0] - timeline.zero_ps,
        duration_ps=span[1] - span[0],
        graphs=graphs,
        cause=cause,
        kinds=kinds,
    )


def _why(
    timeline: Timeline, noted: tuple[_Trace, ...], name: str, start: int, duration: int, graphs: int
) -> tuple[str, str, str]:
    """Return (source line, cause, kind of cause) of one call that built a graph."""
    traces = [t for t in noted if t["function"] == name]
    if not traces:
        if graphs == 1:
            return "", "the function's first graph", FIRST
        return "", "unknown: the profile holds no arguments", UNKNOWN
    at = _place(timeline, traces, start, duration, graphs)
    if at is None:
        return "", "unknown: the graph was built outside of what the capture noted", UNKNOWN
    here = traces[at]
    source = format_source_line(here["file"], here["line"]) if here["line"] else ""
    before = [t for t in traces[:at] if (t["file"], t["line"]) == (here["file"], here["line"])]
    return (source, *diff_arguments(before[-1]["arguments"] if before else None, here["arguments"]))


def _place(timeline: Timeline, traces: list[_Trace], start: int, duration: int, graphs: int) -> int | None:
    """Return the index of the recorded trace that belongs to a call; None without one.

    Traces are matched by time. Where a profile states no clock time (TensorFlow 2.16), the number
    of graphs is used, if only one function has the name.
    """
    origin = timeline.unix_origin_ns
    if origin is None:
        one_function = len({(t["file"], t["line"]) for t in traces}) == 1
        return graphs - 1 if one_function and 1 <= graphs <= len(traces) else None
    begin = origin + start // 1000
    at = bisect.bisect_left([t["start_ns"] for t in traces], begin - _SLACK_NS)
    if at == len(traces) or traces[at]["start_ns"] > begin + duration // 1000 + _SLACK_NS:
        return None
    return at


def diff_arguments(before: Mapping[str, str] | None, after: Mapping[str, str], same_text: str = _SAME) -> tuple[str, str]:
    """Return (what changed between the arguments of two graphs or programs of a function, kinds of
    change).

    before, after: description by argument name; `before` is None for the first graph or program
    same_text: what to return first where no argument changed
    """
    if before is None:
        return "the function's first graph" if same_text is _SAME else "the function's first compilation", FIRST
    changes = [
        (name, before.get(name), after.get(name))
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    ]
    if not changes:
        return same_text, SAME_ARGUMENTS
    change_kinds = {_kind(old, new) for _, old, new in changes}
    kinds = ", ".join(k for k in (VALUE, SHAPE, DTYPE, STRUCTURE) if k in change_kinds)
    text = "; ".join(f"{name}: {_change(old, new)}" for name, old, new in changes)
    return text, kinds


def _kind(old: str | None, new: str | None) -> str:
    """Return the kind of change between two descriptions of an argument; None stands for a missing
    argument.
    """
    if old is None or new is None:
        return STRUCTURE
    if old.startswith("Literal[") and new.startswith("Literal["):
        return VALUE
    for array in (_SPEC, _ARRAY):
        was, is_ = array.fullmatch(old), array.fullmatch(new)
        if was and is_:
            return SHAPE if (was["shape"] or "") != (is_["shape"] or "") else DTYPE
    return SHAPE if _SPEC.sub("", old) == _SPEC.sub("", new) else STRUCTURE


def _change(old: str | None, new: str | None) -> str:
    """Return a change as text, such as `0.1 → 0.05`; numbers equal to four digits are written in
    full.
    """
    was, is_ = _short(old), _short(new)
    return f"{was} → {is_}" if was != is_ else f"{_short(old, '')} → {_short(new, '')}"


def _short(text: str | None, digits: str = ".4g") -> str:
    """Return a short description of an argument, such as `float32(16,64)`."""
    if text is None:
        return "nothing"
    text = re.sub(r"^Literal\[(.*)\]$", r"\1", text)
    with contextlib.suppress(ValueError):
        text = f"{float(text):{digits}}"
    return _SPEC.sub(lambda m: f"{m['dtype'].removeprefix('tf.')}{m['shape'].replace(' ', '')}", text)
