# SPDX-License-Identifier: Apache-2.0
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
from outpace.timeline.event_names import EventFlag, event_names
from outpace.timeline.function_names import normalize_function_name, parse_jitted_function
from outpace.timeline.gradients import find_training_functions
from outpace.timeline.xla_threads import find_hlo_events, host_mask
from outpace.trace import Trace, dialect, open_trace
from outpace.trace.algorithms import distinct, intersect_indices

_PS, _PS_PER_NS = 1e12, 1000
_MAX_PROGRAMS = 20


def answer_request(folder: str) -> None:
    """Answer the request in a folder, if there is one."""
    request_path = os.path.join(folder, REQUEST_FILE)
    with contextlib.suppress(OSError, ValueError, TypeError):
        with open(request_path, encoding="utf-8") as file:
            request = AnalysisRequest.from_json(file.read())
        os.remove(request_path)
        repetition = find_repetition(request.profile)
        response_path = os.path.join(folder, RESPONSE_FILE.format(number=request.number))
        with open(f"{response_path}.part", "w", encoding="utf-8") as file:
            file.write(repetition.to_json())
        os.replace(f"{response_path}.part", response_path)


def find_repetition(path: str) -> Repetition:
    """Return the repeated work in the profile at a path; an empty result, with the reason in `why`,
    for a profile that cannot be read.
    """
    try:
        return _find_host_repetition(Timeline(open_trace(path)))
    except Exception as error:  # an error of the analysis must not end a training
        return Repetition(why=str(error) or type(error).__name__)


