"""Loops that run ahead: JAX returns from a call before its program has run, and dozens of calls may wait for their turn.

From call to call the clock then shows how fast the loop hands work over, until the queue is full, and one call in which the program catches
up holds the work of all. Steps are what the programs' runs say: one ends when its run ends.
"""

from __future__ import annotations

import numpy as np

from outpace.model.arrays import Picoseconds
from outpace.timeline.names import jitted_function
from outpace.timeline.workers import executed, on_host
from outpace.trace import Trace, dialect
from outpace.trace.algorithms import common


def runs_of(trace: Trace, call: str) -> tuple[Picoseconds, Picoseconds]:
    """(start, end) of every run, on the host's XLA threads, of the program that a call (`PjitFunction(step)`) runs; sorted by end, ps."""
    function = jitted_function(call)
    rows = executed(trace) if function else np.zeros(0, np.int64)
    rows = rows[on_host(trace, rows)]
    module, run = trace.stat(dialect.HLO_MODULE), trace.stat(dialect.RUN_ID)
    code, texts = module.codes(np.arange(len(module)))
    runs_it = np.fromiter((jitted_function(text) == function for text in texts), bool, len(texts))
    rows = np.intersect1d(rows, module.row[runs_it[code]])
    at, place = common(rows, run.row)
    rows, number = rows[at], run.uints[place]
    if len(rows) == 0:
        return rows.astype(np.int64), rows.astype(np.int64)
    _, which = np.unique(number, return_inverse=True)
    count = int(which.max()) + 1
    start, end = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(start, which, trace.start[rows])
    np.maximum.at(end, which, trace.end[rows])
    order = np.argsort(end, kind="stable")
    return start[order], end[order]
