"""Finds repeated work in a profile while the script is still running, by the rule that finds the
steps of every profile.

This runs in the command that waits for the script, so that neither the analysis nor its imports get
into the training's process.
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
from outpace.timeline.event_names import EventFlag, event_names, parse_jitted_function
from outpace.timeline.gradients import find_training_functions
from outpace.timeline.xla_threads import find_hlo_events, host_mask
from outpace.trace import Trace, dialect, open_trace
from outpace.trace.algorithms import distinct, intersect_indices

_PS, _PS_PER_NS = 1e12, 1000
_MOST_PROGRAMS = 20


def answer_request(folder: str) -> None:
    """Answer the request in a folder, if there is one."""
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
    """Return the repeated work in the profile at a path; an empty result, with the reason in `why`,
    for a profile that cannot be read.
    """
    try:
        return _of_host(Timeline(open_trace(path)))
    except Exception as error:  # an error of the analysis must not end a training
        return Repetition(why=str(error) or type(error).__name__)


def _of_host(timeline: Timeline) -> Repetition:
    """Return the repeated work on a host."""
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
    """Events of jitted functions inside the steps, one row per event.

    rows: event rows.
    step: index of the step in which the event begins.
    code: index of the event's function in `texts`.
    texts: names of the functions.
    """

    rows: Indices
    step: Indices
    code: Codes
    texts: list[str]


def _calls(timeline: Timeline) -> _FunctionEvents:
    """Return the calls of jitted functions."""
    trace = timeline.trace
    rows, step = _inside(timeline, event_names(trace).rows(EventFlag.JIT_CALL))
    known, code = np.unique(trace.name[rows], return_inverse=True)
    return _FunctionEvents(rows, step, code, [parse_jitted_function(trace.names[each]) for each in known.tolist()])


def _runs(timeline: Timeline) -> _FunctionEvents:
    """Return the ops that the compiled programs of jitted functions ran."""
    rows, step = _inside(timeline, find_hlo_events(timeline.trace))
    modules = timeline.trace.stat(dialect.HLO_MODULE)
    found, place = intersect_indices(rows, modules.rows)
    code, texts = modules.encode_texts(place)
    return _FunctionEvents(rows[found], step[found], code, [parse_jitted_function(each) for each in texts])


def _function(trace: Trace, calls: _FunctionEvents, runs: _FunctionEvents) -> str:
    """Return the jitted function that takes most of the time of the steps; "" without one.

    The time is that of its ops; where there are none, of its calls, which may have been long
    before.
    """
    events = runs if len(runs.rows) else calls
    if not len(events.rows):
        return ""
    took = np.bincount(events.code, weights=trace.duration[events.rows].astype(np.float64))
    return events.texts[int(took.argmax())]


def _rounds_that_train(trace: Trace, calls: _FunctionEvents, runs: _FunctionEvents) -> int:
    """Return the number of steps that call a function which computes gradients, or run its
    program.
    """
    training = find_training_functions(trace)
    steps = [each.step[np.array([text in training for text in each.texts], bool)[each.code]] for each in (calls, runs)]
    return len(distinct(np.concatenate(steps)))


def _next_training(timeline: Timeline) -> str:
    """Return a function that trains and is called repeatedly after the last whole round but not
    before; "" without one.

    Such a function means that the repeated work in the profile is over.
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
    """Return the rows of events that begin inside a step, and the index of that step for each."""
    steps, began = timeline.steps, timeline.trace.start[rows]
    at = np.searchsorted(steps.start, began, side="right") - 1
    inside = (at >= 0) & (began < steps.end[np.maximum(at, 0)])
    return rows[inside], at[inside]


def _once(times: Picoseconds) -> float:
    """Return the longest round's share of the time of all rounds, where it is an outlier; else 0.

    An outlier takes at least `RARE_FACTOR` medians, and no other round takes half as long.
    """
    longest = int(times.max())
    if longest < RARE_FACTOR * median(times) or int((times >= longest / 2).sum()) > 1:
        return 0.0
    return longest / int(times.sum())


def _program_runs(timeline: Timeline) -> tuple[ProgramRuns, ...]:
    """Return the runs of each compiled program on the host, the program that ran in most rounds
    first.

    Programs are separated by their run ids, which differ by more than `MAX_RUN_GAP`.
    """
    trace, steps = timeline.trace, timeline.steps
    stat = trace.stat(dialect.RUN_ID)
    here = host_mask(trace, stat.rows)
    if not here.any():
        return ()
    number, began = stat.ints[here], trace.start[stat.rows[here]]
    order = np.lexsort((began, number))
    number, began = number[order], began[order]
    new = np.diff(number, prepend=number[0] - 1) > 0  # mask of the first event of each run
    number, began = number[new], began[new]
    programs = np.split(np.arange(len(number)), np.flatnonzero(np.diff(number) > MAX_RUN_GAP) + 1)
    at = np.searchsorted(steps.start, began, side="right") - 1
    found = [_of_program(trace, number[of], began[of], at[of]) for of in programs]
    return tuple(sorted(found, key=lambda runs: (-runs.rounds, -runs.per_round))[:_MOST_PROGRAMS])


def _of_program(trace: Trace, number: Numbers, began: Picoseconds, step: Indices) -> ProgramRuns:
    """Return the runs of one program.

    number: run id of each run, ascending.
    began: start of each run, ps.
    step: index of the step in which it began; -1 before the first step.
    """
    first, last = (trace.origin_ns + int(began[end]) // _PS_PER_NS for end in (0, -1))
    rounds, first_of = np.unique(step[step >= 0], return_index=True)
    opened = number[step >= 0][first_of]  # run id of the first run of each round
    per_round = float(opened[-1] - opened[0]) / float(rounds[-1] - rounds[0]) if len(rounds) > 1 else 0.0
    return ProgramRuns(int(number[0]), first, int(number[-1]), last, len(rounds), per_round)


def _works(trace: Trace) -> bool:
    """Whether JAX did anything: called a function, or ran an op of a program."""
    return bool(len(event_names(trace).rows(EventFlag.JIT_CALL)) or len(trace.stat(dialect.HLO_OP).rows))
