# SPDX-License-Identifier: Apache-2.0
"""Inference of steps from a device's kernels that name their ops, where the host shows no steps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from outpace.model.arrays import Column, Indices, Picoseconds
from outpace.model.units import format_count
from outpace.timeline.event_names import event_names
from outpace.timeline.op_names import OpKind
from outpace.timeline.steps import Confidence, Steps, build_inferred_steps
from outpace.trace import Trace, dialect


def infer_device_op_steps(trace: Trace) -> Steps | None:
    """Return the steps of the device that computed longest; None where no kernels name their ops.

    Every op of a step runs once per step, so most ops occur as often as there are steps, and a step
    starts where the first such op does.
    """
    trace.load_stats((dialect.TF_OP, dialect.ANNOTATION))
    best: tuple[int, Picoseconds, Picoseconds] | None = None
    copies = event_names(trace).op_kind_mask(OpKind.COPY)
    for plane in trace.find_planes(dialect.GPU_PREFIX):
        for stat in (trace.stat(dialect.TF_OP), trace.stat(dialect.ANNOTATION)):
            rows = trace.rows_of(plane)
            low, high = np.searchsorted(stat.rows, [rows.start, rows.stop])
            named, ops = stat.rows[low:high], np.array(stat.texts()[low:high], dtype=object)
            computes = ~copies[trace.name[named]]
            named, ops = named[computes], ops[computes]
            starts, ends = _repetitions(trace, named, ops)
            busy = int(np.sum(ends - starts))
            if len(starts) and (best is None or busy > best[0]):
                best = (busy, starts, ends)
    if best is None:
        return None
    _, start, end = best
    steps = build_inferred_steps(f"ops on the busiest device run {format_count(len(start), 'time')}", start, end)
    return replace(steps, confidence=Confidence.LOW)


def _repetitions(trace: Trace, rows: Indices, ops: Column) -> tuple[Picoseconds, Picoseconds]:
    """Return (starts, ends) of the repetitions of a device's ops, ps."""
    rows, ops = rows[trace.duration[rows] > 0], ops[trace.duration[rows] > 0]
    if len(rows) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, code, count = np.unique(ops.astype(str), return_inverse=True, return_counts=True)
    steps = Counter(count.tolist()).most_common(1)[0][0]
    order = np.argsort(trace.start[rows], kind="stable")
    rows, code = rows[order], code[order]
    first = next(c for c in code.tolist() if count[c] == steps)
    start = trace.start[rows[code == first]]
    start[0] = trace.start[rows[0]]
    step = np.searchsorted(start, trace.start[rows], side="right") - 1
    end = np.zeros(len(start), np.int64)
    np.maximum.at(end, step, trace.end[rows])
    return start, end
