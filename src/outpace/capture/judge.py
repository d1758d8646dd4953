"""What comes round in a profile, as a capture asks while its script runs: by the rule that finds the steps of every profile.

This runs in the command that waits for the script, so that no analysis, and nothing that it imports, gets into the training's process.
"""

from __future__ import annotations

import contextlib
import os

import numpy as np

from outpace.capture.looks import ANSWER, QUESTION
from outpace.capture.options import Question, Repetition
from outpace.capture.window import SELDOM
from outpace.model.arrays import Picoseconds
from outpace.timeline import Timeline
from outpace.timeline.gradients import trains
from outpace.timeline.names import Is, jitted_function, names
from outpace.trace import Trace, dialect, open_trace

_PS, _PS_PER_NS = 1e12, 1000
_MOST_TIMES = 50


def answer(folder: str) -> None:
    """Answer a question that was left in a folder, if there is one."""
    question = os.path.join(folder, QUESTION)
    with contextlib.suppress(OSError, ValueError, TypeError):
        with open(question, encoding="utf-8") as file:
            asked = Question.from_json(file.read())
        os.remove(question)
        found = repetition(asked.profile)
        path = os.path.join(folder, ANSWER.format(number=asked.number))
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            file.write(found.to_json())
        os.replace(f"{path}.part", path)


def repetition(path: str) -> Repetition:
    """What comes round in the profile at a path; nothing in one that cannot be read."""
    try:
        return _of_host(Timeline(open_trace(path)))
    except Exception as error:  # a fault of ours must not end a training
        return Repetition(why=str(error) or type(error).__name__)


def _of_host(timeline: Timeline) -> Repetition:
    """What comes round on a host."""
    trace = timeline.trace
    steps = timeline.steps
    rounds = int(steps.complete.sum())
    if not rounds:
        return Repetition(busy=_works(trace), why=steps.how)
    return Repetition(
        rounds=rounds,
        seconds=float(steps.duration[steps.complete].mean()) / _PS,
        times_ns=tuple((steps.duration[steps.complete] // _PS_PER_NS).tolist()[:_MOST_TIMES]),
        events=_events(timeline) / len(steps),
        what=_function(timeline),
        trains=_rounds_that_train(timeline) >= rounds / 2,
        predicts=steps.kind == "prediction",
        busy=True,
        once=_once(steps.duration[steps.complete]),
        why=steps.how,
    )


def _function(timeline: Timeline) -> str:
    """The jitted function whose calls take most of the steps; "" where none is called."""
    trace, steps = timeline.trace, timeline.steps
    calls = names(trace).rows(Is.JITTED)
    calls = calls[(trace.start[calls] >= steps.start[0]) & (trace.start[calls] < steps.end[-1])]
    if not len(calls):
        return ""
    took = np.bincount(trace.name[calls], weights=trace.duration[calls].astype(np.float64))
    return jitted_function(trace.names[int(took.argmax())])


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


def _events(timeline: Timeline) -> int:
    """How many events begin in the steps on the thread that trains: noting each takes some of its time."""
    trace, steps = timeline.trace, timeline.steps
    known = steps.line[steps.line >= 0]
    if not len(known):
        return 0
    began = trace.start[trace.lines.every_row(int(np.bincount(known).argmax()))]
    return int(((began >= steps.start[0]) & (began < steps.end[-1])).sum())


def _works(trace: Trace) -> bool:
    """Whether JAX did anything: called a function, or ran an op of a program."""
    return bool(len(names(trace).rows(Is.JITTED)) or len(trace.stat(dialect.HLO_OP).row))
