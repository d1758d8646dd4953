"""Which lines of a JAX program the compiled ops' time comes from: forward and backward pass together, per step of the steady state."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from outpace._dataclass import dataclass
from outpace._once import derived
from outpace.metrics.machine.device_kinds import tpu_op
from outpace.metrics.model.executions import executions, launchers
from outpace.metrics.program.device_work import device_work
from outpace.model import Table, schema
from outpace.model.arrays import Codes, Indices, Mask, Numbers, Picoseconds
from outpace.timeline import Run, Timeline
from outpace.timeline.hlo import HloOp, instructions, op_lines
from outpace.timeline.names import work_of
from outpace.timeline.workers import executed, on_host
from outpace.trace import Value, dialect
from outpace.trace.algorithms import common, distinct

_WRAPPER = re.compile(r"(?:jvp|transpose|vmap|remat|checkpoint|custom_jvp|custom_vjp|linearize)\((.*)\)")
DEVICE, CPU = "device", "CPU"
_PS = 1e12  # in a second
_COMPILED = "fusion"  # a type of op that tells nothing of it
_MOSTLY, _NEARLY_ALL = 0.5, 0.9  # of the time of all programs

FIELDS = schema("""
    * host        | text     | host that ran the ops
    * side        | text     | device (accelerators), or CPU (XLA's threads on the host)
    * op          | text     | framework op, without what differentiation wraps around it: jit(step)/dot_general; in brackets, \
                               an opcode that the compiler added
    * product     | text     | what it multiplies, whatever it is called after: dot, convolution or attention; empty for all others
      opcode      | text     | HLO opcode that took most of the time
    * source      | text     | innermost line of the program's own code that the op comes from; empty where the program holds none
    + time_ps     | ps       | self time per step of the steady state and device; in the whole capture where no step is known \
                               | Per step
      share       | fraction | the same as a share of the step; ops that run side by side can come to more than all of it \
                               | Of step
    + backward_ps | ps       | of it, in the backward pass | Backward
    + count       | count    | executions in these steps | Count
      bits        | count    | 16, 32 or 64: what most of the time computes in; 0 where that is not known
      flops_per_s | ratio    | floating-point operations per second while it ran, by its shapes; empty where unknown | FLOP/s
""")


@derived
def hlo_lines(run: Run) -> Table:
    """`FIELDS`: one row per host, side, framework op and source line, longest first. Empty for a profile without HLO ops."""
    rows = [row for host, ran in ran_ops(run).items() for row in _rows(host, ran)]
    return Table.from_rows("hlo_lines", "Compiled ops by source line", FIELDS, rows).sorted_by("time_ps")


def last_name(op: str, product: str) -> str:
    """What an op is told of as: the last part of its name, or where that is only the form in which it hands a product on (`transpose`), the
    product."""
    return product if product and work_of(_COMPILED, op) is not work_of(product) else op.rpartition("/")[2]


def plain_op(framework_op: str) -> tuple[str, bool]:
    """(the op without the wrappers of differentiation, whether it belongs to the backward pass).

    `jit(f)/transpose(jvp(layer))/dot_general` is `jit(f)/layer/dot_general`, backward.
    """
    parts = _split(framework_op.partition(";")[0])  # of an op that stands for several, the first
    return "/".join(filter(None, map(_unwrapped, parts))), any(p.startswith("transpose(") for p in parts)


def _split(name: str) -> list[str]:
    """The parts between slashes; a slash in brackets separates nothing."""
    parts, depth = [""], 0
    for letter in name:
        depth += (letter == "(") - (letter == ")")
        if letter == "/" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _unwrapped(part: str) -> str:
    while found := _WRAPPER.fullmatch(part):
        part = found[1]
    return part


@dataclass(frozen=True)
class Ran:
    """An HLO instruction of one side, as it ran in the steady state: `time` per step and device, ps; `share` of the step; `count` executions
    that began in all these steps; `steps`: steps times devices; `whole`: ps of these executions, what lies beyond their step's end included
    (None: nothing does)."""

    side: str
    op: HloOp
    time: float
    share: float
    count: int
    steps: int
    whole: float | None = None

    @property
    def executed(self) -> float:
        """How long its executions took together, ps."""
        return self.time * self.steps if self.whole is None else self.whole

    @property
    def bytes_per_s(self) -> float:
        """Memory traffic while it ran; 0 where that is not known."""
        return max(self.op.bytes, 0.0) * self.count / self.executed * _PS if self.executed else 0.0

    @property
    def flops_per_s(self) -> float:
        """Floating-point operations while it ran; 0 where that is not known."""
        return max(self.op.flops, 0.0) * self.count / self.executed * _PS if self.executed else 0.0


@derived
def ran_ops(run: Run) -> dict[str, tuple[Ran, ...]]:
    """The HLO instructions that ran, by host."""
    return {timeline.host: tuple(_ran(timeline)) for timeline in run.hosts}


def _ran(timeline: Timeline) -> Iterator[Ran]:
    devices: dict[str, set[int]] = {CPU: set(), DEVICE: set()}
    steady, steps, length = _steady(timeline)
    found: list[tuple[str, HloOp, float, int, float]] = []
    for side, rows, index, ops, begun in gathered(timeline):
        own, begins = _own(timeline, side, rows, steady)
        whole = timeline.trace.nested(rows)[1]
        devices[side].update(_devices(timeline, side, rows[own > 0]).tolist())
        sums = (np.bincount(index, values, len(ops)) for values in (own, begun * begins, whole * begins))
        found += [(side, op, float(t), int(n), float(full)) for op, t, n, full in zip(ops, *sums, strict=True) if t or n]
    for side, op, time, count, full in found:
        of = max(len(devices[side]), 1)
        share = time / (length * of) if length else float("nan")
        yield Ran(side, op, time / (max(steps, 1) * of), share, count, max(steps, 1) * of, full)


def _own(timeline: Timeline, side: str, rows: Indices, steady: Mask) -> tuple[Picoseconds, Mask]:
    """Of each event its own time in the steady steps, ps, and whether it begins in one; all of it where no step is known."""
    own = timeline.trace.nested(rows)[1]
    if not len(timeline.steps):
        return own, np.ones(len(rows), bool)
    if side == DEVICE:
        return device_work(timeline).of(rows, steady)
    wanted = steady[timeline.step_of[rows]]
    return np.where(wanted, own, 0), wanted


@derived
def attention_ops(run: Run) -> frozenset[tuple[str, str, str]]:
    """(host, op, source) of the rows of devices in `hlo_lines` that mostly are a part of an attention, by what they are made of."""
    sums: dict[tuple[str, str, str], float] = {}
    for host, ran in ran_ops(run).items():
        for each in (r for r in ran if r.side == DEVICE):
            name = plain_op(each.op.framework_op)[0] or f"({each.op.opcode})"
            key = (host, name, each.op.source)
            sums[key] = sums.get(key, 0.0) + (each.time if each.op.attention else -each.time)
    return frozenset(key for key, more in sums.items() if more > 0)


@derived
def programs_at_work(run: Run) -> dict[str, int]:
    """How many programs per step make most of the time of compiled ops on the devices of each host: 1 where one of them does, 0 where no
    kernel names its program."""
    return {timeline.host: _programs_of(timeline) for timeline in run.hosts if timeline.device_planes}


def one_program(run: Run) -> bool:
    """Whether one compiled program makes most of the work of each host's devices, as far as kernels name their programs."""
    return set(programs_at_work(run).values()) == {1}


def _programs_of(timeline: Timeline) -> int:
    trace, (steady, steps, _) = timeline.trace, _steady(timeline)
    rows = executed(trace)
    rows = rows[~on_host(trace, rows)]
    rows = rows[steady[timeline.step_of[rows]]] if steps else rows[:0]
    program, launch = trace.stat(dialect.PROGRAM_ID), trace.stat(dialect.CORRELATION_ID)
    rows = rows[common(rows, program.row)[0]]
    rows = rows[common(rows, launch.row)[0]]
    if len(rows) == 0:
        return 0
    number = program.uints[common(rows, program.row)[1]]
    index = np.unique(number, return_inverse=True)[1]
    time = np.sort(np.bincount(index, trace.duration[rows]))[::-1]
    return 1 if time[0] >= _MOSTLY * time.sum() else int(np.searchsorted(np.cumsum(time), _NEARLY_ALL * time.sum())) + 1


def _rows(host: str, ran: tuple[Ran, ...]) -> Iterator[tuple[object, ...]]:
    sums: dict[tuple[str, str, str, str], _Sums] = {}
    for each in ran:
        name, backward = plain_op(each.op.framework_op)
        key = (each.side, name or f"({each.op.opcode})", each.op.product, each.op.source)
        sums.setdefault(key, _Sums()).add(each, backward)
    for (side, name, product, source), found in sums.items():
        opcode, bits = found.most()
        yield host, side, name, product, opcode, source, found.time, found.share, found.backward, found.count, bits, found.rate


def _devices(timeline: Timeline, side: str, rows: Indices) -> Numbers:
    """The devices that ran ops, each by a number: planes, or what a CPU is divided into (jax_num_cpu_devices, pmap)."""
    trace = timeline.trace
    if side == DEVICE:
        return distinct(trace.lines.plane[trace.line[rows]].astype(np.int64))
    ordinal = trace.stat(dialect.DEVICE_ORDINAL)
    return distinct(ordinal.ints[common(rows, ordinal.row)[1]])


def _steady(timeline: Timeline) -> tuple[Mask, int, float]:
    """(is each step, by index, of the steady state - the last entry is for -1, no step -, how many are, their summed length)."""
    whole = timeline.steps.whole
    of = np.zeros(len(timeline.steps) + 1, bool)
    of[whole] = True
    return of, len(whole), float(timeline.steps.duration[whole].sum())


class _Sums:
    """One line and op while it is summed up."""

    def __init__(self) -> None:
        self.time = self.share = self.backward = self.flops = self.whole = 0.0
        self.count = 0
        self._opcodes: dict[str, float] = {}
        self._bits: dict[int, float] = {}

    def add(self, ran: Ran, backward: bool) -> None:
        """Count one instruction."""
        self.time += ran.time
        self.share += ran.share
        self.backward += ran.time * backward
        self.count += ran.count
        self.flops += max(ran.op.flops, 0.0) * ran.count
        self.whole += ran.executed
        self._opcodes[ran.op.opcode] = self._opcodes.get(ran.op.opcode, 0.0) + ran.time
        self._bits[ran.op.bits] = self._bits.get(ran.op.bits, 0.0) + ran.time

    @property
    def rate(self) -> float:
        """Floating-point operations per second; NaN where no instruction has any."""
        return self.flops / self.whole * _PS if self.flops and self.whole else float("nan")

    def most(self) -> tuple[str, int]:
        """Opcode and precision with the most time."""
        return max(self._opcodes, key=self._opcodes.__getitem__), max(self._bits, key=self._bits.__getitem__)


Part = tuple[str, Indices, Codes, list[HloOp], Numbers]  # side, event rows, op of each, ops, executions that begin with each


def gathered(timeline: Timeline) -> Iterator[Part]:
    """The HLO ops that ran: kernels and worker threads, whose events name the op, and lines of XLA ops, where each event is one."""
    trace = timeline.trace
    rows = executed(trace)
    if len(rows):
        host = on_host(trace, rows)
        for side, mine in ((CPU, rows[host]), (DEVICE, rows[~host])):
            index, ops = instructions(timeline, mine)
            yield (
                side,
                mine,
                index,
                ops,
                np.ones(len(mine), np.int64) if side == CPU else executions(timeline, mine, index, launchers(timeline)),
            )
    for plane in timeline.device_planes:
        for line in op_lines(trace, plane):
            mine = trace.lines.every_row(line)
            names = list(dict.fromkeys(trace.name[mine].tolist()))
            place = np.zeros(len(trace.names), np.int64)
            place[names] = np.arange(len(names))
            yield DEVICE, mine, place[trace.name[mine]], [_described(timeline, n) for n in names], np.ones(len(mine), np.int64)


def _described(timeline: Timeline, name: int) -> HloOp:
    """A TPU's op: of its program, else of the stats that stand beside its name; what the profile itself counts comes first."""
    op, stats = tpu_op(timeline, name), timeline.trace.name_stats.get(name, {})
    category, framework, source = (str(stats.get(key) or "") for key in (dialect.HLO_CATEGORY, dialect.TF_OP, dialect.SOURCE))
    return replace(
        op,
        opcode=op.opcode or category,
        framework_op=op.framework_op or framework.rstrip(":"),
        source=source or op.source,
        flops=_counted(stats.get(dialect.FLOPS), op.flops),
        bytes=_counted(stats.get(dialect.BYTES_ACCESSED), op.bytes),
    )


def _counted(told: Value, known: float) -> float:
    return float(told) if isinstance(told, (int, float)) and told > 0 else known
