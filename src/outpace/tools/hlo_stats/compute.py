# SPDX-License-Identifier: Apache-2.0
"""Tables of HLO ops, collected from device lines that list them, from kernels, and from host
threads that ran them.

Host calls that launch a kernel name the kernel's op as well; they run no op and are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.facts.compiler_runs import compiler_run_rows
from outpace.metrics.facts.hlo_instructions import divide_op_times, stated_cost
from outpace.metrics.facts.op_executions import count_executions, launching_ops
from outpace.metrics.facts.roofs import NO_ROOF, DeviceRoofs, Roof, device_roofs, host_roofs, op_roof, product_seconds
from outpace.model import Table
from outpace.model.arrays import Codes, Indices, Mask, Numbers, Picoseconds, Values
from outpace.timeline import Run, Timeline
from outpace.timeline.command_buffers import compute_hlo_op_stat
from outpace.timeline.hlo.modules import compute_device_times, find_op_lines, parse_program_id
from outpace.timeline.hlo.ops import AMD_LIBRARIES, HloOp
from outpace.timeline.hlo.transfers import COLLECTIVE
from outpace.timeline.xla_threads import find_continuations, find_hlo_events, host_mask
from outpace.tools.hlo_stats.schema import AUTOTUNING, CATEGORIES, OPS, PROGRAMS
from outpace.trace import Plane, StatColumn, Value, dialect
from outpace.trace.algorithms import distinct, find_positions, intersect_indices

if TYPE_CHECKING:
    from outpace.timeline.hlo.module import HloModule
    from outpace.tools.hlo_stats.program_runs import ProgramIdle

_FUSION = "fusion"  # end of the categories of fusions
_PRODUCTS = {"dot": "matrix product"}  # names of kinds of products
_Key = tuple[str, str, str, int, str]  # host, device, program, program id, op
_UNKNOWN = 0.03  # share of a program's time in calls of unknown arithmetic, from which its operations are not known
_WAITING = "data transfer (waiting)"
_WAITING_COLLECTIVE = "collective (waiting)"


@dataclass
class OpTotals:
    """Totals of one op, updated while events are added.

    category: category of the op
    framework_op: op of TensorFlow or JAX that it was compiled from; "" where unknown
    source: line of the program's own code; "" where unknown
    hlo_op: what its program, or the profile, states about it
    occurrences: number of executions
    total_ps, self_ps: summed duration and self time, ps
    shared_ps: as self time, but of a moment in which a CPU runs several ops each has a part, ps
    """

    category: str
    framework_op: str
    source: str
    hlo_op: HloOp
    occurrences: int = 0
    total_ps: int = 0
    self_ps: int = 0
    shared_ps: float = 0.0

    @property
    def description(self) -> str:
        """What it computes, in words."""
        return self.hlo_op.description

    @property
    def flops(self) -> float:
        """Operations of one execution; NaN where unknown."""
        return self.hlo_op.cost.flops if self.hlo_op.cost.is_complete else float("nan")

    @property
    def bytes(self) -> float:
        """Bytes that one execution reads and writes; NaN where unknown, and for what only starts a
        transfer.
        """
        return float("nan") if self.hlo_op.opcode.endswith("-start") else self.hlo_op.cost.bytes or float("nan")

    @property
    def mean_ps(self) -> float:
        """Mean self time of an execution, ps."""
        return self.self_ps / self.occurrences if self.occurrences else float("nan")

    @property
    def again(self) -> bool:
        """Whether it computes a part of the forward pass once more."""
        return self.hlo_op.is_repeat

    @property
    def flops_per_s(self) -> float:
        """Operations per second; NaN where unknown, or for an op that has none."""
        return self.flops * self.occurrences / self.shared_ps * 1e12 if self.flops and self.shared_ps else float("nan")

    @property
    def bytes_per_s(self) -> float:
        """Bytes per second; NaN where unknown."""
        return self.bytes * self.occurrences / self.shared_ps * 1e12 if self.shared_ps else float("nan")

    @property
    def intensity(self) -> float:
        """Operations per byte; NaN where unknown."""
        return self.flops / self.bytes


TotalsByOp = dict[_Key, OpTotals]


def collect_totals(run: Run) -> tuple[TotalsByOp, TotalsByOp]:
    """Return (totals of every HLO op by host, device and program; totals of the ops that the
    compiler ran for autotuning).
    """
    totals: TotalsByOp = {}
    tuned: TotalsByOp = {}
    for timeline in run.hosts:
        for plane in timeline.device_planes:
            _add_from_lines(timeline, plane, totals)
        rows = find_hlo_events(timeline.trace)
        of_compiler = find_positions(compiler_run_rows(timeline), rows) >= 0
        _add_from_stats(timeline, rows[~of_compiler], totals)
        _add_from_stats(timeline, rows[of_compiler], tuned)
    _name_amd_libraries(run, totals)
    return totals, tuned


def _name_amd_libraries(run: Run, totals: TotalsByOp) -> None:
    """Give the categories of library calls the names of AMD's libraries, for hosts with AMD's
    devices.
    """
    planes = ((timeline.host, plane) for timeline in run.hosts for plane in timeline.device_planes)
    hosts = {host for host, plane in planes if plane.stats.get(dialect.DEVICE_VENDOR) == "AMD"}
    for key, sums in totals.items():
        if key[0] in hosts and (name := AMD_LIBRARIES.get(sums.hlo_op.library)):
            sums.category = f"{name} {sums.hlo_op.operation}"


def _add_from_lines(timeline: Timeline, plane: Plane, totals: TotalsByOp) -> None:
    """Add the ops of a device with a line of XLA ops to `totals`.

    The name of each event is an instruction, and the stats of the name describe it.
    """
    trace = timeline.trace
    names = {parse_program_id(trace.names[n]): trace.names[n].partition("(")[0] for n in _module_names(timeline, plane)}
    device = plane.name.removeprefix(dialect.DEVICE_PREFIX)
    for line in find_op_lines(trace, plane):
        rows = trace.lines.row_numbers(line)
        duration, self_ps = compute_device_times(trace, rows)
        for name, places in _group_by_name(trace.name[rows]):
            stats = trace.name_stats.get(name, {})
            op = trace.display_names.get(name) or trace.names[name].lstrip("%").split(" = ")[0]
            program = _unsigned(stats.get(dialect.PROGRAM_ID))
            key = (timeline.host, device, names.get(program, ""), program, op)
            _add(
                totals,
                key,
                stats,
                timeline.hlo_modules.op(program, op),
                (len(places), duration[places], self_ps[places], self_ps[places]),
            )


def _group_by_name(name: Codes) -> Iterator[tuple[int, Indices]]:
    """Yield each distinct name with the positions of its events, in order of first occurrence."""
    names, first, code, count = np.unique(name, return_index=True, return_inverse=True, return_counts=True)
    places = np.split(np.argsort(code, kind="stable"), np.cumsum(count)[:-1])
    for at in np.argsort(first).tolist():
        yield int(names[at]), places[at]


def _module_names(timeline: Timeline, plane: Plane) -> list[int]:
    """Return the distinct names (numbers) on a plane's line of XLA modules."""
    trace = timeline.trace
    rows = [trace.lines.row_slice(i) for i in plane.lines if trace.lines.names[i] == "XLA Modules"]
    return list(dict.fromkeys(n for part in rows for n in trace.name[part].tolist()))


