# SPDX-License-Identifier: Apache-2.0
"""The source lines of a JAX program that its compiled ops' time comes from: forward and backward
pass together, per step of the steady state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.metrics.facts.device_event_kinds import tpu_op
from outpace.metrics.facts.device_work import device_work
from outpace.metrics.facts.op_executions import count_executions, launching_ops
from outpace.metrics.facts.roofs import NO_ROOF, Bound, Roof, device_roofs, host_roofs, op_roof
from outpace.model import Row, Table, TableType
from outpace.model.arrays import Codes, Indices, Mask, Numbers, Picoseconds, Values
from outpace.timeline import Run, Timeline
from outpace.timeline.hlo.cost import Cost
from outpace.timeline.hlo.modules import find_op_lines, load_hlo_ops
from outpace.timeline.hlo.ops import HloOp
from outpace.timeline.work_kinds import classify_work
from outpace.timeline.xla_threads import Continuations, find_continuations, find_hlo_events, host_mask
from outpace.trace import Value, dialect
from outpace.trace.algorithms import distinct, find_positions, intersect_indices

_WRAPPER = compile_lazily(r"(?:jvp|transpose|vmap|remat|checkpoint|custom_jvp|custom_vjp|linearize)\((.*)\)")
DEVICE_SIDE, CPU_SIDE = "device", "CPU"
_PS = 1e12  # picoseconds in a second
_FUSION = "fusion"  # an op type that does not identify the work
_MOSTLY, _NEARLY_ALL = 0.5, 0.9  # shares of the time of all programs

HLO_LINES = TableType("hlo_lines", "Compiled ops by source line").columns("""
    * host        | text     | host that ran the ops
    * side        | text     | device (accelerators), or CPU (XLA's threads on the host)
    * op          | text     | framework op, without what differentiation wraps around it: jit(step)/dot_general; in brackets, \
                               an opcode that the compiler added
    * product     | text     | what it multiplies, whatever it is called after: dot, convolution or attention; empty for all others
      opcode      | text     | HLO opcode that took most of the time
    * source      | text     | innermost line of the program's own code that the op comes from; empty where the program holds none
    + time_ps     | ps       | self time per step of the steady state and device; in the whole capture where no step is known \
                               | Per step
      share       | fraction | the same as a share of the step; of ops that run side by side on a CPU, each has its part of the moment \
                               | Of step
    + backward_ps | ps       | of it, in the backward pass | Backward
    + loop_ps     | ps       | of it, in loops: their bodies, and what runs them | In loops
    + count       | count    | executions in these steps | Count
      bits        | count    | 16, 32 or 64: what most of the time computes in; 0 where that is not known
      flops       | ratio    | floating-point operations per step and device, by its shapes; empty where unknown | FLOPs
      bytes       | bytes    | bytes that it reads and writes per step and device; empty where unknown
      flops_per_s | ratio    | floating-point operations per second while it ran, by its shapes; empty where unknown | FLOP/s
      description | text     | what most of the time computes: sizes, groups, lengths; empty where the opcode says it all
      bound       | text     | what bounds most of the time: compute, memory, cache, start (of kernels), transfer, neither (less \
                               than 30% of both roofs: it could be faster) or unknown
      of_roof     | fraction | least time that the device needs for its operations and bytes, as a share of the time; empty where \
                               unknown | Of roof
    + above_ps    | ps       | time above the roof per step and device | Above roof
""")


@memoize
def hlo_source_lines(run: Run) -> Table:
    """Return a table with one row per host, side, framework op and source line, longest first.

    The columns are `HLO_LINES`. The table is empty for a profile without HLO ops.
    """
    return HLO_LINES.build(row for host, ran in instruction_stats(run).items() for row in _rows(host, ran)).sort_by("time_ps")


def short_op_name(op_name: str, product: str) -> str:
    """Return a short name of an op for a sentence: the last part of its framework name.

    Return the product instead where the op computes one, and its name is only that of the form in
    which it passes the result on (`transpose`).
    """
    return product if product and classify_work(_FUSION, op_name) is not classify_work(product) else op_name.rpartition("/")[2]


def strip_transforms(framework_op: str) -> tuple[str, bool]:
    """Return (the framework op without JAX's transformations, whether it is in the backward pass).

    `jit(f)/transpose(jvp(layer))/dot_general` is `jit(f)/layer/dot_general`, backward.
    """
    parts = _split(framework_op.partition(";")[0])  # the first name of an op that merges several
    return "/".join(filter(None, map(_unwrap, parts))), any(p.startswith("transpose(") for p in parts)


def _split(name: str) -> list[str]:
    """Return the parts of a name between slashes; a slash inside brackets does not separate."""
    parts, depth = [""], 0
    for letter in name:
        depth += (letter == "(") - (letter == ")")
        if letter == "/" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _unwrap(part: str) -> str:
    while match := _WRAPPER.fullmatch(part):
        part = match[1]
    return part


@dataclass(frozen=True)
class InstructionStats:
    """How an HLO instruction ran on one side in the steady state.

    side: `DEVICE_SIDE` or `CPU_SIDE`
    op: the instruction
    time_ps: self time per step and device, ps
    share: share of the step; of ops that run side by side on a CPU, each has its part of the moment
    count: executions that began in all steady steps
    device_steps: number of steady steps times number of devices
    full_ps: total time of these executions, including the part after their step's end, ps; None
        where no part lies there
    roof: how near they came to what the device can do, or all cores of the CPU
    shared_ps: total time of these executions, of moments on a CPU their parts, ps; None where that
        is `executed_ps`
    """

    side: str
    op: HloOp
    time_ps: float
    share: float
    count: int
    device_steps: int
    full_ps: float | None = None
    roof: Roof = NO_ROOF
    shared_ps: float | None = None

    @property
    def executed_ps(self) -> float:
        """Total time of its executions, ps."""
        return self.time_ps * self.device_steps if self.full_ps is None else self.full_ps

    @property
    def above_ps(self) -> float:
        """Time above the roof per step and device, ps, as a part of `time_ps`; 0 where it is
        unknown.
        """
        whole = self.executed_ps if self.shared_ps is None else self.shared_ps
        return self.time_ps * self.roof.above_ps / whole if whole else 0.0

    @property
    def above_share(self) -> float:
        """Time above the roof as a share of the step; 0 where it is unknown."""
        return self.share * self.above_ps / self.time_ps if self.time_ps else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Memory traffic while it ran, bytes per second; 0 where it is unknown."""
        return self.op.cost.bytes * self.count / self.executed_ps * _PS if self.executed_ps else 0.0

    @property
    def flops_per_s(self) -> float:
        """Floating-point operations per second while it ran; 0 where they are unknown."""
        return self.op.cost.flops * self.count / self.executed_ps * _PS if self.executed_ps else 0.0


@memoize
def instruction_stats(run: Run) -> dict[str, tuple[InstructionStats, ...]]:
    """Return the HLO instructions that ran, by host."""
    return {timeline.host: tuple(_host_stats(timeline, run.record(timeline.host))) for timeline in run.hosts}


def _host_stats(timeline: Timeline, record: Mapping[str, Any]) -> Iterator[InstructionStats]:
    devices: dict[str, set[int]] = {CPU_SIDE: set(), DEVICE_SIDE: set()}
    steady, steps, length = _steady(timeline)
    devices_roofs = device_roofs(timeline.device_planes[0]) if timeline.device_planes else None
    roofs = {DEVICE_SIDE: devices_roofs, CPU_SIDE: host_roofs(record)}
    totals: list[tuple[str, HloOp, float, int, float, float]] = []
    for side, rows, index, ops, begun in iter_hlo_events(timeline):
        self_ps, begins = _self_times(timeline, side, rows, steady)
        whole = timeline.trace.compute_nesting(rows)[1]
        if side == CPU_SIDE:
            later = find_continuations(timeline.trace).of_rows(rows[np.array([op.has_known_end for op in ops])[index]])
            self_ps, whole = self_ps + later.lengths(rows) * begins, whole + later.lengths(rows)
        part = divide_op_times(timeline, rows, later) if side == CPU_SIDE else whole
        devices[side].update(_devices(timeline, side, rows[self_ps > 0]).tolist())
        sums = (np.bincount(index, values, len(ops)) for values in (self_ps, begun * begins, whole * begins, part * begins))
        totals += [
            (side, op, float(time), int(count), float(full), float(divided))
            for op, time, count, full, divided in zip(ops, *sums, strict=True)
            if time or count
        ]
    for side, op, time, count, full, divided in totals:
        of = max(len(devices[side]), 1)
        # The devices that a CPU is divided into share its cores; accelerators do not.
        own = divided / length if side == CPU_SIDE and steps else time / (length * of) if length else float("nan")
        limits = roofs[side]
        roof = op_roof(op, count, divided, limits) if limits is not None else NO_ROOF
        yield InstructionStats(side, op, time / (max(steps, 1) * of), own, count, max(steps, 1) * of, full, roof, divided)


def divide_op_times(timeline: Timeline, rows: Indices, later: Continuations) -> Values:
    """Return the time of the op of each event, ps, where each moment is divided among the ops that
    run in it. `later`: what ops did after their events.
    """
    trace = timeline.trace
    parent = find_positions(rows, trace.compute_nesting(rows)[0])
    placed = replace(later, row=np.searchsorted(rows, later.row))
    return placed.divide_time(trace.start[rows], trace.end[rows], parent, np.zeros(len(rows), bool))[0]


def _self_times(timeline: Timeline, side: str, rows: Indices, steady: Mask) -> tuple[Picoseconds, Mask]:
    """Return (self time in the steady steps in ps, whether it begins in one) of each event.

    Where no step is known, all of an event counts.
    """
    self_ps = timeline.trace.compute_nesting(rows)[1]
    if not len(timeline.steps):
        return self_ps, np.ones(len(rows), bool)
    if side == DEVICE_SIDE:
        return device_work(timeline).sum_by_row(rows, steady)
    in_steady = steady[timeline.step_index[rows]]
    return np.where(in_steady, self_ps, 0), in_steady


@memoize
def attention_ops(run: Run) -> frozenset[tuple[str, str, str]]:
    """Return (host, op, source) of the devices' rows of `hlo_source_lines` that are mostly
    attention.

    An instruction belongs to an attention by the structure of its program.
    """
    sums: dict[tuple[str, str, str], float] = {}
    for host, ran in instruction_stats(run).items():
        for instruction in (r for r in ran if r.side == DEVICE_SIDE):
            name = strip_transforms(instruction.op.framework_op)[0] or f"({instruction.op.opcode})"
            key = (host, name, instruction.op.source)
            sums[key] = sums.get(key, 0.0) + (instruction.time_ps if instruction.op.is_attention else -instruction.time_ps)
    return frozenset(key for key, more in sums.items() if more > 0)


@memoize
def busy_module_counts(run: Run) -> dict[str, int]:
    """Return how many programs per step take most of the devices' time in compiled ops, by host.

    The count is 1 where a single program takes at least half of the time, else the number of
    programs that take nine tenths; 0 where no kernel names its program.
    """
    return {timeline.host: _programs_of(timeline) for timeline in run.hosts if timeline.device_planes}


def has_one_module(run: Run) -> bool:
    """Whether one compiled program takes most of the time of each host's devices.

    This is False where no kernel names its program.
    """
    return set(busy_module_counts(run).values()) == {1}


def _programs_of(timeline: Timeline) -> int:
    trace, (steady, steps, _) = timeline.trace, _steady(timeline)
    rows = find_hlo_events(trace)
    rows = rows[~host_mask(trace, rows)]
    rows = rows[steady[timeline.step_index[rows]]] if steps else rows[:0]
    program, launch = trace.stat(dialect.PROGRAM_ID), trace.stat(dialect.CORRELATION_ID)
    rows = rows[intersect_indices(rows, program.rows)[0]]
    rows = rows[intersect_indices(rows, launch.rows)[0]]
    if len(rows) == 0:
        return 0
    number = program.uints[intersect_indices(rows, program.rows)[1]]
    index = np.unique(number, return_inverse=True)[1]
    time = np.sort(np.bincount(index, trace.duration[rows]))[::-1]
    return 1 if time[0] >= _MOSTLY * time.sum() else int(np.searchsorted(np.cumsum(time), _NEARLY_ALL * time.sum())) + 1


def _rows(host: str, ran: tuple[InstructionStats, ...]) -> Iterator[Row]:
    sums: dict[tuple[str, str, str, str], _Sums] = {}
    for instruction in ran:
        name, backward = strip_transforms(instruction.op.framework_op)
        key = (instruction.side, name or f"({instruction.op.opcode})", instruction.op.product, instruction.op.source)
        sums.setdefault(key, _Sums()).add(instruction, backward)
    for (side, name, product, source), total in sums.items():
        yield HLO_LINES.row(total, host=host, side=side, op=name, product=product, source=source)


def _devices(timeline: Timeline, side: str, rows: Indices) -> Numbers:
    """Return the numbers of the devices that ran ops.

    A device is a plane, or a part into which a CPU is divided (jax_num_cpu_devices, pmap).
    """
    trace = timeline.trace
    if side == DEVICE_SIDE:
        return distinct(trace.lines.plane[trace.line[rows]].astype(np.int64))
    ordinal = trace.stat(dialect.DEVICE_ORDINAL)
    return distinct(ordinal.ints[intersect_indices(rows, ordinal.rows)[1]])


def _steady(timeline: Timeline) -> tuple[Mask, int, float]:
    """Return (whether each step is steady, the number of steady steps, their total length in ps).

    The mask has one more entry, False, for the index -1 of events outside of steps.
    """
    whole = timeline.steps.steady_rows
    of = np.zeros(len(timeline.steps) + 1, bool)
    of[whole] = True
    return of, len(whole), float(timeline.steps.duration[whole].sum())


class _Sums:
    """Running sums of one source line and op."""

    def __init__(self) -> None:
        self.time_ps = self.share = self.backward_ps = self.loop_ps = self.whole = 0.0
        self._flops = self._step_flops = self._step_bytes = 0.0
        self._is_known = True
        self.count = 0
        self.above_ps = self._roof_ps = 0.0
        self._bounds: dict[Bound, float] = {}
        self._descriptions: dict[str, float] = {}
        self._opcodes: dict[str, float] = {}
        self._bits: dict[int, float] = {}

    def add(self, ran: InstructionStats, backward: bool) -> None:
        """Add one instruction."""
        self.time_ps += ran.time_ps
        self.share += ran.share
        self.backward_ps += ran.time_ps * backward
        self.loop_ps += ran.time_ps * (ran.op.is_in_loop or ran.op.opcode == "while" or "/while/" in ran.op.framework_op)
        self.count += ran.count
        self._flops += ran.op.cost.flops * ran.count
        self._step_flops += ran.op.cost.flops * ran.count / ran.device_steps
        self._step_bytes += ran.op.cost.bytes * ran.count / ran.device_steps
        self._is_known &= ran.op.cost.is_complete
        self.whole += ran.executed_ps
        self._opcodes[ran.op.opcode] = self._opcodes.get(ran.op.opcode, 0.0) + ran.time_ps
        self.above_ps += ran.above_ps
        self._roof_ps += ran.roof.share * ran.time_ps
        self._bounds[ran.roof.bound] = self._bounds.get(ran.roof.bound, 0.0) + ran.time_ps
        self._descriptions[ran.op.description] = self._descriptions.get(ran.op.description, 0.0) + ran.time_ps
        self._bits[ran.op.precision_bits] = self._bits.get(ran.op.precision_bits, 0.0) + ran.time_ps

    @property
    def flops_per_s(self) -> float:
        """Floating-point operations per second; NaN where no instruction has any."""
        return self._flops / self.whole * _PS if self._flops and self.whole else float("nan")

    @property
    def flops(self) -> float:
        """Floating-point operations per step and device; NaN where those of an instruction are not
        known.
        """
        return self._step_flops if self._is_known else float("nan")

    @property
    def bytes(self) -> float:
        """Memory traffic per step and device, bytes; NaN where that of an instruction is not
        known.
        """
        return self._step_bytes if self._is_known else float("nan")

    @property
    def bound(self) -> str:
        """What bounds most of the time."""
        return max(self._bounds, key=self._bounds.__getitem__).value

    @property
    def of_roof(self) -> float:
        """Least possible time as a share of the time; NaN where no instruction's roof is known."""
        return self._roof_ps / self.time_ps if self._roof_ps and self.time_ps else float("nan")

    @property
    def description(self) -> str:
        """What most of the time computes, in words."""
        return max(self._descriptions, key=self._descriptions.__getitem__)

    @property
    def opcode(self) -> str:
        """Return the opcode and the precision in bits with the most time."""
        return max(self._opcodes, key=self._opcodes.__getitem__)

    @property
    def bits(self) -> int:
        """Precision that took the most time."""
        return max(self._bits, key=self._bits.__getitem__)


# Side, event rows, index of each event's op, ops, number of executions that begin with each event.
HloEvents = tuple[str, Indices, Codes, list[HloOp], Numbers]


def iter_hlo_events(timeline: Timeline) -> Iterator[HloEvents]:
    """Yield the events of HLO ops (`HloEvents`), by side and line.

    On the lines of kernels and worker threads, an event names its op; on a line of XLA ops, each
    event is an op.
    """
    trace = timeline.trace
    rows = find_hlo_events(trace)
    if len(rows):
        host = host_mask(trace, rows)
        for side, op_rows in ((CPU_SIDE, rows[host]), (DEVICE_SIDE, rows[~host])):
            index, ops = load_hlo_ops(timeline, op_rows)
            yield (
                side,
                op_rows,
                index,
                ops,
                np.ones(len(op_rows), np.int64)
                if side == CPU_SIDE
                else count_executions(timeline, op_rows, index, launching_ops(timeline)),
            )
    for plane in timeline.device_planes:
        for line in find_op_lines(trace, plane):
            op_rows = trace.lines.row_numbers(line)
            names = list(dict.fromkeys(trace.name[op_rows].tolist()))
            place = np.zeros(len(trace.names), np.int64)
            place[names] = np.arange(len(names))
            yield (
                DEVICE_SIDE,
                op_rows,
                place[trace.name[op_rows]],
                [_tpu_op(timeline, n) for n in names],
                np.ones(len(op_rows), np.int64),
            )


def _tpu_op(timeline: Timeline, name: int) -> HloOp:
    """Return the HLO op of a TPU's event name: from its program, else from the stats of the name.

    Counters that the profile itself contains (FLOPs, bytes) take precedence.
    """
    op, stats = tpu_op(timeline, name), timeline.trace.name_stats.get(name, {})
    category, framework, source = (str(stats.get(key) or "") for key in (dialect.HLO_CATEGORY, dialect.TF_OP, dialect.SOURCE))
    return replace(
        op,
        cost=stated_cost(op, stats),
        opcode=op.opcode or category,
        framework_op=op.framework_op or framework.rstrip(":"),
        source=source or op.source,
    )


def stated_cost(op: HloOp, stats: Mapping[str, Value]) -> Cost:
    """Return an op's cost with the counters that the profile states for it. Where the profile lacks
    the program, all operations are taken for those of products.
    """
    flops = _positive_or(stats.get(dialect.FLOPS), op.cost.flops)
    is_product = op.has_product or not op.opcode
    moved = _positive_or(stats.get(dialect.BYTES_ACCESSED), op.cost.bytes)
    return Cost(flops, flops if is_product else 0.0, moved, op.cost.is_complete or flops > 0)


def _positive_or(value: Value, default: float) -> float:
    return float(value) if isinstance(value, (int, float)) and value > 0 else default
