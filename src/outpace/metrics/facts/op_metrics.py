# SPDX-License-Identifier: Apache-2.0
"""Ops and their time: how often each framework op ran on the host and on devices, and for how long.

The meaning is that of `xplane_to_op_metrics_db.cc` of openxla/xprof: on the host, an op's self time
leaves out the ops nested in it on its thread (other events do not count as children, nor do copies,
which are the op's own work), and each thread is idle between its first and last op when it runs
none. Intended differences: a memory allocation that names the op that requested it is no execution
of that op (the reference counts it as one, of no duration); executions of device ops are counted by
`metrics/facts/op_executions.py`, without what the compiler ran; calls that start copies, which a
pool of threads makes and in which they wait for each other, share the moment, so that copies take
no longer than they do.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from outpace._caching import memoize
from outpace.metrics.facts.compiler_runs import compiler_run_rows
from outpace.metrics.facts.op_executions import LaunchingOps, count_executions, launching_ops
from outpace.model import Table, TableType
from outpace.model.arrays import Codes, Indices, Numbers, Picoseconds
from outpace.timeline import OpKind, Run, Timeline, parse_op
from outpace.timeline.command_buffers import compute_hlo_op_stat
from outpace.timeline.hlo.modules import load_hlo_ops
from outpace.trace import Plane, dialect
from outpace.trace.algorithms import (
    aggregate_by_key,
    compute_nesting,
    compute_union_length,
    distinct,
    divide_time,
    find_positions,
    intersect_indices,
)

HOST, DEVICE, IDLE = "Host", "Device", "IDLE"
# Stats with an op's name: today's dialect, TensorFlow 2.3/2.4, XLA programs.
_OP_STATS = (dialect.TF_OP, dialect.ANNOTATION, dialect.HLO_OP)
_XLA = "XLA"  # part of the names of a device's lines whose events are ops, not kernels of ops
_PROGRAM = "XlaModule:"

OPS = TableType("ops", "Ops").columns("""
    * host       | text  | host that recorded the op
    * side       | text  | Host (threads) or Device (accelerators)
    * type       | text  | type of the op; IDLE for time without any op
    * name       | text  | full name of the op
      idle       | bool  | whether the row stands for idle time
    + count      | count | executions, on a device however many kernels each took | Occurrences
      total_ps   | ps    | time in the op, ops nested in it included
    + self_ps    | ps    | time in the op itself
    + outside_ps | ps    | of the device time, in ops outside an XLA program on a device that runs such programs | Outside XLA
