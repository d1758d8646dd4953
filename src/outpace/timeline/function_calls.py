# SPDX-License-Identifier: Apache-2.0
"""Calls of functions among which the step of a training is looked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from outpace.model.arrays import Indices, Mask
from outpace.timeline.event_names import EventFlag, event_names
from outpace.timeline.gradients import training_mask
from outpace.trace import Trace, dialect
from outpace.trace.algorithms import distinct, find_positions, intersect_indices, union_rows


def exclude_rows(rows: Indices, hidden: Indices) -> Indices:
    """Return the rows that are not hidden."""
    return rows[find_positions(distinct(hidden), rows) < 0]


def find_program_events(trace: Trace, line: int, hidden: Indices) -> Indices:
    """Return the events of a thread (none for -1) without hidden ones and without Python frames,
    which enclose the whole program and belong to no step.
    """
    rows = exclude_rows(trace.lines.row_numbers(line), hidden) if line >= 0 else np.zeros(0, np.int64)
    return rows[~event_names(trace).mask(EventFlag.PYTHON_FRAME)[trace.name[rows]]]


def find_function_calls(trace: Trace, hidden: Indices, *, jitted: bool = False) -> Indices:
    """Return the rows of the outermost calls of functions; `jitted`: only functions that JAX
    jitted. Calls of primitives count only where there are no other calls.
    """
    rows = event_names(trace).rows(EventFlag.JIT_CALL)
    if not jitted:
        rows = union_rows(rows, trace.stat(dialect.TF_FUNCTION_CALL).rows)
    calls = trace.find_outermost(exclude_rows(rows, hidden))
    functions: Indices = calls[~event_names(trace).mask(EventFlag.JAX_PRIMITIVE)[trace.name[calls]]]
    return functions if len(functions) else calls


def find_step_calls(trace: Trace, calls: Indices, fewest: int = 1) -> Indices:
    """Return the calls of the step's function. A function that computes gradients is preferred
    where it is called at least `fewest` times.
    """
    rows = find_most_repeated(trace, calls[training_mask(trace, calls)])
    return rows if len(rows) >= fewest else find_most_repeated(trace, calls)


def find_most_repeated(trace: Trace, rows: Indices) -> Indices:
    """Return the calls of the function and thread with the most total time; a function with several
    calls is preferred to one with a single call.

    JAX compiles a function once per shape, under one name: a loop over shapes has one function.
    """
    if len(rows) == 0:
        return rows
    key = trace.line[rows].astype(np.int64) * (len(trace.names) + 1) + trace.name[rows]
    groups, group, count = np.unique(key, return_inverse=True, return_counts=True)
    total = np.bincount(group, weights=trace.duration[rows].astype(np.float64), minlength=len(groups))
    longest: Indices = rows[group == int(np.lexsort((total, count > 1))[-1])]
    return longest


def called_functions(trace: Trace, select: Callable[[Indices], Mask] | None = None) -> set[str]:
    """Return the names of the functions that a program called; of the calls (event rows) that
    `select` takes.
    """
    is_func, eager = trace.stat(dialect.IS_FUNC), trace.stat(dialect.EAGER_OP)
    at, _ = intersect_indices(eager.rows, is_func.rows[is_func.ints != 0])
    at = at if select is None else at[select(eager.rows[at])]
    code, texts = eager.encode_texts(at)
    return {texts[i] for i in distinct(code).tolist()}
