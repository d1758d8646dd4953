# SPDX-License-Identifier: Apache-2.0
"""Runs of compiled programs on devices: which program an event belongs to, and where a run of it
begins.
"""

from __future__ import annotations

import numpy as np

from outpace.model.arrays import Codes, Indices, Mask
from outpace.timeline import Timeline
from outpace.timeline.command_buffers import compute_hlo_op_stat
from outpace.timeline.hlo.module import HloModule
from outpace.trace import dialect
from outpace.trace.algorithms import distinct, find_positions


def find_programs(timeline: Timeline, rows: Indices) -> Codes:
    """Return the id of each event's program; 0 where it is not known."""
    stat = timeline.trace.stat(dialect.PROGRAM_ID)
    at = find_positions(stat.rows, rows)
    return np.where(at >= 0, stat.ints[np.maximum(at, 0)], 0) if len(stat.rows) else np.zeros(len(rows), np.int64)


def find_run_starts(timeline: Timeline, rows: Indices, program: Codes) -> Mask:
    """Return whether a run of a program begins with each event, of events sorted by start.

    It does where another program's op ran before, and with each execution of the op that comes
    first in the program's schedule, of those that ran. A program with one op begins with each of
    its kernels.
    """
    begins = np.diff(program, prepend=program[0] - 1) != 0
    stat = compute_hlo_op_stat(timeline)
    at = find_positions(stat.rows, rows).astype(np.int64)
    code, texts = stat.encode_texts(at[at >= 0])
    op = np.full(len(rows), -1, np.int64)
    op[at >= 0] = code
    for number in distinct(program).tolist():
        own = np.flatnonzero(program == number)
        first = _find_first(timeline.hlo_modules[number], {texts[i]: i for i in distinct(op[own]).tolist()})
        ran = distinct(op[own])
        begins[own] |= (op[own] == first) & ((np.concatenate(([-1], op[own][:-1])) != first) | (len(ran) == 1))
    return np.asarray(begins)


def _find_first(module: HloModule, codes: dict[str, int]) -> int:
    """Return the code of the op that comes first in a program's schedule, of those that ran; -2
    where the program is not known. `codes`: by name of the op.
    """
    entry = module.entry_instructions
    names = (name for schedule in module.schedules for name in schedule if name in entry and name in codes)
    return codes[name] if (name := next(names, "")) else -2
