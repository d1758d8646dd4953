"""Ops by step: how much of each steady step's time each op takes, so that an op can be told of as a mean with its spread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._dataclass import dataclass
from outpace._once import derived
from outpace.metrics.model.op_metrics import DEVICE, HOST, device_op, host_ops, line_ops
from outpace.metrics.program.same_program import main_program
from outpace.metrics.program.step_breakdown import step_breakdown
from outpace.model.arrays import Codes, Indices, Picoseconds, Values
from outpace.timeline import Run, Timeline

Key = tuple[str, str, str]  # side, type, name
_Part = tuple[Indices, Picoseconds, Codes, list[Key]]  # event rows, their self time, of each the op, and these


@dataclass(frozen=True, eq=False)
class OpSteps:
    """ops: in the order of the rows of `self_ps`, float64 (ops, samples): self time of an op in a training step. A sample is a steady step of
    one host of the main program; `step_ps`: how long each took. Self time is that of `op_metrics`, which counts events outside of steps too."""

    ops: tuple[Key, ...]
    self_ps: Values
    step_ps: Values


@derived
def op_steps(run: Run) -> OpSteps:
    """The ops of the steady steps of all hosts that execute the main program."""
    known: dict[Key, int] = {}
    breakdown = step_breakdown(run)
    blocks: list[dict[int, Values]] = []
    lengths: list[Values] = []
    for host in main_program(run):
        timeline, per_row = run.by_host[host], breakdown.per_row[host]
        mine = breakdown.steps["host"] == host
        steady = np.flatnonzero(breakdown.counted[mine])
        place = _Places(timeline, steady)
        sums: dict[int, Values] = {}
        for rows, own, code, ops in (*_of_host(timeline), *_of_devices(timeline)):
            at = place.of(rows)
            inside = at >= 0
            cells = np.bincount(code[inside] * len(steady) + at[inside], own[inside].astype(np.float64), len(ops) * len(steady))
            for op, own_times in zip(ops, cells.reshape(len(ops), len(steady)), strict=True):
                if own_times.any():
                    row = known.setdefault(op, len(known))
                    sums[row] = np.asarray(sums.get(row, 0.0) + own_times, np.float64)
        blocks.append({row: np.asarray(times / per_row, np.float64) for row, times in sums.items()})
        lengths.append(timeline.steps.duration[steady] / per_row)
    samples = sum(map(len, lengths))
    table, begin = np.zeros((len(known), samples)), 0
    for block, length in zip(blocks, lengths, strict=True):
        for row, times in block.items():
            table[row, begin : begin + len(length)] = times
        begin += len(length)
    return OpSteps(tuple(known), table, np.concatenate([*lengths, np.zeros(0)]))


class _Places:
    """In which of some steps events lie: those that they belong to, else those in whose time they begin."""

    def __init__(self, timeline: Timeline, steady: Indices) -> None:
        steps = timeline.steps
        self._timeline, self._order = timeline, np.argsort(steps.start[steady])
        self._start, self._end = steps.start[steady][self._order], steps.end[steady][self._order]
        self._known = np.full(len(steps) + 1, -2, np.int64)  # of a step that is not among them
        self._known[steady] = np.arange(len(steady))
        self._known[-1] = -1  # of none

    def of(self, rows: Indices) -> Indices:
        """The place of each event's step; below 0 where it is none of these."""
        found = self._known[self._timeline.step_of[rows]]
        open_ = np.flatnonzero(found == -1)
        if len(open_) and len(self._start):
            begin = self._timeline.trace.start[rows[open_]]
            at = np.searchsorted(self._start, begin, side="right") - 1
            inside = (at >= 0) & (begin < self._end[at])
            found[open_[inside]] = self._order[at[inside]]
        return found


def _of_host(timeline: Timeline) -> Iterator[_Part]:
    rows, _, own = host_ops(timeline)
    names, code = np.unique(timeline.trace.name[rows], return_inverse=True)
    yield rows, own, code, [(HOST, timeline.ops[name].type, timeline.ops[name].name) for name in names.tolist()]


def _of_devices(timeline: Timeline) -> Iterator[_Part]:
    for plane in timeline.device_planes:
        for line in timeline.device_lines(plane):
            rows = timeline.trace.lines.rows(line)
            own, code, names = line_ops(timeline, line)
            yield np.arange(rows.start, rows.stop), own, code, [(DEVICE, *device_op(name)) for name in names]
