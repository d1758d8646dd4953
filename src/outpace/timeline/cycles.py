# SPDX-License-Identifier: Apache-2.0
"""Detection of the outermost repetition: a function that a step calls several times is not a step.

A loop that trains calls one function per step, or several, always in the same order: `matmul matmul
matmul swapaxes sqrt softmax ...`. The function with the most time is then called several times per
step, and the whole sequence is what repeats. The calls between two calls of that function show
which case it is: they are always the same (one call per step), or several sets of calls alternate.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from outpace.model import median
from outpace.model.arrays import Codes, Indices
from outpace.timeline.limit_checks import LimitCheck, check_share
from outpace.trace import Trace

# Minimum share of equal gaps from which a function is called once per step (the other gaps contain
# evaluations, or summaries): more than two of three, as in a step that accumulates three gradients,
# and less than three of four, as with an evaluation every four steps.
_SAME = 0.74
_ROUND = 0.9  # minimum share of gaps that recur one round later
_MOST = 2_000  # maximum number of calls per round
_ROUNDS = 2  # minimum number of rounds
_SAMPLE = 2_000  # number of sampled positions
_SEQUENCE = "a sequence, {} of which does not come again one round later,"
_NEAR = 0.05  # tolerance of a sampled share: seven standard deviations of a share of 0.9 in such a sample


def find_outermost_repetition(trace: Trace, calls: Indices, rows: Indices, checks: list[LimitCheck]) -> tuple[Indices, Indices]:
    """Return the event rows of (first call, last call) of every step.

    rows: calls of one function. Each of them is a step, or k of them together are.
    calls: all calls that may lie between them.
    checks: receives the decisions.
    """
    words = _calls_between(trace, calls, rows)
    if len(words) < 2 * _ROUNDS:
        return rows, rows
    most = Counter(words).most_common(1)[0][1]
    what = "a call with other calls than usual before {} of its repetitions"
    part = check_share(what, most, len(words), _SAME, ("taken for the step", "taken for a part of one"))
    if not (part.is_over or part.is_borderline):
        return rows, rows
    codes = np.unique(np.array(words, dtype=object).astype(str), return_inverse=True)[1]
    rounds: list[LimitCheck] = []
    count = find_recurrence_lag(codes, range(2, min(len(codes) // _ROUNDS + 1, _MOST) + 1), _ROUND, rounds)
    checks += [part] if count else []
    checks += rounds if part.is_over else []
    return _rounds(trace, rows, count) if count and part.is_over else (rows, rows)


def find_recurrence_lag(codes: Codes, lags: range, min_share: float, checks: list[LimitCheck]) -> int | None:
    """Return the smallest lag at which at least a share `min_share` of the codes recurs; None where
    there is none.

    A lag is counted in full only where a sample of positions is near `min_share`: for a program
    without repetition, each of thousands of lags would cost a pass over all ops.
    """
    places = np.random.default_rng(0).integers(0, max(1, len(codes) - lags.stop), _SAMPLE)
    for lag in lags:
        if len(codes) > _SAMPLE and np.mean(codes[places + lag] == codes[places]) < min_share - _NEAR:
            continue
        share = float(np.mean(codes[lag:] == codes[:-lag]))
        checks.append(check_share(_SEQUENCE, share, 1, min_share, ("taken for the step", "passed over")))
        if not checks[-1].is_over:
            return lag
    return None


def _calls_between(trace: Trace, calls: Indices, rows: Indices) -> list[str]:
    """Return the other calls between each two of `rows`, as one text of their names' codes."""
    line = trace.line[rows[0]]
    other_calls = calls[(trace.line[calls] == line) & (trace.name[calls] != trace.name[rows[0]])]
    at = np.searchsorted(rows, other_calls)
    between: list[list[str]] = [[] for _ in range(max(len(rows) - 1, 0))]
    for place, name in zip(at.tolist(), trace.name[other_calls].tolist(), strict=True):
        if 0 < place < len(rows):
            between[place - 1].append(str(name))
    return [" ".join(word) for word in between]


def _rounds(trace: Trace, rows: Indices, count: int) -> tuple[Indices, Indices]:
    """Return the event rows of (first call, last call) of every round of `count` calls.

    A round ends before the longest of the gaps, which has the wait and the Python code between two
    steps. The capture's start may have cut off the first round.
    """
    gaps = (trace.start[rows[1:]] - trace.end[rows[:-1]]).astype(np.float64)
    last = int(np.argmax([median(gaps[at::count]) for at in range(min(count, len(gaps)))]))
    ends = np.arange(last, len(rows), count)
    heads = np.concatenate(([0], ends[:-1] + 1))
    return rows[heads], rows[ends]