def _find_host_repetition(timeline: Timeline) -> Repetition:
    """Return the repeated work on a host."""
    trace = timeline.trace
    steps = timeline.steps
    rounds = int(steps.complete.sum())
    if not rounds:
        return Repetition(events=len(trace), busy=_is_busy(trace), why=steps.explanation, runs=_find_program_runs(timeline))
    calls, runs = _find_calls(timeline), _find_op_runs(timeline)
    return Repetition(
        rounds=rounds,
        seconds=float(steps.duration[steps.complete].mean()) / _PS,
        events=len(trace),
        what=_main_function(trace, calls, runs),
        trains=_count_training_rounds(trace, calls, runs) >= rounds / 2,
        predicts=steps.kind == "prediction",
        busy=True,
        once=_outlier_share(steps.duration[steps.complete]),
        why=steps.explanation,
        next=_find_next_training(timeline),
        runs=_find_program_runs(timeline),
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


def _find_calls(timeline: Timeline) -> _FunctionEvents:
    """Return the calls of jitted functions."""
    trace = timeline.trace
    rows, step = _select_in_steps(timeline, event_names(trace).rows(EventFlag.JIT_CALL))
    indices, code = np.unique(trace.name[rows], return_inverse=True)
    return _FunctionEvents(rows, step, code, [parse_jitted_function(trace.names[index]) for index in indices.tolist()])


def _find_op_runs(timeline: Timeline) -> _FunctionEvents:
    """Return the ops that the compiled programs of jitted functions ran."""
    rows, step = _select_in_steps(timeline, find_hlo_events(timeline.trace))
    modules = timeline.trace.stat(dialect.HLO_MODULE)
    in_modules, positions = intersect_indices(rows, modules.rows)
    code, texts = modules.encode_texts(positions)
    return _FunctionEvents(rows[in_modules], step[in_modules], code, [parse_jitted_function(text) for text in texts])


def _main_function(trace: Trace, calls: _FunctionEvents, runs: _FunctionEvents) -> str:
    """Return the jitted function that takes most of the time of the steps; "" without one.

    The time is that of its ops; where there are none, of its calls, which may have been long
    before.
    """
    events = runs if len(runs.rows) else calls
    if not len(events.rows):
        return ""
    duration = np.bincount(events.code, weights=trace.duration[events.rows].astype(np.float64))
    return events.texts[int(duration.argmax())]


def _count_training_rounds(trace: Trace, calls: _FunctionEvents, runs: _FunctionEvents) -> int:
    """Return the number of steps that call a function which computes gradients, or run its
    program.
    """
    training = find_training_functions(trace)
    names = ([normalize_function_name(text) for text in events.texts] for events in (calls, runs))
    masks = (np.array([name in training for name in own], bool) for own in names)
    steps = [events.step[mask[events.code]] for events, mask in zip((calls, runs), masks, strict=True)]
    return len(distinct(np.concatenate(steps)))


def _find_next_training(timeline: Timeline) -> str:
    """Return a function that trains and is called repeatedly after the last whole round but not
    before; "" without one.

    Such a function means that the repeated work in the profile is over.
    """
    trace, steps = timeline.trace, timeline.steps
    rows = event_names(trace).rows(EventFlag.JIT_CALL)
    is_after = trace.start[rows] >= int(steps.end[steps.complete].max())
    before, after = (
        Counter(parse_jitted_function(trace.names[index]) for index in trace.name[group].tolist())
        for group in (rows[~is_after], rows[is_after])
    )
    training = find_training_functions(trace)
    new = (name for name in after.keys() - before.keys() if normalize_function_name(name) in training)
    candidates = [name for name in new if after[name] >= MIN_ROUNDS]
    return max(candidates, key=after.__getitem__, default="")


def _select_in_steps(timeline: Timeline, rows: Indices) -> tuple[Indices, Indices]:
    """Return the rows of events that begin inside a step, and the index of that step for each."""
    steps, start = timeline.steps, timeline.trace.start[rows]
    step = np.searchsorted(steps.start, start, side="right") - 1
    mask = (step >= 0) & (start < steps.end[np.maximum(step, 0)])
    return rows[mask], step[mask]


def _outlier_share(durations: Picoseconds) -> float:
    """Return the longest round's share of the time of all rounds, where it is an outlier; else 0.

    An outlier takes at least `RARE_FACTOR` medians, and no other round takes half as long.
    """
    longest = int(durations.max())
    if longest < RARE_FACTOR * median(durations) or int((durations >= longest / 2).sum()) > 1:
        return 0.0
    return longest / int(durations.sum())


def _find_program_runs(timeline: Timeline) -> tuple[ProgramRuns, ...]:
    """Return the runs of each compiled program on the host, the program that ran in most rounds
    first.

    Programs are separated by their run ids, which differ by more than `MAX_RUN_GAP`.
    """
    trace, steps = timeline.trace, timeline.steps
    stat = trace.stat(dialect.RUN_ID)
    on_host = host_mask(trace, stat.rows)
    if not on_host.any():
        return ()
    number, start = stat.ints[on_host], trace.start[stat.rows[on_host]]
    order = np.lexsort((start, number))
    number, start = number[order], start[order]
    is_first = np.diff(number, prepend=number[0] - 1) > 0  # mask of the first event of each run
    number, start = number[is_first], start[is_first]
    programs = np.split(np.arange(len(number)), np.flatnonzero(np.diff(number) > MAX_RUN_GAP) + 1)
    step = np.searchsorted(steps.start, start, side="right") - 1
    programs_runs = [_build_program_runs(trace, number[rows], start[rows], step[rows]) for rows in programs]
    return tuple(sorted(programs_runs, key=lambda runs: (-runs.rounds, -runs.per_round))[:_MAX_PROGRAMS])


def _build_program_runs(trace: Trace, number: Numbers, start: Picoseconds, step: Indices) -> ProgramRuns:
    """Return the runs of one program.

    number: run id of each run, ascending.
    start: start of each run, ps.
    step: index of the step in which it began; -1 before the first step.
    """
    first_ns, last_ns = (trace.origin_ns + int(start[index]) // _PS_PER_NS for index in (0, -1))
    rounds, first_of = np.unique(step[step >= 0], return_index=True)
    first_ids = number[step >= 0][first_of]  # run id of the first run of each round
    per_round = float(first_ids[-1] - first_ids[0]) / float(rounds[-1] - rounds[0]) if len(rounds) > 1 else 0.0
    return ProgramRuns(int(number[0]), first_ns, int(number[-1]), last_ns, len(rounds), per_round)


def _is_busy(trace: Trace) -> bool:
    """Whether JAX did anything: called a function, or ran an op of a program."""
    return bool(len(event_names(trace).rows(EventFlag.JIT_CALL)) or len(trace.stat(dialect.HLO_OP).rows))
