"""Samples of the training thread's stack that Outpace's own capture took: what they stand for, and
which lines they met in windows of time.

`python_time.py` makes the table of lines from them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from outpace.metrics.facts.python_records import python_records
from outpace.model.arrays import Indices, Numbers, Picoseconds, Values
from outpace.store.record import GARBAGE_COLLECTION
from outpace.timeline import Run, Timeline

FRAMEWORKS = frozenset(("tensorflow", "keras", "tf_keras", "jax", "jaxlib"))
YOURS, LIBRARY, OUTPACE, INTERPRETER = "yours", "library", "outpace", "interpreter"
_COLLECTS = frozenset(("_xla_gc_callback",))  # what JAX has Python's collector call: records of older captures hold no pauses
_MOSTLY = 0.7  # of what slow steps take beyond the others, to be spent below one function


def attribute_stacks(record: Mapping[str, Any], samples: Mapping[str, Any]) -> list[tuple[tuple[str, int, str, str], str, str]]:
    """Who each stack of a record's samples is counted for (file, line, function, who), and the
    package and function of a library below it, or two empty texts. Work of a callback of Keras' own
    is counted for the line that made the callback, and not for that of `fit`.
    """
    made = record.get("callbacks") or {}
    return [_place_of(stack, samples["frames"], made) for stack in samples["stacks"]]


def _place_of(
    stack: Sequence[Sequence[int]], frames: Sequence[Sequence[Any]], callbacks: Mapping[str, Sequence[Any]]
) -> tuple[tuple[str, int, str, str], str, str]:
    frame, number = stack[-1]
    file, function, _, owner = frames[frame]
    if any(frames[at][1] in _COLLECTS for at, _ in stack):
        return pause_key(GARBAGE_COLLECTION), "", ""
    if owner == OUTPACE:
        return ("", 0, "", OUTPACE), owner, function
    mine = next(((at, line) for at, line in reversed(stack) if not frames[at][3]), None)
    below = (owner, f"{owner}: {function}") if owner else ("", "")
    called = next((frames[at][1] for at, _ in stack[_depth(stack, mine) :] if frames[at][1].partition(".")[0] in callbacks), "")
    if called:
        place = callbacks[called.partition(".")[0]]
        return (str(place[0]), int(place[1]), called, YOURS), *below
    if mine is None:
        return (file, number, function, LIBRARY), *below
    return (frames[mine[0]][0], mine[1], frames[mine[0]][1], YOURS), *below


def pause_key(label: str) -> tuple[str, int, str, str]:
    """Who time is counted for in which no line of the program ran: see `find_pauses`."""
    return "", 0, label, INTERPRETER


def find_pauses(record: Mapping[str, Any], times_ns: Values | Numbers) -> list[str]:
    """What held the thread up at each sample (ns since the base) instead of the line that came
    next; "" where none did.
    """
    known = sorted(record.get("pauses") or ())
    if not known:
        return [""] * len(times_ns)
    begin, end = np.array([each[0] for each in known]), np.array([each[0] + each[1] for each in known])
    at = np.searchsorted(begin, times_ns, side="right") - 1
    inside = (at >= 0) & (times_ns < end[np.maximum(at, 0)])
    return [known[place][2] if held else "" for place, held in zip(at.tolist(), inside.tolist(), strict=True)]


def _depth(stack: Sequence[Sequence[int]], place: tuple[int, int] | None) -> int:
    """How many places of a stack lead to one of them, itself counted; 0 for none."""
    return 0 if place is None else max(at for at, (frame, line) in enumerate(stack, 1) if (frame, line) == place)


def find_slow_step_lines(run: Run, timeline: Timeline, slow: Indices, usual: Indices) -> list[tuple[str, int, str, float]]:
    """(file, line, function, ps per step) of the user's lines that take longer in the `slow` steps
    than in the `usual` ones, longest first.

    Both are indices of steps. Time of a line is what its samples stand for, with all that ran or
    was waited for below it.
    """
    steps = timeline.steps
    beyond: dict[tuple[str, int, str], float] = defaultdict(float)
    for chosen, sign in ((slow, 1), (usual, -1)):
        order = chosen[np.argsort(steps.start[chosen])]
        for file, line, function, time in lines_in_windows(run, timeline, steps.start[order], steps.end[order]):
            beyond[file, line, function] += sign * time / len(chosen)
    return sorted(((*key, time) for key, time in beyond.items() if time > 0), key=lambda row: -row[3])


def lines_in_windows(run: Run, timeline: Timeline, start: Picoseconds, end: Picoseconds) -> list[tuple[str, int, str, float]]:
    """(file, line, function, ps) of the user's lines on the training thread within windows (ps, in
    order), longest first.
    """
    noted = python_records(run)[timeline.host]
    record = noted.get("python_samples")
    keys = [place[0] for place in attribute_stacks(noted, record)] if record else []
    found: dict[tuple[str, int, str], float] = defaultdict(float)
    for stack, weight in samples_in_windows(run, timeline, start, end):
        file, line, function, who = keys[stack]
        if who == YOURS:
            found[file, line, function] += weight * 1000
    return sorted(((*key, time) for key, time in found.items()), key=lambda row: -row[3])


def samples_in_windows(run: Run, timeline: Timeline, start: Picoseconds, end: Picoseconds) -> list[tuple[int, int]]:
    """(stack, weight in ns) of each sample within windows (ps, in order)."""
    record, origin = python_records(run)[timeline.host].get("python_samples"), timeline.unix_origin_ns
    if record is None or origin is None or not len(record["samples"]) or not len(start):
        return []
    samples = np.array(record["samples"], np.int64)
    moment = (samples[:, 0] + (record["base_unix_ns"] - origin)) * 1000
    at = np.searchsorted(start, moment, side="right") - 1
    inside = (at >= 0) & (moment < end[np.maximum(at, 0)])
    samples = samples[inside]
    held = find_pauses(record, samples[:, 0])
    return [(stack, weight) for (_, weight, stack), what in zip(samples.tolist(), held, strict=True) if not what]


def find_slow_step_library(run: Run, timeline: Timeline, slow: Indices, usual: Indices) -> str:
    """The innermost function of a library below which most of what the `slow` steps take beyond the
    `usual` ones was spent; empty for none.

    Where the user's line is `model.fit(...)`, it tells a checkpoint (`keras:
    ModelCheckpoint._save_model`) from an evaluation.
    """
    record = python_records(run)[timeline.host].get("python_samples")
    steps = timeline.steps
    beyond: dict[tuple[str, str], float] = defaultdict(float)
    depth: dict[tuple[str, str], int] = {}
    total = 0.0
    for chosen, sign in ((slow, 1), (usual, -1)):
        order = chosen[np.argsort(steps.start[chosen])]
        for stack, weight in samples_in_windows(run, timeline, steps.start[order], steps.end[order]):
            assert record is not None
            total += sign * weight / len(chosen)
            seen = {(record["frames"][f][3], record["frames"][f][1]): at for at, (f, _) in enumerate(record["stacks"][stack])}
            for place, at in seen.items():
                if place[0] not in ("", OUTPACE):
                    beyond[place] += sign * weight / len(chosen)
                    depth[place] = max(depth.get(place, 0), at)
    held = [place for place, time in beyond.items() if total > 0 and time >= _MOSTLY * total]
    best = max(held, key=lambda place: depth[place], default=None)
    return f"{best[0]}: {best[1]}" if best else ""