def _add_from_stats(timeline: Timeline, rows: Indices, totals: TotalsByOp) -> None:
    """Add the ops of kernels and host threads, whose events carry the op as a stat, to `totals`."""
    trace = timeline.trace
    trace.load_stats((dialect.HLO_OP, dialect.HLO_MODULE, dialect.PROGRAM_ID, dialect.TF_OP, dialect.CORRELATION_ID))
    op, module = compute_hlo_op_stat(timeline), trace.stat(dialect.HLO_MODULE)
    rows, _, at_module = np.intersect1d(rows, module.rows, assume_unique=True, return_indices=True)
    if len(rows) == 0:
        return
    at_op = np.searchsorted(op.rows, rows)
    program = trace.stat(dialect.PROGRAM_ID).take_ints(rows)
    device, devices = _devices(timeline, rows)
    (name, names), (instruction, instructions) = module.encode_texts(at_module), op.encode_texts(at_op)
    programs = distinct(program)
    group = (device * len(names) + name) * len(programs) + np.searchsorted(programs, program)
    group = group * len(instructions) + instruction
    begun = _execution_counts(timeline, rows, group)
    groups = [places for _, places in _group_by_name(group)]
    framework = _framework(trace.stat(dialect.TF_OP), np.sort(rows[[places[0] for places in groups]]))
    firsts = [int(places[0]) for places in groups]
    ops = [timeline.hlo_modules.op(int(program[at]), instructions[instruction[at]]) for at in firsts]
    ended = np.zeros(len(rows), bool)
    for places, hlo_op in zip(groups, ops, strict=True):
        ended[places] = hlo_op.has_known_end
    duration, self_ps, shared_ps = _op_times(timeline, rows, ended)
    for at, places, hlo_op in zip(firsts, groups, ops, strict=True):
        key = (timeline.host, devices[device[at]], names[name[at]], int(program[at]), instructions[instruction[at]])
        stats: dict[str, Value] = {"tf_op": framework.get(int(rows[at]), "")}
        times = (int(begun[places].sum()), duration[places], self_ps[places], shared_ps[places])
        _add(totals, key, stats, hlo_op, times)


