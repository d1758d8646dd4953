# SPDX-License-Identifier: Apache-2.0
"""Python's time on the training thread, from either of two sources: the stacks that Outpace's own
capture sampled, or the frames of a profiler's Python tracer, converted into samples.

A traced frame has the file's name without folders and the function's first line (for a function in
C, its module), but no line within. What began before the capture was not recorded: the program's
loop is added as the outermost frame of all stacks, except those of JAX's own calls and of moments
without a frame. The owner of a function follows from the profile: JAX records the user's file of
each op; functions that call JAX's C functions or programs belong to JAX or to a library that drives
it, and so do their callers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np

from outpace._caching import memoize
from outpace._lazy import compile_lazily
from outpace.model.arrays import Indices, Picoseconds
from outpace.timeline import Run, Timeline
from outpace.timeline.event_names import EventFlag, event_names
from outpace.trace import Trace
from outpace.trace.algorithms import distinct, isin

TRACER_METHOD = "traced"  # the record's `method` for samples that are derived from a tracer's frames
_MOST = 30_000  # maximum number of samples derived from a profile, the same as a sampler's
_PER_STEP = 200
_DEEPEST = 400
_IN_FILE = compile_lazily(r"\$(?P<file>[^ :]+):(?P<line>\d+) (?P<function>.*)")
_IN_C = compile_lazily(r"\$(?P<module>\S+) (?P<function>.*)")
_LOOP = "<module>"
# Frame for moments without a frame: the loop's own code, or a call into JAX that is C++.
_NO_FRAME = ("", "no frame", 0, "python")
_JAX = ("jaxlib", "jax")
_UNKNOWN = "a library"  # owner of a function whose file is of unknown origin


@memoize
def python_records(run: Run) -> Mapping[str, Mapping[str, Any]]:
    """Return the capture's record by host, with `python_samples` as Outpace's own capture would
    write them.

    They are missing for a host where nothing recorded Python.
    """
    return {timeline.host: _record(run, timeline) for timeline in run.hosts}


def _record(run: Run, timeline: Timeline) -> Mapping[str, Any]:
    noted = run.record(timeline.host)
    if noted.get("python_samples") is not None or timeline.unix_origin_ns is None or not len(timeline.steps):
        return noted
    rows = _frames(timeline)
    return {**noted, "python_samples": _samples(timeline, rows, _users_files(timeline))} if len(rows) else noted


def _frames(timeline: Timeline) -> Indices:
    """Return the rows of the frames that were recorded on the training thread, in their order."""
    step_lines = timeline.steps.line[timeline.steps.line >= 0]
    rows = timeline.event_names.rows(EventFlag.PYTHON_FRAME)
    return rows[timeline.trace.line[rows] == int(np.bincount(step_lines).argmax())] if len(step_lines) else rows[:0]


def _users_files(timeline: Timeline) -> Counter[str]:
    """Return the names of the user's files, with the number of the programs' instructions from
    each.
    """
    sources = (program[name].source for program in timeline.hlo_modules for name in program)
    return Counter(os.path.basename(source.rpartition(":")[0]) for source in islice(sources, _MOST) if source)


def _samples(timeline: Timeline, rows: Indices, files: Counter[str]) -> dict[str, Any]:
    """Return samples at even distances in the steps, derived from the recorded frames.

    rows: rows of the frames
    files: names of the user's files

    The result has the form of the record's `python_samples`.
    """
    trace, steps = timeline.trace, timeline.steps
    begin, end = int(steps.start.min()), int(steps.end.max())
    count = min(_MOST, _PER_STEP * len(steps))
    moment = begin + ((np.arange(count) + 0.5) * ((end - begin) / count)).astype(np.int64)
    parent, _ = trace.compute_nesting(rows)
    place = np.searchsorted(rows, parent)
    at = _innermost(trace.start[rows], trace.end[rows], np.where(parent >= 0, place, -1), moment)
    main = next(iter(files)) if len(files) == 1 else ""  # of several files, the one with the loop is unknown
    frames: dict[tuple[str, str, int, str], int] = {(main, _LOOP, 0, ""): 0}
    stacks: dict[tuple[tuple[int, int], ...], int] = {}
    index: dict[int, int] = {}
    owners = _owners(trace, rows, parent, files)
    for innermost in distinct(at).tolist():
        path: list[tuple[int, int]] = []
        row = innermost
        while row >= 0 and len(path) < _DEEPEST:
            key = _frame(trace.names[trace.name[rows[row]]], owners)
            path.append((frames.setdefault(key, len(frames)), key[2]))
            row = int(place[row]) if parent[row] >= 0 else -1
        if not path:
            path = [(frames.setdefault(_NO_FRAME, len(frames)), 0)]
        below = list(frames)[path[-1][0]]
        apart = below[3] in _JAX or below == _NO_FRAME  # work of JAX at a call, or without a frame, is not the loop's
        stack = (*(() if apart else ((0, 0),)), *reversed(path))
        index[innermost] = stacks.setdefault(stack, len(stacks))
    weight = (end - begin) // count // 1000
    noted = zip((moment // 1000).tolist(), at.tolist(), strict=True)
    return {
        "base_unix_ns": timeline.unix_origin_ns,
        "thread": trace.lines.names[int(trace.line[rows[0]])],
        "method": TRACER_METHOD,
        "frames": tuple(frames),
        "stacks": tuple(stacks),
        "samples": tuple((when, weight, index[innermost]) for when, innermost in noted),
        "text": (),
        "dropped": 0,
        "others": (),
        "pauses": (),
    }


def _innermost(start: Picoseconds, end: Picoseconds, parent: Indices, moment: Picoseconds) -> Indices:
    """Return the index of the innermost frame at each moment; -1 for none.

    start: starts of the frames, ps, sorted
    end: ends of the frames, ps
    parent: index of the enclosing frame, -1 for none
    moment: times, ps
    """
    at = np.searchsorted(start, moment, side="right") - 1
    for _ in range(_DEEPEST):
        over = (at >= 0) & (end[np.maximum(at, 0)] <= moment)
        if not over.any():
            break
        at = np.where(over, parent[np.maximum(at, 0)], at)
    return at


def _owners(trace: Trace, rows: Indices, parent: Indices, files: Counter[str]) -> dict[str, str]:
    """Return the owner of each function by the name of its frames, where it is known.

    The owner is "" for functions in the user's files, and "jax" for those that call JAX's C
    functions or the programs that it compiled, and for their callers.
    """
    nested = parent >= 0
    calls = set(zip(trace.name[parent[nested]].tolist(), trace.name[rows[nested]].tolist(), strict=True))
    by = [(trace.names[one], trace.names[two]) for one, two in calls]
    owners = {name: "" for pair in by for name in pair if (match := _IN_FILE.fullmatch(name)) and match["file"] in files}
    runs = trace.parent[event_names(trace).rows(EventFlag.JIT_CALL)]
    calling = {trace.names[code] for code in distinct(trace.name[runs[isin(runs, rows)]]).tolist()}
    calling |= {one for one, two in by if _frame(two, {})[3] in _JAX}
    while calling := calling - owners.keys():
        owners |= dict.fromkeys(calling, "jax")
        calling = {one for one, two in by if owners.get(two) == "jax"}
    return owners


def _frame(name: str, owners: Mapping[str, str]) -> tuple[str, str, int, str]:
    """Return (file, function, line, owner) of a traced frame, as in a record."""
    if (match := _IN_FILE.fullmatch(name)) is not None:
        return match["file"], match["function"], int(match["line"]), owners.get(name, _UNKNOWN)
    match = _IN_C.fullmatch(name)
    module, function = (match["module"], match["function"]) if match else ("", name[1:])
    owner = module.partition(".")[0]
    return "", function, 0, {"builtins": "python", "<unknown>": _UNKNOWN, "": _UNKNOWN}.get(owner, owner)
