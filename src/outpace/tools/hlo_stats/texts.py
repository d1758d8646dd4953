# SPDX-License-Identifier: Apache-2.0
"""Instructions of the longest ops: their text, their neighbours, and where they were traced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outpace.metrics.source_line import shorten_source_path
from outpace.model import Table
from outpace.timeline import Run
from outpace.tools.hlo_stats.schema import TEXTS

if TYPE_CHECKING:
    from outpace.tools.hlo_stats.compute import TotalsByOp

_MOST = 100  # maximum number of ops: a program may have thousands
_NEIGHBOURS, _FRAMES = 20, 12  # maximum number of neighbours and of frames of an op
_OpKey = tuple[str, int, str]  # program, its number, op


def build_texts(run: Run, totals: TotalsByOp) -> Table:
    """Return `TEXTS`: one row per op whose program the profile holds, longest first."""
    times: dict[_OpKey, int] = {}
    hosts: dict[_OpKey, str] = {}
    for (host, _, program, number, op), sums in totals.items():
        key = (program, number, op)
        times[key] = times.get(key, 0) + sums.self_ps
        hosts.setdefault(key, host)
    rows = []
    for key, self_ps in sorted(times.items(), key=lambda item: -item[1])[:_MOST]:
        program, number, op = key
        found = run.by_host[hosts[key]].hlo_modules[number].describe(op)
        if found is not None:
            program_id = str(number) if number >= 0 else ""
            frames = (shorten_source_path(frame) for frame in found.frames[:_FRAMES])
            cells = {"operands": _list(found.operands), "users": _list(found.users), "frames": " < ".join(frames)}
            text = found.text.partition(" = ")[2].partition(", metadata=")[0]  # which other columns have
            rows.append(TEXTS.row(program=program, program_id=program_id, op=op, self_ps=self_ps, text=text, **cells))
    return TEXTS.build(rows)


def _list(names: list[str]) -> str:
    further = len(names) - _NEIGHBOURS
    return ", ".join(names[:_NEIGHBOURS]) + (f" and {further} more" if further > 0 else "")
