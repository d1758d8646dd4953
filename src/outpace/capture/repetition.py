"""What comes round in a profile, as a capture asks while its script runs: by the rule that finds
the steps of every profile.

This runs in the command that waits for the script, so that no analysis, and nothing that it
imports, gets into the training's process.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from typing import NamedTuple

import numpy as np

from outpace.capture.host_snapshots import MIN_ROUNDS, REQUEST_FILE, RESPONSE_FILE
from outpace.capture.options import MAX_RUN_GAP, AnalysisRequest, ProgramRuns, Repetition
from outpace.capture.window import RARE_FACTOR
from outpace.model import median
from outpace.model.arrays import Codes, Indices, Numbers, Picoseconds
from outpace.timeline import Timeline
from outpace.timeline.event_names import EventFlag, event_names
from outpace.timeline.function_names import parse_jitted_function
from outpace.timeline.gradients import find_training_functions
from outpace.timeline.xla_threads import find_hlo_events, host_mask
from outpace.trace import Trace, dialect, open_trace
from outpace.trace.algorithms import distinct, intersect_indices

_PS, _PS_PER_NS = 1e12, 1000
_MOST_PROGRAMS = 20


def answer_request(folder: str) -> None:
    """Answer a question that was left in a folder, if there is one."""
    question = os.path.join(folder, REQUEST_FILE)
    with contextlib.suppress(OSError, ValueError, TypeError):
        with open(question, encoding="utf-8") as file:
            asked = AnalysisRequest.from_json(file.read())
        os.remove(question)
        found = find_repetition(asked.profile)
        path = os.path.join(folder, RESPONSE_FILE.format(number=asked.number))
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            file.write(found.to_json())
        os.replace(f"{path}.part", path)


def find_repetition(path: str) -> Repetition:
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
        return Repetition(events=len(trace), busy=_works(trace), why=steps.explanation, runs=_program_runs(timeline))
    calls, runs = _calls(timeline), _runs(timeline)
    return Repetition(
        rounds=rounds,
        seconds=float(steps.duration[steps.complete].mean()) / _PS,
        events=len(trace),
        what=_function(trace, calls, runs),
        trains=_rounds_that_train(trace, calls, runs) >= rounds / 2,
        predicts=steps.kind == "prediction",
        busy=True,
        once=_once(steps.duration[steps.complete]),
        why=steps.explanation,
        next=_next_training(timeline),
        runs=_program_runs(timeline),
    )


class _FunctionEvents(NamedTuple):
    """Events of jitted functions inside the steps: their rows, the step of each, and its function
    as a place among the texts.
    """

    rows: Indices
    step: Indices
    code: Codes
    texts: list[str]


def _calls(timeline: Timeline) -> _FunctionEvents:
    """The calls of jitted functions."""
    trace = timeline.trace
    rows, step = _inside(timeline, event_names(trace).rows(EventFlag.JIT_CALL))
    known, code = np.unique(trace.name[rows], return_inverse=True)
    return _FunctionEvents(rows, step, code, [parse_jitted_function(trace.names[each]) for each in known.tolist()])


def _runs(timeline: Timeline) -> _FunctionEvents:
    """The ops that their compiled programs ran."""
    rows, step = _inside(timeline, find_hlo_events(timeline.trace))
    modules = timeline.trace.stat(dialect.HLO_MODULE)
    found, place = intersect_indices(rows, modules.rows)
    code, texts = modules.encode_texts(place)
    return _FunctionEvents(rows[found], step[found], code, [parse_jitted_function(each) for each in texts])


def _function(trace: Trace, calls: _FunctionEvents, runs: _FunctionEvents) -> str:
    """The jitted function that takes most of the steps: by its runs, or else by its calls, which
    may have been long before; "" where there is none.
    """
    events = runs if len(runs.rows) else calls
    if not len(events.rows):
        return ""
    took = np.bincount(events.code, weights=trace.duration[events.rows].astype(np.float64))
    return events.texts[int(took.argmax())]


def _rounds_that_train(trace: Trace, calls: _FunctionEvents, runs: _FunctionEvents) -> int:
    """How many steps call a function that computes gradients, or run its program."""
    training = find_training_functions(trace)
    steps = [each.step[np.array([text in training for text in each.texts], bool)[each.code]] for each in (calls, runs)]
    return len(distinct(np.concatenate(steps)))


def _next_training(timeline: Timeline) -> str:
    """A function that trains, and is called again and again behind the last whole round but not
    before: what came round is over by then.
    """
    trace, steps = timeline.trace, timeline.steps
    rows = event_names(trace).rows(EventFlag.JIT_CALL)
    over = trace.start[rows] >= int(steps.end[steps.complete].max())
    before, behind = (
        Counter(parse_jitted_function(trace.names[each]) for each in trace.name[some].tolist())
        for some in (rows[~over], rows[over])
    )
    trains = [name for name in (behind.keys() - before.keys()) & find_training_functions(trace) if behind[name] >= MIN_ROUNDS]
    return max(trains, key=behind.__getitem__, default="")


def _inside(timeline: Timeline, rows: Indices) -> tuple[Indices, Indices]:
    """Those of some events that begin inside a step, and which step that is."""
    steps, began = timeline.steps, timeline.trace.start[rows]
    at = np.searchsorted(steps.start, began, side="right") - 1
    inside = (at >= 0) & (began < steps.end[np.maximum(at, 0)])
    return rows[inside], at[inside]


def _once(times: Picoseconds) -> float:
    """Share of the time of all rounds in the longest, where that takes much longer than the others,
    and no other half as long.
    """
    longest = int(times.max())
    if longest < RARE_FACTOR * median(times) or int((times >= longest / 2).sum()) > 1:
        return 0.0
    return longest / int(times.sum())


def _program_runs(timeline: Timeline) -> tuple[ProgramRuns, ...]:
    """Runs of each compiled program on the host, told apart by their numbers, the program that ran
    in most rounds first.
    """
    trace, steps = timeline.trace, timeline.steps
    stat = trace.stat(dialect.RUN_ID)
    here = host_mask(trace, stat.rows)
    if not here.any():
        return ()
    number, began = stat.ints[here], trace.start[stat.rows[here]]
    order = np.lexsort((began, number))
    number, began = number[order], began[order]
    new = np.diff(number, prepend=number[0] - 1) > 0  # the first event of each run
    number, began = number[new], began[new]
    programs = np.split(np.arange(len(number)), np.flatnonzero(np.diff(number) > MAX_RUN_GAP) + 1)
    at = np.searchsorted(steps.start, began, side="right") - 1
    found = [_of_program(trace, number[of], began[of], at[of]) for of in programs]
    return tuple(sorted(found, key=lambda runs: (-runs.rounds, -runs.per_round))[:_MOST_PROGRAMS])


def _of_program(trace: Trace, number: Numbers, began: Picoseconds, step: Indices) -> ProgramRuns:
    """Runs of one program: their numbers, when each began, and in which step (-1: before the
    first).
    """
    first, last = (trace.origin_ns + int(began[end]) // _PS_PER_NS for end in (0, -1))
    rounds, first_of = np.unique(step[step >= 0], return_index=True)
    opened = number[step >= 0][first_of]  # by the first run of each round
    per_round = float(opened[-1] - opened[0]) / float(rounds[-1] - rounds[0]) if len(rounds) > 1 else 0.0
    return ProgramRuns(int(number[0]), first, int(number[-1]), last, len(rounds), per_round)


def _works(trace: Trace) -> bool:
    """Whether JAX did anything: called a function, or ran an op of a program."""
    return bool(len(event_names(trace).rows(EventFlag.JIT_CALL)) or len(trace.stat(dialect.HLO_OP).rows))
