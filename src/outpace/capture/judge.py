"""What comes round in a profile, as a capture asks while its script runs: by the rule that finds the steps of every profile.

This runs in the command that waits for the script, so that no analysis, and nothing that it imports, gets into the training's process.
"""

from __future__ import annotations

import contextlib
import json
import os

import numpy as np

from outpace.capture.looks import ANSWER, QUESTION
from outpace.capture.options import Repetition
from outpace.capture.window import SELDOM
from outpace.model.arrays import Picoseconds
from outpace.model.errors import OutpaceError
from outpace.timeline import Timeline
from outpace.timeline.gradients import trains
from outpace.timeline.names import Is, jitted_function, names
from outpace.trace import Trace, dialect, open_trace

_PS, _PS_PER_NS = 1e12, 1000
_MOST_TIMES = 50


def answer(folder: str) -> None:
    """Answer a question that was left in a folder, if there is one."""
    question = os.path.join(folder, QUESTION)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        with open(question, encoding="utf-8") as file:
            asked = json.load(file)
        os.remove(question)
        found = repetition(str(asked["profile"]))
        path = os.path.join(folder, ANSWER.format(number=int(asked["number"])))
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            file.write(found.to_json())
        os.replace(f"{path}.part", path)


def repetition(path: str) -> Repetition:
    """What comes round in the profile at a path; nothing in one that cannot be read."""
    try:
        trace = open_trace(path)
    except OutpaceError as error:
        return Repetition(why=str(error))
    timeline = Timeline(trace)
    steps = timeline.steps
    rounds = int(steps.complete.sum())
    if not rounds:
        return Repetition(busy=_works(trace), why=steps.how)
    heads = steps.root_row
    called = trace.names[trace.name[heads[0]]] if len(heads) else ""
    return Repetition(
        rounds=rounds,
        seconds=float(steps.duration[steps.complete].mean()) / _PS,
        times_ns=tuple((steps.duration[steps.complete] // _PS_PER_NS).tolist()[:_MOST_TIMES]),
        events=_events(trace, int(steps.start[0]), int(steps.end[-1])) / len(steps),
        what=jitted_function(called) or called,
        trains=_rounds_that_train(timeline) >= rounds / 2,
        predicts=steps.kind == "prediction",
        busy=True,
        once=_once(steps.duration[steps.complete]),
        why=steps.how,
    )


def _rounds_that_train(timeline: Timeline) -> int:
    """How many steps call a function that computes gradients, or begin with it."""
    trace, steps = timeline.trace, timeline.steps
    calls = names(trace).rows(Is.JITTED)
    calls = calls[trains(trace, calls)]
    at = np.searchsorted(steps.start, trace.start[calls], side="right") - 1
    inside = (at >= 0) & (trace.start[calls] < steps.end[np.maximum(at, 0)])
    return len(np.unique(at[inside]))


def _once(times: Picoseconds) -> float:
    """Share of the time of all rounds in the longest, where that takes much longer than the others, and no other half as long."""
    longest = int(times.max())
    if longest < SELDOM * float(np.median(times)) or int((times >= longest / 2).sum()) > 1:
        return 0.0
    return longest / int(times.sum())


def _events(trace: Trace, start: int, end: int) -> int:
    """How many events begin in that time (ps) on the thread that has most: each takes some of its time."""
    counts = []
    for line in range(len(trace.lines)):
        began = trace.start[trace.lines.every_row(line)]
        counts.append(int(((began >= start) & (began < end)).sum()))
    return max(counts, default=0)


def _works(trace: Trace) -> bool:
    """Whether JAX did anything: called a function, or ran an op of a program."""
    return bool(len(names(trace).rows(Is.JITTED)) or len(trace.stat(dialect.HLO_OP).row))
