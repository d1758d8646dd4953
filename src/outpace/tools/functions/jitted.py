"""Functions that JAX built: traced, lowered and compiled, by function."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from outpace.metrics.python.source_line import short_place, source_line
from outpace.model.arrays import Codes
from outpace.timeline import Timeline
from outpace.timeline.builds import Build, jax_builds

EVENT = "tracing, lowering and compiling"
_SLACK_NS = 2_000_000  # the profiler's clock is read at another time than the one that notes compilations
_FRAME = re.compile(r"\$(?P<place>.+\.py:\d+) (?P<function>.+)")
_Noted = Mapping[str, Any]


def built(timeline: Timeline, noted: Sequence[_Noted]) -> Iterator[tuple[object, ...]]:
    """Rows of `COMPILATIONS`, one per function. `noted` is what the capture wrote of compilations as they ended."""
    groups: dict[str, list[Build]] = {}
    for build in jax_builds(timeline.trace):
        groups.setdefault(build.function, []).append(build)
    for function, builds in groups.items():
        step = steps_of(timeline, builds)
        times = np.array([b.end - b.start for b in builds], np.int64)
        numbers = (len(builds), int(times.sum()), int(times[step >= 0].sum()), int(times.max()))
        first = _first_line(timeline, function)
        place = _noted_place(timeline, builds, noted) or _traced_place(timeline, builds, first.partition(":")[0]) or first
        yield timeline.host, EVENT, function, place, *numbers, numbered(timeline, step)


def steps_of(timeline: Timeline, builds: Sequence[Build]) -> Codes:
    """Index of the step in whose time each build begins, -1 for none."""
    start = np.array([b.start for b in builds], np.int64)
    if len(timeline.steps) == 0:
        return np.full(len(start), -1)
    at = np.searchsorted(timeline.steps.start, start, side="right") - 1
    return np.where(start < timeline.steps.end[np.maximum(at, 0)], at, -1)


def numbered(timeline: Timeline, step: Codes) -> str:
    """Numbers of the steps with these indices, as ranges: `3-5, 9`."""
    found = sorted({int(timeline.steps.number[i]) for i in step.tolist() if i >= 0})
    ranges: list[list[int]] = []
    for number in found:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def _noted_place(timeline: Timeline, builds: Sequence[Build], noted: Sequence[_Noted]) -> str:
    """The line that the capture noted first when one of these builds ended."""
    notes = [note for note in noted if note.get("file") and any(_is_part(timeline, build, note) for build in builds)]
    return source_line(notes[0]["file"], notes[0]["line"]) if notes else ""


def noted_within(timeline: Timeline, build: Build, noted: Sequence[_Noted]) -> Iterator[_Noted]:
    """What the capture noted of a build, in order of time."""
    return (note for note in noted if _is_part(timeline, build, note))


def _is_part(timeline: Timeline, build: Build, note: _Noted) -> bool:
    """Whether a note, which is made when something has ended, falls into a build; never where the profile has no clock."""
    origin = timeline.unix_origin_ns
    if origin is None:
        return False
    low, high = note["unix_ns"] - note["duration_ns"] - _SLACK_NS, note["unix_ns"] + _SLACK_NS
    return bool(origin + build.start // 1000 < high and origin + build.end // 1000 > low)


def _traced_place(timeline: Timeline, builds: Sequence[Build], file: str) -> str:
    """Where the Python tracer saw the function itself run, which it does while it is traced: in this file, where its program names one, since
    libraries have functions of the same name."""
    trace = timeline.trace
    for build in builds:
        line = trace.lines.rows(int(trace.line[build.row]))
        first, last = trace.start.search(line, np.array([build.start, build.end])).tolist()
        for name in dict.fromkeys(trace.name[first:last].tolist()):
            found = _FRAME.fullmatch(trace.names[name])
            if found and found["function"] == build.function and file in ("", found["place"].partition(":")[0]):
                return found["place"]
    return ""


def _first_line(timeline: Timeline, function: str) -> str:
    """The first line of the function that the compiled program has an op of."""
    return short_place(timeline.programs.first_line(function))