""")

_Sums = dict[tuple[str, str], list[int]]  # by type and name of op: count, total, self and outside time


@memoize
def op_metrics(run: Run) -> Table:
    """Return a table with one row per host, side and op, by self time, longest first.

    The columns are `OPS`. Each host and side has an `IDLE` row as well.
    """
    sums = {
        (timeline.host, side, *op): numbers
        for timeline in run.hosts
        for side, ops in ((HOST, _host_sums(timeline)), (DEVICE, _device_sums(timeline)))
        for op, numbers in ops.items()
    }
    host, side, kind, name = ([key[part] for key in sums] for part in range(4))
    numbers = np.array(list(sums.values()), np.int64).reshape(-1, 4).T
    columns = dict(zip(("count", "total_ps", "self_ps", "outside_ps"), numbers, strict=True))
    named = {"host": host, "side": side, "type": kind, "name": name, "idle": [op == IDLE for op in name]}
    return OPS.from_columns({**named, **columns}).sort_by("self_ps")


def host_ops(timeline: Timeline) -> tuple[Indices, Picoseconds, Picoseconds]:
    """Return (event rows, time without nested ops, self time) of the ops on a host's threads, int64
    ps.

    Copies belong to an op's self time. Copies that threads start at the same moment share the time.
    """
    trace = timeline.trace
    is_op = timeline.op_kind_mask(OpKind.TENSORFLOW, OpKind.TF_DATA, OpKind.JAX, OpKind.COPY)
    rows = np.concatenate(
        [np.zeros(0, np.int64), *(trace.find_rows_by_mask(is_op, trace.rows_of(p)) for p in timeline.host_planes)]
    )
    _, alone = trace.compute_nesting(rows)
    framework = ~timeline.op_kind_mask(OpKind.COPY)[trace.name[rows]]
    if framework.all():
        return rows, alone, alone
    self_ps = alone.copy()
    _, self_ps[framework] = trace.compute_nesting(rows[framework])
    copies = rows[~framework]
    start, end, parent = trace.start[copies], trace.end[copies], find_positions(copies, trace.compute_nesting(copies)[0])
    self_ps[~framework] = np.rint(divide_time(start, end, parent, np.zeros(len(copies), bool))[0]).astype(np.int64)
    return rows, alone, self_ps


def line_ops(timeline: Timeline, line: int) -> tuple[Picoseconds, Codes, list[str]]:
    """Return (self time in ps, index of the op, full names of ops) of the events of a device's
    line.
    """
    trace = timeline.trace
    rows = trace.lines.row_slice(line)
    start, duration = trace.start[rows], trace.duration[rows]
    _, self_ps = compute_nesting(np.array([0, len(start)]), start, duration)
    code, texts = device_op_names(timeline, np.arange(rows.start, rows.stop))
    key = np.where(code == 0, len(texts) + trace.name[rows].astype(np.int64), code)
    names = distinct(key)
    full = [texts[name] if name < len(texts) else trace.names[name - len(texts)] for name in names.tolist()]
    return self_ps, np.searchsorted(names, key), full


def _host_sums(timeline: Timeline) -> _Sums:
    trace = timeline.trace
    rows, _, self_time = host_ops(timeline)
    if not len(rows):
        return {}
    copies = timeline.op_kind_mask(OpKind.COPY)[trace.name[rows]]
    lasts = np.where(copies, self_time, trace.duration[rows])
    count, total, self_ps, _, _ = aggregate_by_key(trace.name[rows], len(trace.names), lasts, self_time)
    merged: _Sums = {}
    for name in np.flatnonzero(count).tolist():
        op = timeline.ops[name]
        numbers = (int(count[name]), int(total[name]), int(self_ps[name]), 0)
        sums = merged.setdefault((op.type, op.name), [0, 0, 0, 0])
        sums[:] = [a + b for a, b in zip(sums, numbers, strict=True)]
    idle = _threads_idle(timeline, rows)
    return {**merged, (IDLE, IDLE): [0, idle, idle, 0]}


def _threads_idle(timeline: Timeline, rows: Indices) -> int:
    """Return the time without any of these ops, from first start to last end, summed over threads,
    ps.
    """
    trace, total = timeline.trace, 0
    start, end, line = trace.start[rows], trace.end[rows], trace.line[rows]
    for low, high in pairwise((0, *(np.flatnonzero(np.diff(line)) + 1).tolist(), len(rows))):
        first, last = int(start[low]), int(end[low:high].max())
        covered, _ = compute_union_length(start[low:high], end[low:high], first, last)
        total += last - first - covered
    return total


def _device_sums(timeline: Timeline) -> _Sums:
    trace = timeline.trace
    if not timeline.device_planes:
        return {}
    trace.load_stats(_OP_STATS)
    merged: _Sums = {}
    idle = 0
    launched = launching_ops(timeline)
    for plane in timeline.device_planes:
        programs = any(trace.lines.names[line] == "XLA Modules" for line in plane.lines)
        for line in timeline.device_lines(plane):
            _add_line(timeline, line, merged, launched, programs=programs)
        idle += _device_idle(timeline, plane)
    return {**merged, (IDLE, IDLE): [0, idle, idle, 0]}


def _add_line(timeline: Timeline, line: int, merged: _Sums, launched: LaunchingOps, *, programs: bool) -> None:
    """Add the ops of a device's line to `merged`.

    programs: whether the device runs XLA programs; an op may then be outside of them
    """
    trace = timeline.trace
    rows = trace.lines.row_slice(line)
    duration = trace.duration[rows]
    self_time, key, names = line_ops(timeline, line)
    counted = (duration > 0) & (find_positions(compiler_run_rows(timeline), np.arange(rows.start, rows.stop)) < 0)
    count, total, self_ps, _, _ = aggregate_by_key(key, len(names), duration, self_time, counted)
    if _XLA not in trace.lines.names[line]:
        count = _executions(timeline, np.flatnonzero(counted) + rows.start, key[counted], len(names), launched)
    outside = np.zeros(len(names), np.int64)
    if programs and _XLA not in trace.lines.names[line]:
        counted[_stat_rows(timeline, "hlo_op", rows) - rows.start] = False
        _, _, outside, _, _ = aggregate_by_key(key, len(names), duration, self_time, counted)
    for index in np.flatnonzero(count).tolist():
        numbers = (int(count[index]), int(total[index]), int(self_ps[index]), int(outside[index]))
        sums = merged.setdefault(parse_device_op(names[index]), [0, 0, 0, 0])
        sums[:] = [a + b for a, b in zip(sums, numbers, strict=True)]


def _executions(timeline: Timeline, rows: Indices, key: Codes, keys: int, launched: LaunchingOps) -> Numbers:
    """Return how often each op ran.

    Two instructions of a program that come from one op are two executions of it.
    """
    instruction, _ = load_hlo_ops(timeline, rows)
    begun = count_executions(timeline, rows, key * (int(instruction.max(initial=0)) + 1) + instruction, launched)
    return np.bincount(key, begun, keys).astype(np.int64)


def _stat_rows(timeline: Timeline, name: str, rows: slice) -> Indices:
    column = timeline.trace.stat(name).rows
    low, high = np.searchsorted(column, np.array([rows.start, rows.stop], column.dtype))
    return np.asarray(column[low:high])


def device_op_names(timeline: Timeline, rows: Indices) -> tuple[Codes, list[str]]:
    """Return (index into the texts per event, int64; distinct texts): full op names of device
    events.

    rows: event rows, sorted

    The names come from the events' stats, or from the stats of their event names; text 0 is "", for
    events that name no op. A program that XLA compiled names itself (`XlaModule`) as the op: its
    kernels are named after the framework op of their instruction in the profile's program, else
    after the `name` in their annotation, else after the instruction.
    """
    trace = timeline.trace
    code_of = {"": 0}
    name_code = np.zeros(len(trace.names), np.int64)
    for name, stats in trace.name_stats.items():
        if text := str(stats.get(dialect.TF_OP) or stats.get(dialect.HLO_OP) or ""):
            name_code[name] = code_of.setdefault(text, len(code_of))
    code = name_code[trace.name[rows]]
    for stat_name in reversed(_OP_STATS):  # the first stat of the list takes precedence, and is applied last
        _apply_stat(timeline, rows, stat_name, code, code_of)
    programs = np.fromiter((t.startswith(_PROGRAM) for t in code_of), bool, len(code_of))
    inside = np.flatnonzero(programs[code])
    if len(inside):
        inner_code = code[inside]
        for stat_name in (dialect.HLO_OP, dialect.NAME):
            _apply_stat(timeline, rows[inside], stat_name, inner_code, code_of)
        _apply_programs(timeline, rows[inside], inner_code, code_of)
        code[inside] = inner_code
    return code, list(code_of)


def _apply_stat(timeline: Timeline, rows: Indices, stat_name: str, code: Codes, code_of: dict[str, int]) -> None:
    """Write the code of each non-empty text of a stat into `code`."""
    stat = compute_hlo_op_stat(timeline) if stat_name == dialect.HLO_OP else timeline.trace.stat(stat_name)
    at, place = intersect_indices(rows, stat.rows)
    text_code, texts = stat.encode_texts(place)
    index = np.fromiter((code_of.setdefault(t, len(code_of)) for t in texts), np.int64, len(texts))[text_code]
    code[at] = np.where(index > 0, index, code[at])


def _apply_programs(timeline: Timeline, rows: Indices, code: Codes, code_of: dict[str, int]) -> None:
    number, ops = load_hlo_ops(timeline, rows)
    index = np.fromiter((code_of.setdefault(op.framework_op, len(code_of)) for op in ops), np.int64, len(ops))[number]
    code[:] = np.where(index > 0, index, code)


def parse_device_op(full_name: str) -> tuple[str, str]:
    """Return (type, name) of a device op; an annotation's tail `#key=value,..#` is not part of the
    name.
    """
    if full_name.startswith("%") and " = " in full_name:
        # The text of an HLO instruction: `%copy-done.2 = f32[5]{0} copy-done(..)`.
        name = full_name[1:].split(" = ", 1)[0]
        return name.rstrip("0123456789").removesuffix("."), name
    op = parse_op(full_name.split("#", 1)[0].rstrip())
    return op.type or op.name.rsplit("/", 1)[-1], op.name


def _device_idle(timeline: Timeline, plane: Plane) -> int:
    """Return the time between a device's first and last event in which no stream was busy, ps."""
    trace = timeline.trace
    lines = [trace.lines.row_numbers(i) for i in timeline.device_lines(plane)]
    rows = np.concatenate([np.zeros(0, np.int64), *lines])
    if len(rows) == 0:
        return 0
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    first, last = int(trace.start[rows[0]]), int(trace.end[rows].max())
    covered, _ = compute_union_length(trace.start[rows], trace.end[rows], first, last)
    return last - first - covered
