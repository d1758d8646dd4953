# SPDX-License-Identifier: Apache-2.0
"""Whether a capture contains whole training steps.

A part of a step, or the calls of a benchmark, have a length, but say nothing about training.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._caching import memoize
from outpace.metrics.facts.op_metrics import DEVICE, op_metrics
from outpace.metrics.facts.workload import find_workload
from outpace.model import Unit, humanize
from outpace.model.arrays import Codes, Indices, Picoseconds
from outpace.model.units import format_count
from outpace.timeline import Run, Timeline
from outpace.timeline.event_names import EventFlag, is_training_op
from outpace.timeline.function_names import parse_jitted_function
from outpace.timeline.gradients import training_mask
from outpace.timeline.op_names import OpKind, parse_op
from outpace.timeline.xla_threads import find_hlo_events
from outpace.trace import dialect
from outpace.trace.algorithms import distinct, intersect_indices, isin

_MIN_EVENTS = 5  # minimum number of a device's events in all steps for the steps to be training
_HALF = 0.5
_MIN_RUNS = 2  # minimum mean number of runs per program
_MAX_NAMED = 4  # maximum number of ops that a sentence names
_UNKNOWN = 0.1  # maximum ratio of unknown to known ops' time: above it, what a device ran is unknown


@memoize
def partial_step_reason(run: Run) -> str:
    """Return why the steps of a run are no whole training steps; "" where nothing indicates that.

    The text is a sentence without capital letter and full stop.
    """
    if find_workload(run).is_inference:
        return ""
    stepping = [timeline for timeline in run.hosts if len(timeline.steps)]
    return next((why for timeline in stepping for why in _reasons(run, timeline)), "")


def _reasons(run: Run, timeline: Timeline) -> Iterator[str]:
    if len(find_hlo_events(timeline.trace)):
        if not find_workload(run).is_keras:  # a batch of Keras' own loop is a step, whatever it runs
            yield from _programs(timeline)
    else:
        yield from _no_model(run, timeline)
    yield from _devices(timeline)


def _no_model(run: Run, timeline: Timeline) -> Iterator[str]:
    """Yield a reason where TensorFlow ran op by op on a device, without an op that almost every
    training has.
    """
    if any("XLA" in name for name in timeline.trace.lines.names):
        return
    sums: dict[str, int] = {}
    unknown = 0
    for row in op_metrics(run).filter_by("host", timeline.host).records():
        kind = parse_op(f"{row['name']}:{row['type']}").kind
        if row["side"] != DEVICE or row["idle"] or kind is OpKind.COPY:
            continue
        if is_training_op(row["type"]):
            return
        # An op's name has a scope; a kernel without an op is named after itself.
        if kind is OpKind.TENSORFLOW and "/" in row["name"]:
            sums[row["type"]] = sums.get(row["type"], 0) + row["self_ps"]
        else:
            unknown += row["self_ps"]
    if sum(sums.values()) > unknown / _UNKNOWN:
        named = ", ".join(sorted(sums, key=lambda kind: -sums[kind])[:_MAX_NAMED])
        yield (
            "the devices ran no matrix product or convolution, computed no gradient and updated no variable: what was captured "
            f"({named}) is a piece of a step"
        )


def _programs(timeline: Timeline) -> Iterator[str]:
    """Yield a reason where the steps call one function with different shapes in programs without
    training.

    The mean of such steps represents none of them.
    """
    trace = timeline.trace
    step, module, number, names = _executions(timeline)
    if len(step) == 0 or training_mask(trace, timeline.event_names.rows(EventFlag.JIT_CALL)).any():
        return
    count = np.bincount(number)
    programs = int((count > 0).sum())
    again = len(step) >= _MIN_RUNS * programs  # else the function is recompiled all the time, which is the training's fault
    if again and len(step) >= _MIN_EVENTS and count.max() < _HALF * len(step):
        what = parse_jitted_function(names[int(module[0])]) or names[int(module[0])]
        several = format_count(programs, "compiled program")
        yield f"the steps are calls of {several} of one function ({what}): they do different work, and their mean stands for none of them"


def _executions(timeline: Timeline) -> tuple[Indices, Codes, Codes, list[str]]:
    """Return (step, module, program, names of modules): the longest program of each steady step.

    The programs are those of the module that took most time in all steps.
    """
    trace, rows = timeline.trace, find_hlo_events(timeline.trace)
    names, numbers = trace.stat(dialect.HLO_MODULE), trace.stat(dialect.PROGRAM_ID)
    rows = rows[isin(timeline.step_index[rows], timeline.steps.steady_rows)]
    rows = rows[intersect_indices(rows, names.rows)[0]]
    rows = rows[intersect_indices(rows, numbers.rows)[0]]
    if len(rows) == 0:
        return rows, rows, rows, []
    module, texts = names.encode_texts(intersect_indices(rows, names.rows)[1])
    program_, _ = numbers.encode_texts(intersect_indices(rows, numbers.rows)[1])
    length = trace.duration[rows]
    mask = module == np.argmax(np.bincount(module, length))
    key = timeline.step_index[rows[mask]].astype(np.int64) * (int(program_.max()) + 1) + program_[mask]
    keys = distinct(key)
    time = np.bincount(np.searchsorted(keys, key), length[mask], len(keys))
    step, number = np.divmod(keys, int(program_.max()) + 1)
    order = np.lexsort((time, step))
    last = order[np.append(np.diff(step[order]) > 0, True)]
    return step[last], np.full(len(last), module[mask][0]), number[last], texts


def _devices(timeline: Timeline) -> Iterator[str]:
    """Yield reasons where devices work in few of the steps, or outside of all steps while others
    work.
    """
    work = {plane.name: _work(timeline, lines) for plane in timeline.device_planes if (lines := timeline.device_lines(plane))}
    timed = {name: _step_at(timeline, timeline.trace.start[rows]) for name, rows in work.items()}
    steps = [np.where(timeline.step_index[rows] >= 0, timeline.step_index[rows], timed[name]) for name, rows in work.items()]
    worked_steps = np.concatenate([*steps, np.zeros(0, np.int64)])
    worked_steps, captured = worked_steps[isin(worked_steps, timeline.steps.complete_rows)], timeline.steps.complete_rows
    if len(worked_steps) == 0:
        return
    if len(worked_steps) < _MIN_EVENTS:
        yield f"the devices ran {format_count(len(worked_steps), 'op')} in {format_count(len(captured), 'step')}"
    if (hit := len(distinct(worked_steps))) < _HALF * len(captured):
        yield f"the devices worked in {hit} of {format_count(len(captured), 'step')} only"
    most = max((len(rows) for name, rows in work.items() if (timed[name] >= 0).any()), default=0)
    for name, rows in work.items():
        if not (timed[name] >= 0).any() and len(rows) > _HALF * most > 0:
            apart = humanize(_distance(timeline, rows), Unit.PS)
            yield f"{name.removeprefix(dialect.DEVICE_PREFIX)} ran {apart} away from the steps of other devices: a part of each is here"


def _work(timeline: Timeline, lines: list[int]) -> Indices:
    """Return the rows of a device's events that have a duration."""
    trace = timeline.trace
    rows = np.concatenate([trace.lines.row_numbers(line) for line in lines])
    busy_rows: Indices = rows[trace.duration[rows] > 0]
    return busy_rows


def _step_at(timeline: Timeline, moment: Picoseconds) -> Indices:
    """Return the index of the step in whose time each moment lies; -1 for none."""
    steps = timeline.steps
    order = np.argsort(steps.start, kind="stable")
    at = order[np.maximum(np.searchsorted(steps.start[order], moment, side="right") - 1, 0)]
    return np.where((steps.start[at] <= moment) & (moment < steps.end[at]), at, -1)


def _distance(timeline: Timeline, rows: Indices) -> int:
    trace, steps = timeline.trace, timeline.steps
    begin, end = int(trace.start[rows].min()), int(trace.end[rows].max())
    return int(np.maximum(steps.start - end, begin - steps.end).min())
