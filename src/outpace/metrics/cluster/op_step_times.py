# SPDX-License-Identifier: Apache-2.0
"""Time of each op in each steady step, from which an op's mean and its spread are computed.

Concurrent ops of the model share a moment of the step (`model_ops`), so that together they take no
more than the step. Short ops are marked: TensorFlow records no event for ops that it considers
cheap, and its choice of them varies. Their time then appears as the executor's, which has a row of
its own. Stages of the input pipeline, and the ops in them, have their self time, on threads that
may run concurrently with the step.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.metrics.facts.model_ops import ModelOps, input_mask, model_ops
from outpace.metrics.facts.op_metrics import HOST, host_ops
from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.model.arrays import Codes, Indices, Values
from outpace.timeline import OpKind, Run, Timeline

SHORT_OP_PS = 10e6  # ps: mean time of an execution below which an op is short; TensorFlow calls an op cheap below 8,000 cycles
EXECUTOR = "executor, between ops"
INPUT_SIDE = "Input"  # third side, after `Host` and `Device`: ops of the input pipeline
OpKey = tuple[str, str, str]  # side, type, name
_Cells = dict[OpKey, Values]  # ps per steady row of steps, by op


@dataclass(frozen=True, eq=False)
class OpStepTimes:
    """Time of each op in each sample; a sample is a steady step of one host of the main program.

    ops: (side, type, name) of each op
    time_ps: time of each op in a training step, float64, shape (ops, samples)
    step_ps: length of each sample's training step, ps
    short_ops: ops of the host whose time may be recorded as the executor's, and the executor itself
    """

    ops: tuple[OpKey, ...]
    time_ps: Values
    step_ps: Values
    short_ops: frozenset[OpKey]


@memoize
def op_step_times(run: Run) -> OpStepTimes:
    """Return the times of ops in the steady steps of all hosts that execute the main program."""
    breakdown = step_breakdown(run)
    short: set[OpKey] = set()
    blocks: list[_Cells] = []
    lengths: list[Values] = []
    for host in main_program_hosts(run):
        timeline, per_row = run.by_host[host], breakdown.steps_per_execution[host]
        steady = np.flatnonzero(breakdown.steady_mask[breakdown.steps["host"] == host])
        cells = _input_times(timeline, steady)
        for ops in model_ops(run):
            if ops.host == host:
                cells |= _model_times(ops, steady, len(timeline.steps), per_row)
                short |= _short_ops(ops)
        blocks.append({op: times / per_row for op, times in cells.items() if times.any()})
        lengths.append(timeline.steps.duration[steady] / per_row)
    keys = tuple(dict.fromkeys(op for block in blocks for op in block))
    table = np.zeros((len(keys), sum(map(len, lengths))))
    row, begin = {op: at for at, op in enumerate(keys)}, 0
    for block, length in zip(blocks, lengths, strict=True):
        for op, times in block.items():
            table[row[op], begin : begin + len(length)] = times
        begin += len(length)
    return OpStepTimes(keys, table, np.concatenate([*lengths, np.zeros(0)]), frozenset(short & set(keys)))


def _model_times(ops: ModelOps, steady: Indices, steps: int, per_row: int) -> _Cells:
    """Return the times of the model's ops on one side of a host; a mean over its devices."""
    keys: list[OpKey] = [(ops.side, kind, name) for name, kind, _ in ops.ops]
    place = _places(steady, steps)[ops.step]
    devices = max(round(ops.step_count / (len(steady) * per_row)), 1) if len(steady) else 1
    cells = _sum_cells(keys, ops.op_index, place, ops.attributed_ps / devices, len(steady))
    none = np.zeros(len(ops.op_index), np.int64)
    return cells | _sum_cells([(ops.side, "", EXECUTOR)], none, place, ops.executor_ps / devices, len(steady))


def _short_ops(ops: ModelOps) -> set[OpKey]:
    if ops.side != HOST:
        return set()
    count = np.bincount(ops.op_index, minlength=len(ops.ops))
    short = np.bincount(ops.op_index, ops.attributed_ps, len(ops.ops)) < SHORT_OP_PS * count
    return {(HOST, ops.ops[at][1], ops.ops[at][0]) for at in np.flatnonzero(short).tolist()} | {(HOST, "", EXECUTOR)}


def _input_times(timeline: Timeline, steady: Indices) -> _Cells:
    """Return the times of the input pipeline's stages and of the ops in them.

    An event belongs to its own step, else to the step in whose time it begins.
    """
    rows, _, self_ps = host_ops(timeline)
    mask = input_mask(timeline, rows) | timeline.op_kind_mask(OpKind.TF_DATA)[timeline.trace.name[rows]]
    rows, self_ps = rows[mask], self_ps[mask]
    names, code = np.unique(timeline.trace.name[rows], return_inverse=True)
    keys: list[OpKey] = [(INPUT_SIDE, timeline.ops[name].type, timeline.ops[name].name) for name in names.tolist()]
    return _sum_cells(keys, code, _place_events(timeline, steady, rows), self_ps.astype(np.float64), len(steady))


def _sum_cells(keys: list[OpKey], code: Codes, place: Indices, amount: Values, steps: int) -> _Cells:
    inside = place >= 0
    cells = np.bincount(code[inside] * steps + place[inside], amount[inside], len(keys) * steps).reshape(len(keys), steps)
    by_key: _Cells = {}
    for key, times in zip(keys, cells, strict=True):
        if times.any():
            by_key[key] = np.asarray(by_key.get(key, 0.0) + times, np.float64)
    return by_key


def _places(steady: Indices, steps: int) -> Indices:
    """Return the index among the steady steps of each of all steps.

    The result has length `steps + 1`: -2 for a step that is not steady, and -1 as the last entry,
    for events of no step (step index -1).
    """
    places = np.full(steps + 1, -2, np.int64)
    places[steady] = np.arange(len(steady))
    places[-1] = -1
    return places


def _place_events(timeline: Timeline, steady: Indices, rows: Indices) -> Indices:
    """Return the index among the steady steps of each event's step; negative for all others.

    An event of no step belongs to the steady step in whose time it begins.
    """
    steps = timeline.steps
    order = np.argsort(steps.start[steady])
    start, end = steps.start[steady][order], steps.end[steady][order]
    place = _places(steady, len(steps))[timeline.step_index[rows]]
    open_ = np.flatnonzero(place == -1)
    if len(open_) and len(start):
        begin = timeline.trace.start[rows[open_]]
        at = np.searchsorted(start, begin, side="right") - 1
        inside = (at >= 0) & (begin < end[at])
        place[open_[inside]] = order[at[inside]]
    return place
