# SPDX-License-Identifier: Apache-2.0
"""Steps of an eager loop: they start at its input call, or at each repetition of its ops."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from outpace.model import median
from outpace.model.arrays import Indices, Picoseconds
from outpace.model.units import format_count
from outpace.timeline.call_steps import check_whole, is_stretched
from outpace.timeline.cycles import find_recurrence_lag
from outpace.timeline.function_calls import find_program_events
from outpace.timeline.limit_checks import LimitCheck
from outpace.timeline.steps import Steps, build_inferred_steps
from outpace.trace import Trace, dialect

_PERIODIC = 0.9  # minimum share of ops that recur one period later
_LONGEST_PERIOD = 20_000  # maximum number of eager ops per step
_DEEPEST = 8  # number of events before an op among which the call that dispatched it is looked for


def infer_eager_steps(trace: Trace, ops: Indices, hidden: Indices, checks: list[LimitCheck]) -> Steps | None:
    """Return the steps of the thread with the most eager ops; None where neither its input calls
    nor its ops repeat.
    """
    if len(ops) == 0:
        return None
    line = Counter(trace.line[ops].tolist()).most_common(1)[0][0]
    ops = ops[trace.line[ops] == line]
    names = _op_names(trace, ops)
    inputs = ops[[name.startswith("IteratorGetNext") for name in names]]
    if len(inputs) > 1:
        return _build_steps_from(trace, inputs, hidden, f"{format_count(len(inputs), 'input call')} of an eager loop")
    # The smallest period with equal names nearly everywhere, for at least three repetitions
    codes = np.unique(names, return_inverse=True)[1]
    period = find_recurrence_lag(codes, range(1, min(len(codes) // 3, _LONGEST_PERIOD) + 1), _PERIODIC, checks)
    if period is None:
        return None
    heads = ops[::period]
    explanation = f"a sequence of {period} eager ops that repeats {format_count(len(heads), 'time')}"
    return _build_steps_from(trace, heads, hidden, explanation)


def _op_names(trace: Trace, ops: Indices) -> list[str]:
    """Return the op of each EagerExecute event: its `eager_op` stat, or its name in old
    profiles.
    """
    stat = trace.stat(dialect.EAGER_OP)
    by_row = dict(zip(stat.rows.tolist(), stat.texts(), strict=True))
    return [by_row.get(row, trace.names[trace.name[row]]) for row in ops.tolist()]


def _build_steps_from(trace: Trace, heads: Indices, hidden: Indices, explanation: str) -> Steps:
    """Return steps that begin with the ops `heads`; the last one ends with its thread."""
    line = int(trace.line[heads[0]])
    thread = find_program_events(trace, line, hidden)
    start = _enclosing_starts(trace, thread, heads)
    end = np.concatenate((start[1:], [int(trace.end[thread].max())]))
    step = np.searchsorted(start, trace.start[thread], side="right") - 1
    thread, step = thread[step >= 0], step[step >= 0]
    steps = build_inferred_steps(explanation, start, end, line, thread, step)
    sizes = np.bincount(step, minlength=len(heads))
    check = check_whole("the last step, which lacks {} of the events of the others,", int(sizes[-1]), median(sizes[:-1]))
    steps.complete[-1] = (len(heads) < 3 or not check.is_over) and not is_stretched(end - start)
    return steps if len(heads) < 3 else replace(steps, limit_checks=(check,))


def _enclosing_starts(trace: Trace, thread: Indices, heads: Indices) -> Picoseconds:
    """Return the start of the outermost of the eight events of `thread` before each head that
    contain it (the Python call that dispatched the op).
    """
    at = np.searchsorted(thread, heads)
    start, end = trace.start[heads], trace.end[heads]
    for before in range(1, _DEEPEST + 1):
        candidate = thread[np.maximum(at - before, 0)]
        begun = trace.start[candidate]
        start = np.where((at >= before) & (begun <= start) & (trace.end[candidate] >= end), begun, start)
    return start
