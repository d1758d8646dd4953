# SPDX-License-Identifier: Apache-2.0
"""Functions that JAX traced, lowered and compiled, one row per function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from outpace._lazy import compile_lazily
from outpace.metrics.source_line import format_source_line, shorten_source_path
from outpace.model import Row
from outpace.model.arrays import Codes, Picoseconds
from outpace.timeline import Timeline
from outpace.timeline.builds import Build, find_jax_builds
from outpace.tools.functions.schema import COMPILATIONS

BUILD_EVENT = "tracing, lowering and compiling"
# Tolerance between the profiler's clock and the clock of the compilation notes, which are read at
# different times; ns.
_SLACK_NS = 2_000_000
_FRAME = compile_lazily(r"\$(?P<place>.+\.py:\d+) (?P<function>.+)")
_Note = Mapping[str, Any]


def iter_compilation_rows(timeline: Timeline, notes: Sequence[_Note]) -> Iterator[Row]:
    """Yield rows of `COMPILATIONS`, one per function that JAX built.

    notes: what the capture recorded about compilations as each one ended
    """
    groups: dict[str, list[Build]] = {}
    for build in find_jax_builds(timeline.trace):
        groups.setdefault(build.function, []).append(build)
    for function, builds in groups.items():
        step = find_build_steps(timeline, builds)
        times = np.array([b.end - b.start for b in builds], np.int64)
        first = _first_line(timeline, function)
        own_notes = [note for note in notes if any(_is_part(timeline, build, note) for build in builds)]
        place = _noted_place(own_notes) or _traced_place(timeline, builds, first.partition(":")[0]) or first
        called = Counter(str(note.get("library_call") or "") for note in own_notes).most_common(1)
        sums = build_times(timeline, times, step)
        yield COMPILATIONS.row(
            sums, host=timeline.host, event=BUILD_EVENT, function=function, source=place, called=called[0][0] if called else ""
        )


def build_times(timeline: Timeline, duration: Picoseconds, step: Codes) -> Row:
    """Return the columns on the times of builds, and on the steps that these fall in (-1: none)."""
    return {
        "count": len(duration),
        "total_ps": int(duration.sum()),
        "in_steps_ps": int(duration[step >= 0].sum()),
        "longest_ps": int(duration.max()),
        "steps": format_step_ranges(timeline, step),
    }


def find_build_steps(timeline: Timeline, builds: Sequence[Build]) -> Codes:
    """Return the index of the step during which each build begins; -1 for none."""
    start = np.array([b.start for b in builds], np.int64)
    if len(timeline.steps) == 0:
        return np.full(len(start), -1)
    at = np.searchsorted(timeline.steps.start, start, side="right") - 1
    return np.where(start < timeline.steps.end[np.maximum(at, 0)], at, -1)


def format_step_ranges(timeline: Timeline, step_index: Codes) -> str:
    """Return the numbers of the steps with these indices as ranges, such as `3-5, 9`."""
    numbers = sorted({int(timeline.steps.number[i]) for i in step_index.tolist() if i >= 0})
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def _noted_place(notes: Sequence[_Note]) -> str:
    """Return the source line of the first note that has one; "" without one."""
    return next((format_source_line(note["file"], note["line"]) for note in notes if note.get("file")), "")


def iter_build_notes(timeline: Timeline, build: Build, notes: Sequence[_Note]) -> Iterator[_Note]:
    """Return the capture's notes that belong to a build, in order of time."""
    return (note for note in notes if _is_part(timeline, build, note))


def _is_part(timeline: Timeline, build: Build, note: _Note) -> bool:
    """Whether a note, recorded when a compilation ended, overlaps a build; False where the profile
    has no clock.
    """
    origin = timeline.unix_origin_ns
    if origin is None:
        return False
    low, high = note["unix_ns"] - note["duration_ns"] - _SLACK_NS, note["unix_ns"] + _SLACK_NS
    return bool(origin + build.start // 1000 < high and origin + build.end // 1000 > low)


def _traced_place(timeline: Timeline, builds: Sequence[Build], file: str) -> str:
    """Return the place (`file.py:line`) where the Python tracer saw the function run, "" where it
    did not.

    The function runs in Python only while it is traced. `file` restricts the search to one file
    where the compiled program names it, since libraries have functions of the same name.
    """
    trace = timeline.trace
    for build in builds:
        line = trace.lines.row_slice(int(trace.line[build.row]))
        first, last = trace.start.searchsorted(line, np.array([build.start, build.end])).tolist()
        for name in dict.fromkeys(trace.name[first:last].tolist()):
            match = _FRAME.fullmatch(trace.names[name])
            if match and match["function"] == build.function and file in ("", match["place"].partition(":")[0]):
                return match["place"]
    return ""


def _first_line(timeline: Timeline, function: str) -> str:
    """Return the first source line of a function that its compiled programs name."""
    return shorten_source_path(timeline.hlo_modules.find_source_line(function))
