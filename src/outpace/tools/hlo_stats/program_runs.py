# SPDX-License-Identifier: Apache-2.0
"""Runs of programs on devices: how long a device is idle inside a run and before it, and the CUDA
graphs that it launches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.facts.program_runs import find_programs, find_run_starts
from outpace.metrics.spans import merge_sorted_spans
from outpace.model import Row, Table
from outpace.model.arrays import Indices, Picoseconds
from outpace.timeline import Run, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.timeline.hlo.module import HloModule
from outpace.timeline.xla_threads import derived_line_mask, find_hlo_events
from outpace.tools.hlo_stats.schema import GRAPHS
from outpace.trace import Plane, Trace, dialect
from outpace.trace.algorithms import distinct, find_slice, intersect_indices

_DEEP = 4  # maximum number of events between a call that launches a graph and the command that it belongs to
ProgramKey = tuple[str, int]  # host, id of the program


@dataclass(frozen=True)
class ProgramIdle:
    """How long devices were idle around a program's ops, in the whole capture.

    inside_ps: between the first and the last op of its runs, ps.
    before_ps: between the op before a run, of any program, and its first op, ps.
    """

    inside_ps: int
    before_ps: int


def find_program_idle(run: Run) -> dict[ProgramKey, ProgramIdle]:
    """Return how long devices were idle inside and before the runs of each program."""
    sums: dict[ProgramKey, list[int]] = {}
    for timeline in run.hosts:
        for plane in timeline.device_planes:
            for program, idle in _plane_idle(timeline, plane):
                both = sums.setdefault((timeline.host, program), [0, 0])
                both[0] += idle.inside_ps
                both[1] += idle.before_ps
    return {key: ProgramIdle(*both) for key, both in sums.items()}


def _plane_idle(timeline: Timeline, plane: Plane) -> Iterator[tuple[int, ProgramIdle]]:
    """Yield (id of a program, idle time around its ops) of one device."""
    trace = timeline.trace
    rows = find_hlo_events(trace)
    rows = rows[find_slice(rows, trace.rows_of(plane))]
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    if not len(rows):
        return
    program, gap = find_programs(timeline, rows), _gaps_before(trace, plane, trace.start[rows])
    begins = find_run_starts(timeline, rows, program)
    for number in distinct(program).tolist():
        own = program == number
        yield number, ProgramIdle(int(gap[own & ~begins].sum()), int(gap[own & begins].sum()))


def _gaps_before(trace: Trace, plane: Plane, starts: Picoseconds) -> Picoseconds:
    """Return how long a device was idle between the op before and each op, ps. `starts`: of the
    ops, sorted. While it copies, it is not idle.
    """
    derived = derived_line_mask(trace)
    every = np.concatenate([trace.lines.row_numbers(line) for line in plane.lines if not derived[line]])
    every = every[np.argsort(trace.start[every], kind="stable")]
    begin, end = merge_sorted_spans(trace.start[every], trace.end[every])
    of = np.searchsorted(starts, begin[1:])  # the op that comes next after a gap
    gaps = np.zeros(len(starts), np.int64)
    inside = of < len(starts)
    np.add.at(gaps, of[inside], (begin[1:] - end[:-1])[inside])
    return gaps


def build_graphs(run: Run) -> Table:
    """Return `GRAPHS`: one row per CUDA graph of a program, by the host's time."""
    rows = (row for timeline in run.hosts if timeline.device_planes for row in _graph_rows(timeline))
    return GRAPHS.build(rows).sort_by("host_ps")


def _graph_rows(timeline: Timeline) -> Iterator[Row]:
    trace = timeline.trace
    trace.load_stats((dialect.GRAPH_ID, dialect.CORRELATION_ID, dialect.HLO_OP, dialect.HLO_MODULE, dialect.PROGRAM_ID))
    op, module_name = trace.stat(dialect.HLO_OP), trace.stat(dialect.HLO_MODULE)
    kernels = trace.stat(dialect.GRAPH_ID).rows
    for stat in (op, module_name):
        kernels = kernels[intersect_indices(kernels, stat.rows)[0]]
    if not len(kernels):
        return
    graph, graphs = op.encode_texts(np.searchsorted(op.rows, kernels))
    name, names = module_name.encode_texts(np.searchsorted(module_name.rows, kernels))
    program, launch = (trace.stat(stat).take_ints(kernels) for stat in (dialect.PROGRAM_ID, dialect.CORRELATION_ID))
    commands = _GraphCommands(timeline)
    for number, code in dict.fromkeys(zip(program.tolist(), graph.tolist(), strict=True)):
        own = (program == number) & (graph == code)
        launches = distinct(launch[own])
        module = timeline.hlo_modules[number]
        update, host, patched = commands.sum_up(launches)
        yield GRAPHS.row(
            host=timeline.host,
            program=names[name[own][0]],
            graph=graphs[code],
            launches=len(launches),
            kernels=int(own.sum()) / len(launches),
            device_ps=round(float(trace.duration[kernels[own]].sum()) / len(launches)),
            host_ps=round(host / len(launches)),
            update_ps=round(update / len(launches)),
            patched=patched / len(launches),
            reason=_patch_reason(module) if patched else "",
        )


def _patch_reason(module: HloModule) -> str:
    """Return why XLA patches the graphs of a program, as far as the program tells."""
    if module.donated_bytes < module.argument_bytes:
        return "arguments that are not donated may lie elsewhere in each run"
    return "temporary arrays may lie elsewhere in each run"


class _GraphCommands:
    """The host's commands that launch graphs, and how long each updated its graph."""

    def __init__(self, timeline: Timeline) -> None:
        self._trace = trace = timeline.trace
        names = timeline.event_names
        command = names.mask(EventFlag.GRAPH_COMMAND)
        updates = names.rows(EventFlag.GRAPH_UPDATE)
        above = trace.parent[updates]
        self._updated: dict[int, int] = {}
        for row, time in zip(above.tolist(), trace.duration[updates].tolist(), strict=True):
            self._updated[row] = self._updated.get(row, 0) + time
        stat = trace.stat(dialect.CORRELATION_ID)
        calls = stat.rows[names.mask(EventFlag.GRAPH_LAUNCH)[trace.name[stat.rows]]]
        self._command_of: dict[int, int] = {}
        for row, launch in zip(calls.tolist(), stat.take_ints(calls).tolist(), strict=True):
            for _ in range(_DEEP):
                row = int(trace.parent[row])
                if row < 0 or command[trace.name[row]]:
                    break
            else:
                row = -1
            self._command_of[launch] = row

    def sum_up(self, launches: Indices) -> tuple[int, int, int]:
        """Return (time of updates, ps; time of the commands, ps; number of updates) of some
        launches.
        """
        rows = [row for launch in launches.tolist() if (row := self._command_of.get(launch, -1)) >= 0]
        updates = [self._updated[row] for row in rows if row in self._updated]
        return sum(updates), int(self._trace.duration[np.array(rows, np.int64)].sum()), len(updates)