def _op_times(timeline: Timeline, rows: Indices, ended: Mask) -> tuple[Picoseconds, Picoseconds, Values]:
    """Return (durations, self times, shared times in ps) of events of ops. `ended`: whether it is
    known when the op of each event ended.
    """
    trace = timeline.trace
    later = find_continuations(trace).of_rows(rows[ended])
    lengths = later.lengths(rows)
    self_ps = trace.compute_nesting(rows)[1] + lengths
    shared_ps = self_ps.astype(np.float64)
    on_host = host_mask(trace, rows)
    if on_host.any():
        shared_ps[on_host] = divide_op_times(timeline, rows[on_host], later)
    return trace.duration[rows] + lengths, self_ps, shared_ps


def _framework(stat: StatColumn, rows: Indices) -> dict[int, str]:
    """Return a stat's text by event row, for those of the sorted `rows` that have the stat."""
    at, place = intersect_indices(rows, stat.rows)
    code, texts = stat.encode_texts(place)
    return {row: texts[i] for row, i in zip(rows[at].tolist(), code.tolist(), strict=True)}


def _devices(timeline: Timeline, rows: Indices) -> tuple[Codes, list[str]]:
    """Return (index of each event's device, names of devices); CPU for events of the host."""
    trace = timeline.trace
    names = [
        p.name.removeprefix(dialect.DEVICE_PREFIX) if p.name.startswith(dialect.DEVICE_PREFIX) else "CPU" for p in trace.planes
    ]
    devices = list(dict.fromkeys(names))
    index = np.array([devices.index(name) for name in names], np.int64)
    return index[trace.lines.plane[trace.line[rows]]], devices


def _execution_counts(timeline: Timeline, rows: Indices, key: Codes) -> Numbers:
    """Return how many executions begin with each event, int64. `key`: number of each event's op.

    Several consecutive kernels may be one execution of an op; on host threads one event is one
    execution.
    """
    begun = np.ones(len(rows), np.int64)
    trace = timeline.trace
    on_device = np.fromiter((p.name.startswith(dialect.DEVICE_PREFIX) for p in trace.planes), bool, len(trace.planes))
    kernels = np.flatnonzero(on_device[trace.lines.plane[trace.line[rows]]])
    begun[kernels] = count_executions(timeline, rows[kernels], key[kernels], launching_ops(timeline))
    return begun


def _add(
    totals: TotalsByOp,
    key: _Key,
    stats: dict[str, Value],
    op: HloOp,
    times: tuple[int, Picoseconds, Picoseconds, Picoseconds | Values],
) -> None:
    """Add executions of an op to its totals.

    times: (number of executions, durations, self times, shared times in ps)
    """
    framework = op.framework_op or str(stats.get(dialect.TF_OP) or "").rstrip(":")
    source = str(stats.get(dialect.SOURCE) or op.source)
    category = _category(str(stats.get(dialect.HLO_CATEGORY) or op.opcode or "unknown"), op)
    sums = totals.setdefault(key, OpTotals(category, framework, source, replace(op, cost=stated_cost(op, stats))))
    count, duration, self_ps, shared_ps = times
    sums.occurrences += count
    sums.total_ps += int(duration.sum())
    sums.self_ps += int(self_ps.sum())
    sums.shared_ps += float(shared_ps.sum())


