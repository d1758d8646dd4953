# SPDX-License-Identifier: Apache-2.0
"""Samples of the training thread's stack from Outpace's own capture: who they count for, and the
lines in windows of time.

`python_lines.py` builds the table of lines from them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from outpace.metrics.facts.python_records import python_records
from outpace.model.arrays import Indices, Numbers, Picoseconds, Values
from outpace.model.text import is_majority
from outpace.store.record import GARBAGE_COLLECTION
from outpace.timeline import Run, Timeline

FRAMEWORKS = frozenset(("tensorflow", "keras", "tf_keras", "jax", "jaxlib"))
YOURS, LIBRARY, OUTPACE, INTERPRETER = "yours", "library", "outpace", "interpreter"
# JAX's callback of Python's garbage collector: records of older captures have no pauses.
_COLLECTS = frozenset(("_xla_gc_callback",))
_MOSTLY = 0.7  # minimum share of the slow steps' excess below one function for it to be the cause


def attribute_stacks(record: Mapping[str, Any], samples: Mapping[str, Any]) -> list[tuple[tuple[str, int, str, str], str, str]]:
    """Return ((file, line, function, who), package, function) of each stack of a record's samples.

    record: the record that the capture wrote beside the profile
    samples: the record's `python_samples`

    The first item is what the stack counts for; package and function are those of a library below
    it, or two empty texts. Work of a Keras callback counts for the line that created the callback,
    not for the line of `fit`.
    """
    callbacks = record.get("callbacks") or {}
    return [_place_of(stack, samples["frames"], callbacks) for stack in samples["stacks"]]


def _place_of(
    stack: Sequence[Sequence[int]], frames: Sequence[Sequence[Any]], callbacks: Mapping[str, Sequence[Any]]
) -> tuple[tuple[str, int, str, str], str, str]:
    frame, number = stack[-1]
    file, function, _, owner = frames[frame]
    if any(frames[at][1] in _COLLECTS for at, _ in stack):
        return pause_key(GARBAGE_COLLECTION), "", ""
    if owner == OUTPACE:
        return ("", 0, "", OUTPACE), owner, function
    user_place = next(((at, line) for at, line in reversed(stack) if not frames[at][3]), None)
    below = (owner, f"{owner}: {function}") if owner else ("", "")
    called = next(
        (frames[at][1] for at, _ in stack[_depth(stack, user_place) :] if frames[at][1].partition(".")[0] in callbacks), ""
    )
    if called:
        place = callbacks[called.partition(".")[0]]
        return (str(place[0]), int(place[1]), called, YOURS), *below
    if user_place is None:
        return (file, number, function, LIBRARY), *below
    return (frames[user_place[0]][0], user_place[1], frames[user_place[0]][1], YOURS), *below


def pause_key(label: str) -> tuple[str, int, str, str]:
    """Return what time counts for in which no line of the program ran: see `find_pauses`."""
    return "", 0, label, INTERPRETER


def find_pauses(record: Mapping[str, Any], times_ns: Values | Numbers) -> list[str]:
    """Return the label of the pause that delayed the thread at each sample; "" where there was
    none.

    times_ns: times of the samples, ns since the record's base

    A sample in a pause shows the line that ran after it, which is not what the time was spent on.
    """
    pauses = sorted(record.get("pauses") or ())
    if not pauses:
        return [""] * len(times_ns)
    begin, end = np.array([pause[0] for pause in pauses]), np.array([pause[0] + pause[1] for pause in pauses])
    at = np.searchsorted(begin, times_ns, side="right") - 1
    inside = (at >= 0) & (times_ns < end[np.maximum(at, 0)])
    return [pauses[place][2] if is_paused else "" for place, is_paused in zip(at.tolist(), inside.tolist(), strict=True)]


def _depth(stack: Sequence[Sequence[int]], place: tuple[int, int] | None) -> int:
    """Return the number of places on a stack up to and including a place; 0 for None."""
    return 0 if place is None else max(at for at, (frame, line) in enumerate(stack, 1) if (frame, line) == place)


def find_slow_step_lines(run: Run, timeline: Timeline, slow: Indices, usual: Indices) -> list[tuple[str, int, str, float]]:
    """Return (file, line, function, ps per step) of the user's lines that take longer in slow
    steps.

    slow: indices of slow steps
    usual: indices of the steps with which they are compared

    Time of a line is the weight of its samples, with all that ran or was waited for below it. The
    longest comes first.
    """
    steps = timeline.steps
    beyond: dict[tuple[str, int, str], float] = defaultdict(float)
    for chosen, sign in ((slow, 1), (usual, -1)):
        order = chosen[np.argsort(steps.start[chosen])]
        for file, line, function, time in lines_in_windows(run, timeline, steps.start[order], steps.end[order]):
            beyond[file, line, function] += sign * time / len(chosen)
    return sorted(((*key, time) for key, time in beyond.items() if time > 0), key=lambda row: -row[3])


def lines_in_windows(run: Run, timeline: Timeline, start: Picoseconds, end: Picoseconds) -> list[tuple[str, int, str, float]]:
    """Return (file, line, function, ps) of the user's lines on the training thread within windows.

    start: starts of the windows, ps, sorted
    end: ends of the windows, ps

    The longest comes first.
    """
    noted = python_records(run)[timeline.host]
    record = noted.get("python_samples")
    keys = [place[0] for place in attribute_stacks(noted, record)] if record else []
    times: dict[tuple[str, int, str], float] = defaultdict(float)
    for stack, weight in samples_in_windows(run, timeline, start, end):
        file, line, function, who = keys[stack]
        if who == YOURS:
            times[file, line, function] += weight * 1000
    return sorted(((*key, time) for key, time in times.items()), key=lambda row: -row[3])


def calls_at_line(
    run: Run, timeline: Timeline, start: Picoseconds, end: Picoseconds, place: tuple[str, int]
) -> tuple[str, ...]:
    """Return the functions of libraries (`keras: Trainer.predict`) in which a line spends at least
    half of its time within windows, outermost first.

    start: starts of the windows, ps, sorted
    end: ends of the windows, ps
    place: (file, line) of one of the rows of `lines_in_windows`
    """
    noted = python_records(run)[timeline.host]
    record = noted.get("python_samples")
    keys = [key[:2] for key, *_ in attribute_stacks(noted, record)] if record else []
    total = 0
    weights: dict[str, int] = defaultdict(int)
    for stack, weight in samples_in_windows(run, timeline, start, end):
        if keys[stack] == place:
            assert record is not None
            frames = [record["frames"][frame] for frame, _ in record["stacks"][stack]]
            below = max((at for at, frame in enumerate(frames, 1) if not frame[3]), default=0)
            total += weight
            for name in dict.fromkeys(f"{frame[3]}: {frame[1]}" for frame in frames[below:] if frame[3] != OUTPACE):
                weights[name] += weight
    return tuple(name for name, weight in weights.items() if is_majority(weight, total))


def samples_in_windows(run: Run, timeline: Timeline, start: Picoseconds, end: Picoseconds) -> list[tuple[int, int]]:
    """Return (stack, weight in ns) of each sample within windows, without the samples in pauses.

    start: starts of the windows, ps, sorted
    end: ends of the windows, ps
    """
    record, origin = python_records(run)[timeline.host].get("python_samples"), timeline.unix_origin_ns
    if record is None or origin is None or not len(record["samples"]) or not len(start):
        return []
    samples = np.array(record["samples"], np.int64)
    moment = (samples[:, 0] + (record["base_unix_ns"] - origin)) * 1000
    at = np.searchsorted(start, moment, side="right") - 1
    inside = (at >= 0) & (moment < end[np.maximum(at, 0)])
    samples = samples[inside]
    pauses = find_pauses(record, samples[:, 0])
    return [(stack, weight) for (_, weight, stack), pause in zip(samples.tolist(), pauses, strict=True) if not pause]


def find_slow_step_library(run: Run, timeline: Timeline, slow: Indices, usual: Indices) -> str:
    """Return the innermost function of a library with most of the slow steps' excess below it; ""
    for none.

    slow: indices of slow steps
    usual: indices of the steps with which they are compared

    Where the user's line is `model.fit(...)`, the function distinguishes a checkpoint (`keras:
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
            deepest = {
                (record["frames"][frame][3], record["frames"][frame][1]): at
                for at, (frame, _) in enumerate(record["stacks"][stack])
            }
            for place, at in deepest.items():
                if place[0] not in ("", OUTPACE):
                    beyond[place] += sign * weight / len(chosen)
                    depth[place] = max(depth.get(place, 0), at)
    candidates = [place for place, time in beyond.items() if total > 0 and time >= _MOSTLY * total]
    best = max(candidates, key=lambda place: depth[place], default=None)
    return f"{best[0]}: {best[1]}" if best else ""