def _category(category: str, op: HloOp) -> str:
    """Return an op's category: that of a library's call is the library with its operation, and the
    end of an asynchronous op counts as waiting for it.
    """
    if op.library:
        return f"{op.library} {op.operation}"
    if op.product and category.endswith(_FUSION):
        return f"{category} with a {_PRODUCTS.get(op.product, op.product)}"
    if not op.transfer and not category.endswith("-done"):
        return category
    collective = (op.transfer or _collective(category)) == COLLECTIVE
    return _WAITING_COLLECTIVE if collective else _WAITING


def _collective(category: str) -> str:
    """Return `COLLECTIVE` where the category is one of a collective op, else ""."""
    return COLLECTIVE if category.startswith(("all-", "reduce-scatter", "collective", "ragged-all")) else ""


def _unsigned(value: Value) -> int:
    """Return a program id as an unsigned 64-bit number; -1 where it is no integer."""
    return int(value) & (2**64 - 1) if isinstance(value, int) else -1


def _device_roofs(run: Run) -> dict[tuple[str, str], DeviceRoofs]:
    """Return what each device can do, and each CPU that was measured, by host and device."""
    planes = ((timeline.host, plane) for timeline in run.hosts for plane in timeline.device_planes)
    devices = {(host, plane.name.removeprefix(dialect.DEVICE_PREFIX)): device_roofs(plane) for host, plane in planes}
    cpus = {(timeline.host, "CPU"): host_roofs(run.record(timeline.host)) for timeline in run.hosts}
    return devices | {place: roofs for place, roofs in cpus.items() if roofs is not None}


def _roof(totals: OpTotals, roofs: DeviceRoofs | None) -> Roof:
    """Return the roof of an op's executions; `NO_ROOF` where none is known."""
    return op_roof(totals.hlo_op, totals.occurrences, totals.shared_ps, roofs) if roofs is not None else NO_ROOF


def compute_ops(totals: TotalsByOp, run: Run) -> Table:
    """Return `OPS`: one row per op, by self time."""
    roofs = _device_roofs(run)
    order = sorted(totals.items(), key=lambda item: -item[1].self_ps)
    whole = sum(op_totals.self_ps for op_totals in totals.values()) or 1
    rows, running = [], 0
    for rank, ((host, device, program, _, op), op_totals) in enumerate(order, 1):
        running += op_totals.self_ps
        roof = _roof(op_totals, roofs.get((host, device)))
        row = OPS.row(
            op_totals,
            rank=rank,
            host=host,
            device=device,
            program=program,
            op=op,
            fraction=op_totals.self_ps / whole,
            cumulative=running / whole,
            bound=roof.bound.value,
            of_roof=roof.share or float("nan"),
            above_ps=roof.above_ps,
        )
        rows.append(row)
    return OPS.build(rows)


def compute_programs(totals: TotalsByOp, run: Run) -> Table:
    """Return `PROGRAMS`: one row per program, by the self time of its ops."""
    programs: dict[tuple[str, str, int], dict[_Key, OpTotals]] = {}
    for key, op_totals in totals.items():
        host, _, program, number, _ = key
        programs.setdefault((host, program, number), {})[key] = op_totals
    whole, roofs = sum(op_totals.self_ps for op_totals in totals.values()) or 1, _device_roofs(run)
    around = _find_idle(run) if run.has_device else {}
    rows = []
    for (host, program, number), ops in programs.items():
        module = run.by_host[host].hlo_modules[number]
        identity = {"host": host, "program": program, "program_id": str(number) if number >= 0 else ""}
        sums = _ProgramSums(ops, _count_runs(ops, module), roofs)
        text_flops = module.cost.flops if module.cost.is_complete else float("nan")
        arguments = {
            "text_flops": text_flops,
            "argument_bytes": module.argument_bytes or float("nan"),
            "donated_bytes": module.donated_bytes,
        }
        idle = sums.idle_columns(around.get((host, number)))
        rows.append(PROGRAMS.row(sums, **identity, **arguments, **idle, fraction=sums.self_ps / whole))
    return PROGRAMS.build(rows).sort_by("self_ps")


def _find_idle(run: Run) -> Mapping[tuple[str, int], ProgramIdle]:
    """Return how long devices were idle around the runs of each program, by host and id."""
    from outpace.tools.hlo_stats.program_runs import find_program_idle  # most reports are of programs without a device

    return find_program_idle(run)


def _count_runs(ops: Mapping[_Key, OpTotals], module: HloModule) -> int:
    """Return how often most of a program's ops outside of loops ran."""
    once = module.entry_instructions
    counts = [op_totals.occurrences for key, op_totals in ops.items() if key[-1] in once] or [
        op_totals.occurrences for op_totals in ops.values()
    ]
    return max(Counter(counts).items(), key=lambda item: (item[1], item[0]))[0]


class _ProgramSums:
    """Columns of a program's row that are sums over its ops."""

    def __init__(self, by_key: Mapping[_Key, OpTotals], runs: int, roofs: Mapping[tuple[str, str], DeviceRoofs]) -> None:
        """Sum up ops by their key. `roofs`: by host and device."""
        totals = list(by_key.values())
        self.runs, self.ops, self.devices = runs, len({key[-1] for key in by_key}), len({key[1] for key in by_key})
        self._device_runs = max(runs * self.devices, 1)
        self.self_ps = sum(op.self_ps for op in totals)
        self.above_ps = sum(_roof(op, roofs.get(key[:2])).above_ps for key, op in by_key.items())
        self._unknown_ps = sum(op.self_ps for op in totals if not op.hlo_op.cost.is_complete)
        self._flops = sum(op.hlo_op.cost.flops * op.occurrences for op in totals)
        self._bytes = sum(op.hlo_op.cost.bytes * op.occurrences for op in totals if not op.hlo_op.opcode.endswith("-start"))
        self._product_ps = 1e12 * sum(
            product_seconds(op.hlo_op, roofs[key[:2]]) * op.occurrences for key, op in by_key.items() if key[:2] in roofs
        )

    @property
    def _is_known(self) -> bool:
        return self._unknown_ps < _UNKNOWN * self.self_ps

    @property
    def run_ps(self) -> float:
        """Time of its ops in a run on one device, ps."""
        return self.self_ps / self._device_runs

    @property
    def flops(self) -> float:
        """Operations of a run on one device; NaN where unknown."""
        return self._flops / self._device_runs if self._is_known else float("nan")

    @property
    def bytes(self) -> float:
        """Bytes of a run on one device; NaN where unknown."""
        return self._bytes / self._device_runs if self._is_known else float("nan")

    @property
    def flops_per_s(self) -> float:
        """Operations per second while its ops ran; NaN where unknown."""
        return self.flops / self.run_ps * 1e12 if self.self_ps else float("nan")

    @property
    def bytes_per_s(self) -> float:
        """Bytes per second while its ops ran; NaN where unknown."""
        return self.bytes / self.run_ps * 1e12 if self.self_ps else float("nan")

    def idle_columns(self, idle: ProgramIdle | None) -> dict[str, float]:
        """Return the columns of idle time around its runs, per run and device; missing on hosts."""
        if idle is None:
            return dict.fromkeys(("inside_ps", "before_ps", "wall_flops_per_s"), float("nan"))
        inside, before = idle.inside_ps / self._device_runs, idle.before_ps / self._device_runs
        wall = self.run_ps + inside + before
        rate = self.flops / wall * 1e12 if wall else float("nan")
        return {"inside_ps": inside, "before_ps": before, "wall_flops_per_s": rate}

    @property
    def peak_share(self) -> float:
        """Least time of its products as a share of its ops' time; NaN where unknown."""
        return self._product_ps / self.self_ps if self._product_ps and self.self_ps else float("nan")


def compute_autotuning(totals: TotalsByOp) -> Table:
    """Return `AUTOTUNING`: one row per program that the compiler ran, by the self time of its
    ops.
    """
    rows = (AUTOTUNING.row(s, host=host, program=program) for (host, _, program, _, _), s in totals.items())
    return AUTOTUNING.build(AUTOTUNING.sum_rows(rows)).sort_by("self_ps")


def compute_categories(totals: TotalsByOp) -> Table:
    """Return `CATEGORIES`: self time by category of op, longest first."""
    return CATEGORIES.build(CATEGORIES.sum_rows(map(CATEGORIES.row, totals.values()))).sort_by("self_ps")
