# SPDX-License-Identifier: Apache-2.0
"""The ops of a training step, and the wall-clock time of each: of a moment in which several threads
compute, each has its share.

The ops are those that the executor runs, those that ran one by one (eager), those of programs that
XLA compiled for the CPU, and, on accelerators, what each device did in the steps
(`metrics/facts/device_work.py`). What the input pipeline runs is left out. An op that only waits
for others (a call of a function, or of a compiled program) counts only while nothing else computes;
so do a device's copies and collectives, which computing hides.

TensorFlow records no event for ops that it considers cheap: they, and the executor's own work, are
the time of `ExecutorState::Process` outside of ops. This overhead is attributed to the ops that ran
within the same event, or else to the op nearest in time; inside a loop, to the nearest op of a
loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.metrics.facts.device_work import device_work
from outpace.metrics.facts.input_pipelines import function_runs
from outpace.metrics.facts.op_executions import count_executions, launching_ops
from outpace.metrics.facts.op_metrics import DEVICE, HOST, device_op_names, parse_device_op
from outpace.metrics.facts.roofs import DeviceRoofs, device_roofs, host_roofs, least_time
from outpace.metrics.facts.step_breakdown import event_kinds, kind_mask, step_breakdown
from outpace.model import Category
from outpace.model.arrays import Codes, Indices, Mask, Numbers, Picoseconds, Values
from outpace.timeline import OpKind, Run, Timeline
from outpace.timeline.event_names import GET_NEXT_THREADS, INPUT_THREADS, WAITING_OP_TYPES, EventFlag
from outpace.timeline.hlo.modules import load_hlo_ops
from outpace.timeline.hlo.ops import NO_OP, HloOp
from outpace.timeline.op_names import Op
from outpace.timeline.work_kinds import classify_work
from outpace.timeline.xla_threads import NO_CONTINUATIONS, Continuations, find_continuations, find_hlo_events, host_mask
from outpace.trace import EventColumn, dialect, store_column
from outpace.trace.algorithms import distinct, find_positions, find_slice, intersect_indices, isin, union_rows

if TYPE_CHECKING:
    from outpace.metrics.facts.graph_costs import GraphCosts

_EXECUTOR = "ExecutorState::Process"
_EAGER = "EagerLocalExecute: "
_INPUT_OPS = ("Iterator", "MakeIterator", "Optional", "Dataset", "DeleteIterator", "AnonymousIterator")
_WAITING = compile_lazily(
    r"XlaLaunch|_?XlaRun|(Stateful)?PartitionedCall|(Stateless)?(While|If|Case)|"
    r"RemoteCall|MapDefun|BatchFunction|__(inference|forward|backward)_.*"
)
BLOCK_UNTIL_READY = "BlockUntilReady"  # event of a call of a compiled program while it waits for the threads that run it
COMPILED = "compiled program"
_DATASET = compile_lazily(r"Dataset(V\d+)?$")
OpName = tuple[str, str, str]  # name, type, source line where a compiled program has one
NONE, OVERHEAD, WORK, WAIT = 0, 1, 2, 3
"""The role of an event name: no op of a step, the executor around ops, an op, or a wait for
others.
"""


@dataclass(frozen=True, eq=False)
class ModelOps:
    """The ops on one side of one host. Arrays have one entry per event of an op in a step that
    counts.

    host: name of the host
    side: `HOST` or `DEVICE`
    ops: (name, type, source line where a compiled program has one) of each op
    flops: operations of one execution per op, of its matrix products by its program or graph; -1
        without any
    is_counted: whether the least time of each op tells of its arithmetic, not of its bytes alone
    op_index: index into `ops`
    step: index of the event's step among all steps
    attributed_ps: the op's share of wall-clock time, ps
    executor_ps: executor time that is attributed to the op, ps
    exclusive_ps: part of `attributed_ps` in which no other thread computed, ps
    start: start of the event, ps
    duration: length of the event, ps
    uses_pool: whether tasks of the intra-op pool ran in the event
    execution_count: number of executions of the op that begin with the event
    is_compute: whether the event computes; False for a device's copies and collectives
    least_ps: least time of these executions by the roofs (`facts/roofs.py`), ps; NaN where unknown.
        None where no roofs, or no costs of ops, are known
    step_count: number of training steps that count, times the number of devices
    step_ps: mean length of a step, ps
    busy_ps: time per step in which any thread computed, ps
    single_thread_ps: time per step in which exactly one thread computed, ps
    thread_ps: time per step summed over threads, ps
    overhead_ps: wall-clock time per step of the executor outside of ops, ps
    """

    host: str
    side: str
    ops: tuple[OpName, ...]
    flops: Values
    is_counted: Mask
    op_index: Codes
    step: Codes
    attributed_ps: Values
    executor_ps: Values
    exclusive_ps: Values
    start: EventColumn
    duration: EventColumn
    uses_pool: Mask
    execution_count: Numbers
    is_compute: Mask
    least_ps: Values | None
    step_count: int
    step_ps: float
    busy_ps: float
    single_thread_ps: float
    thread_ps: float
    overhead_ps: float

    def step_share(self, time_ps: float) -> float:
        """Return time in all steps together, ps, as a share of the steps; at most 1.

        Events of a step may last longer than the step, so that the share needs a limit.
        """
        return min(time_ps / self.step_count / self.step_ps, 1.0) if self.step_ps else 0.0


@memoize
def model_ops(run: Run) -> tuple[ModelOps, ...]:
    """Return the ops of every host that has steps, and the ops of its devices."""
    return tuple(part for timeline in run.hosts if len(timeline.steps) for part in _sides(run, timeline))


def is_waiting_op(op_type: str) -> bool:
    """Whether an op of this type may last as long as the ops for which it waits.

    Its time then says nothing about the op itself.
    """
    return op_type == COMPILED or op_type.startswith(WAITING_OP_TYPES) or bool(_WAITING.fullmatch(op_type))


def _sides(run: Run, timeline: Timeline) -> Iterator[ModelOps]:
    breakdown = step_breakdown(run).select_hosts(timeline.host)
    whole = breakdown.steady_steps
    counted = isin(timeline.steps.start - timeline.zero_ps, whole["start_ps"])
    steps = int(counted.sum()) * breakdown.steps_per_execution[timeline.host]
    if not steps:
        return
    length = float(timeline.steps.duration[counted].sum()) / steps
    compute = float(breakdown.category_ps(Category.HOST_COMPUTE, whole).sum())
    costs = _graph_costs(run, timeline.host)
    host = _host(timeline, counted, host_roofs(run.record(timeline.host)), costs)
    if host is not None:
        yield _measure(timeline, HOST, host, counted, steps, length, None if timeline.device_planes else compute)
    device = _device(timeline, counted, costs)
    if device is not None:
        yield _measure(timeline, DEVICE, device, counted, steps * len(distinct(device.lane)), length, None)


def _graph_costs(run: Run, host: str) -> GraphCosts | None:
    """Return the costs of TensorFlow's ops by its graphs; None where the capture saw none."""
    if not (run.record(host).get("graph_shapes") or {}).get("texts"):
        return None
    from outpace.metrics.facts.graph_costs import graph_costs  # most reports have none

    return graph_costs(run).get(host)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Events that count, sorted by row; one array entry per event.

    row: event row
    step: index of the step
    what: role (`NONE`, `OVERHEAD`, `WORK`, `WAIT`)
    name: index into `ops`
    start: start within the step, ps
    end: end within the step, ps
    parent: index of the enclosing event in these arrays, -1 for none
    loop: whether the event is an executor run of a loop
    pooled: whether tasks of the intra-op pool ran in it
    begun: number of executions that begin with it
    computes: whether it computes
    least: least time of the executions that begin with it, ps; NaN, or None for all, where unknown
    later: what ops did after their events, in their steps; its rows are indices into these arrays
    ops: (name, type, source line) of each op
    flops: floating-point operations of one execution per op
    counted: whether the least time of each op tells of its arithmetic
    lane: device that ran it; time is divided only among events of one device
    """

    row: Indices
    step: Codes
    what: Codes
    name: Codes
    start: Picoseconds
    end: Picoseconds
    parent: Indices
    loop: Mask
    pooled: Mask
    begun: Numbers
    computes: Mask
    least: Values | None
    later: Continuations
    ops: tuple[OpName, ...]
    flops: Values
    counted: Mask
    lane: Codes


def _step_mask(timeline: Timeline, rows: Indices, counted: Mask) -> Mask:
    """Return a mask of the rows that have a duration and are in a step that counts."""
    step = timeline.step_index[rows]
    return np.asarray((step >= 0) & counted[np.maximum(step, 0)] & (timeline.trace.duration[rows] > 0))


def _host(timeline: Timeline, counted: Mask, roofs: DeviceRoofs | None, costs: GraphCosts | None) -> _Rows | None:
    """Return the ops and executor runs on the host's threads; None without any."""
    trace = timeline.trace
    of_name = name_roles(timeline)
    hlo = _hlo_ops(timeline, roofs)
    parts = (hlo.row, *(trace.find_rows_by_mask(of_name != NONE, trace.rows_of(plane)) for plane in timeline.host_planes))
    rows = union_rows(*(part[_step_mask(timeline, part, counted)] for part in parts))
    rows = rows[~input_mask(timeline, rows)]
    what: Codes = of_name[trace.name[rows]]
    name: Codes = trace.name[rows].astype(np.int64)
    at, place = intersect_indices(rows, hlo.row)
    what[at], name[at] = WORK, hlo.name[place] + len(trace.names)
    if not len(rows):
        return None
    rows, what, name = _drop_inner_eager(timeline, rows, what, name)
    ops = (*(_op_name(text, op) for text, op in zip(trace.names, timeline.ops, strict=True)), *hlo.ops)
    pooled = _contains(timeline, rows, EventFlag.INTRA_OP_TASK)
    graph_ops = [costs.find(op) if costs and role == WORK else NO_OP for op, role in zip(timeline.ops, of_name, strict=True)]
    flops = np.concatenate((_product_flops(graph_ops), hlo.flops))
    step, every = timeline.step_index[rows], np.ones(len(rows), bool)
    start = np.maximum(trace.start[rows], timeline.steps.start[step])
    end = np.maximum(np.minimum(trace.end[rows], timeline.steps.end[step]), start)
    return _Rows(
        row=rows,
        step=step,
        what=what,
        name=name,
        start=start,
        end=end,
        parent=find_positions(rows, trace.compute_nesting(rows)[0]),
        loop=_loop_mask(timeline, rows),
        pooled=pooled,
        begun=np.ones(len(rows), np.int64),
        computes=every,
        least=_event_least(trace.name[rows], _least_times(graph_ops, roofs), rows, hlo),
        later=_continuations(timeline, hlo.row[hlo.has_end], rows, step),
        ops=ops,
        flops=flops,
        counted=np.concatenate((_counted_mask(graph_ops), np.ones(len(hlo.ops), bool))),
        lane=np.zeros(len(rows), np.int64),
    )


def _continuations(timeline: Timeline, counted: Indices, rows: Indices, step: Codes) -> Continuations:
    """Return what the ops of some events did after them, up to the ends of their steps, by the
    positions of the events in `rows`. `counted`: those of ops of which it is known when they ended.
    """
    later = find_continuations(timeline.trace).of_rows(rows).of_rows(counted)
    places = np.searchsorted(rows, later.row)
    end = np.minimum(later.end, timeline.steps.end[step[places]])
    return Continuations(places, later.start, end).select(end > later.start)


def _event_least(names: Codes, by_name: Values | None, rows: Indices, hlo: _HloEvents) -> Values | None:
    """Return the least time of the execution of each event, ps: by its name, or for an event of a
    compiled op by that; None where neither is known.
    """
    if by_name is None and hlo.least is None:
        return None
    least: Values = np.full(len(rows), np.nan) if by_name is None else by_name[names]
    at, place = intersect_indices(rows, hlo.row)
    least[at] = np.nan if hlo.least is None else hlo.least[place]
    return least


def _least_times(ops: Sequence[HloOp], roofs: DeviceRoofs | None) -> Values | None:
    """Return the least time of one execution of each op, ps; None where no roofs or ops are
    known.
    """
    known = roofs is not None and any(op.opcode for op in ops)
    return np.array([least_time(op, roofs) for op in ops]) if roofs is not None and known else None


def _product_flops(ops: Sequence[HloOp]) -> Values:
    """Return the operations of the matrix products of one execution of each op; -1 without any."""
    return np.array([op.cost.product_flops or -1.0 for op in ops], np.float64)


def _counted_mask(graph_ops: Sequence[HloOp]) -> Mask:
    """Return whether the least time of each op tells of its arithmetic; that of a compiled op,
    which is none of a graph, does.
    """
    if all(op is NO_OP for op in graph_ops):
        return np.ones(len(graph_ops), bool)
    from outpace.metrics.facts.graph_ops import counts_arithmetic  # most reports have none

    return np.array([op is NO_OP or counts_arithmetic(op) for op in graph_ops], bool)


def _op_name(text: str, op: Op) -> tuple[str, str, str]:
    """Return (name, type, source line) of an op on the host from the name of its event."""
    if text.startswith(_EAGER):
        return text[len(_EAGER) :], text[len(_EAGER) :], ""
    return (COMPILED, COMPILED, "") if text == BLOCK_UNTIL_READY or text.startswith("__inference_") else (op.name, op.type, "")


def name_roles(timeline: Timeline) -> Codes:
    """Return the role of each event name (`NONE`, `OVERHEAD`, `WORK` or `WAIT`), uint8."""
    names = timeline.trace.names
    is_op = timeline.op_kind_mask(OpKind.TENSORFLOW)
    what = np.zeros(len(names), np.uint8)
    for index, (text, op) in enumerate(zip(names, timeline.ops, strict=True)):
        if text.startswith(_EXECUTOR):
            what[index] = OVERHEAD
        elif text == BLOCK_UNTIL_READY or text.startswith("__inference_"):
            what[index] = WAIT
        elif text.startswith(_EAGER):
            kind = text[len(_EAGER) :]
            is_work = not kind.startswith(("__", *_INPUT_OPS)) and not _DATASET.search(kind)
            what[index] = WORK if is_work else NONE
        elif is_op[index] and not op.type.startswith(_INPUT_OPS) and not _DATASET.search(op.type):
            what[index] = WAIT if _WAITING.fullmatch(op.type) else WORK
    return what


def input_mask(timeline: Timeline, rows: Indices) -> Mask:
    """Return a mask of the events that the input pipeline caused.

    These are on its threads, below its iterators, or in the functions of its stages.
    """
    trace = timeline.trace
    _, ran = function_runs(trace)
    roots = union_rows(timeline.event_names.rows(EventFlag.INPUT_WORK), ran)
    # Largest end of all subtrees so far: subtrees are nested or disjoint.
    end = np.maximum.accumulate(trace.compute_subtree_ends(roots))
    at = np.searchsorted(roots, rows, side="right") - 1
    below = (at >= 0) & (rows < end[np.maximum(at, 0)]) if len(roots) else np.zeros(len(rows), bool)
    for line, name in enumerate(trace.lines.names):
        if name.startswith(INPUT_THREADS) and not name.startswith(GET_NEXT_THREADS):
            below[find_slice(rows, trace.lines.row_slice(line))] = True
    return np.asarray(below)


@dataclass(frozen=True, eq=False)
class _HloEvents:
    """Events on the host that ran ops of compiled programs.

    row: row of each event
    name: index of its op
    ops: (name, type, source line) of each op
    flops: floating-point operations of one execution per op
    least: least time of each event, ps; None where no roofs are known
    has_end: whether it is known when the op of each event ended
    """

    row: Indices
    name: Codes
    ops: tuple[OpName, ...]
    flops: Values
    least: Values | None
    has_end: Mask


def _hlo_ops(timeline: Timeline, roofs: DeviceRoofs | None) -> _HloEvents:
    """Return the events on the host that ran ops of compiled programs."""
    trace = timeline.trace
    rows = find_hlo_events(trace)
    rows = rows[host_mask(trace, rows)]
    index, hlo_ops = load_hlo_ops(timeline, rows)
    key = index * len(trace.names) + trace.name[rows]
    keys = distinct(key)
    ops = [(hlo_ops[k // len(trace.names)], trace.names[k % len(trace.names)]) for k in keys.tolist()]
    least = _least_times(hlo_ops, roofs)
    described = ((op.framework_op or text, op.opcode or text.partition(".")[0], op.source) for op, text in ops)
    return _HloEvents(
        rows,
        np.searchsorted(keys, key),
        tuple(described),
        _product_flops([op for op, _ in ops]),
        least[index] if least is not None else None,
        np.array([op.has_known_end for op in hlo_ops], bool)[index],
    )


def _drop_inner_eager(timeline: Timeline, rows: Indices, what: Codes, name: Codes) -> tuple[Indices, Codes, Codes]:
    """Return (rows, roles, names) without eager ops inside other events.

    An op that a Python function inside an op runs is that op's own work.
    """
    trace = timeline.trace
    eager = timeline.event_names.mask(EventFlag.EAGER_OP)[trace.name[rows]]
    if not eager.any():
        return rows, what, name
    parent, _ = trace.compute_nesting(rows)
    keep = ~eager | (parent < 0)
    return rows[keep], what[keep], name[keep]


def _loop_mask(timeline: Timeline, rows: Indices) -> Mask:
    """Return whether an executor run belongs to an iteration of a loop after the first."""
    iterations = timeline.trace.stat(dialect.ITER_NUM)
    mask = np.zeros(len(rows), bool)
    mask[intersect_indices(rows, iterations.rows[iterations.ints > 0])[0]] = True
    return mask


def _contains(timeline: Timeline, rows: Indices, what: EventFlag) -> Mask:
    """Return whether an event of a kind is nested, at any depth, in each of the rows."""
    trace = timeline.trace
    inner = timeline.event_names.rows(what)
    return np.asarray(np.searchsorted(inner, trace.compute_subtree_ends(rows)) > np.searchsorted(inner, rows, side="right"))


def _device(timeline: Timeline, counted: Mask, costs: GraphCosts | None) -> _Rows | None:
    """Return what the devices did that work in the steps; None without any."""
    trace, work = timeline.trace, device_work(timeline)
    at = np.flatnonzero(counted[work.step] & (work.end > work.start))
    if not len(at):
        return None
    row, rows = work.row[at], distinct(work.row[at])
    of = np.searchsorted(rows, row)
    name, ops, least, counted = _device_ops(timeline, rows, costs)
    begun = count_executions(timeline, rows, name, launching_ops(timeline))
    computes = kind_mask(Category.DEVICE_COMPUTE_16, Category.DEVICE_COMPUTE_32)[event_kinds(timeline)[row]]
    return _Rows(
        row=row,
        step=work.step[at],
        what=np.where(computes, WORK, WAIT).astype(np.uint8),
        name=name[of],
        start=work.start[at],
        end=work.end[at],
        parent=find_positions(at, work.parent[at]),
        loop=np.zeros(len(at), bool),
        pooled=np.zeros(len(at), bool),
        begun=np.where(work.is_first[at], begun[of], 0),
        computes=computes,
        least=np.where(work.is_first[at], (least * begun)[of], 0.0) if least is not None else None,
        later=NO_CONTINUATIONS,
        ops=ops,
        flops=np.full(len(ops), -1.0),
        counted=counted,
        lane=trace.lines.plane[trace.line[row]].astype(np.int64),
    )


def _device_ops(
    timeline: Timeline, rows: Indices, costs: GraphCosts | None
) -> tuple[Codes, tuple[OpName, ...], Values | None, Mask]:
    """Return (index of each device event's op, ops, least time of one execution of each event's op;
    None where none is known, whether the least time of each op tells of its arithmetic).

    An event that names no op is named after itself. The type is the product that the op computes,
    according to its program, rather than the one in its name (`transpose`).
    """
    trace = timeline.trace
    code, texts = device_op_names(timeline, rows)
    called = np.where(code == 0, len(texts) + trace.name[rows].astype(np.int64), code)
    number, instructions = load_hlo_ops(timeline, rows)
    origins = sorted({(op.product, op.source) for op in instructions})
    origin = np.array([origins.index((op.product, op.source)) for op in instructions])[number]
    pair = called * len(origins) + origin
    pairs = distinct(pair)
    ops, graph_ops = [], []
    for key in pairs.tolist():
        text, (multiplies, source) = key // len(origins), origins[key % len(origins)]
        kind, name = parse_device_op(texts[text] if text < len(texts) else trace.names[text - len(texts)])
        ops.append((name, multiplies if multiplies and classify_work(kind) is not classify_work(multiplies) else kind, source))
        graph_ops.append(costs.find(Op(OpKind.TENSORFLOW, name, kind)) if costs else NO_OP)
    index, roofs = np.searchsorted(pairs, pair), device_roofs(timeline.device_planes[0])
    least, of_graph = _least_times(instructions, roofs), _least_times(graph_ops, roofs)
    if of_graph is not None:
        by_graph = of_graph[index]
        known = by_graph if least is None else np.where(np.isnan(by_graph), least[number], by_graph)
        return index, tuple(ops), known, _counted_mask(graph_ops)
    return index, tuple(ops), least[number] if least is not None else None, np.ones(len(ops), bool)


def _measure(
    timeline: Timeline, side: str, events: _Rows, counted: Mask, steps: int, length: float, most: float | None
) -> ModelOps:
    """Divide the time of the steps among the ops that compute in it, and return them.

    most: upper limit of the time of all ops together, ps; None for no limit
    """
    trace, what, step = timeline.trace, events.what, events.step
    start, end, parent = events.start, events.end, events.parent
    if events.lane.any():  # the events of different devices are shifted apart, so that they do not share time
        apart = events.lane * (int(end.max()) - int(start.min()) + 1)
        start, end = start + apart, end + apart
    self_ps, alone, (busy, single, threads) = events.later.divide_time(start, end, parent, what == WAIT)
    scale = min(1.0, most / total) if most is not None and (total := float(self_ps.sum())) > 0 else 1.0
    self_ps *= scale
    alone *= scale
    is_op = what != OVERHEAD
    ran = events.row[is_op]
    overhead = _to_ops(self_ps, what, start, step, parent, events.loop)
    return ModelOps(
        timeline.host,
        side,
        events.ops,
        events.flops,
        events.counted,
        events.name[is_op].astype(np.int32),
        step[is_op],
        self_ps[is_op],
        overhead[is_op],
        alone[is_op],
        store_column(trace.start[ran]),
        store_column(trace.duration[ran] + events.later.lengths(np.flatnonzero(is_op))),
        events.pooled[is_op],
        events.begun[is_op],
        events.computes[is_op],
        events.least[is_op] if events.least is not None else None,
        steps,
        length,
        float(busy) / steps,
        float(single) / steps,
        float(threads) / steps,
        float(self_ps[~is_op].sum()) / steps,
    )


def _to_ops(self_ps: Values, what: Codes, start: Picoseconds, step: Codes, parent: Indices, loop: Mask) -> Values:
    """Return the executor's own time that is attributed to each event, ps.

    It goes to the ops inside the same executor run, or else to the op nearest in time in the step.
    """
    attributed_ps = np.zeros(len(self_ps))
    is_op = what != OVERHEAD
    nested = np.flatnonzero(is_op & (parent >= 0) & (what[np.maximum(parent, 0)] == OVERHEAD))
    children = np.bincount(parent[nested], minlength=len(self_ps))
    attributed_ps[nested] = self_ps[parent[nested]] / children[parent[nested]]
    op_in_loop = is_op & (parent >= 0) & loop[np.maximum(parent, 0)]
    for in_loop in (False, True):
        bare = np.flatnonzero(~is_op & (children == 0) & (loop == in_loop) & (self_ps > 0))
        pool = np.flatnonzero(op_in_loop if in_loop and op_in_loop.any() else is_op)
        if len(bare) and len(pool):
            attributed_ps += np.bincount(_nearest(bare, pool, start, step), self_ps[bare], len(self_ps))
    return attributed_ps


def _nearest(of: Indices, pool: Indices, start: Picoseconds, step: Codes) -> Indices:
    """Return, for each event, the event of the pool whose start is nearest; of its own step if
    there is one.
    """
    pool = pool[np.argsort(start[pool], kind="stable")]
    after = np.minimum(np.searchsorted(start[pool], start[of]), len(pool) - 1)
    before = np.maximum(after - 1, 0)
    far = np.abs(start[pool[after]] - start[of]) + np.where(step[pool[after]] != step[of], 1 << 60, 0)
    near = np.abs(start[pool[before]] - start[of]) + np.where(step[pool[before]] != step[of], 1 << 60, 0)
    return np.asarray(np.where(near <= far, pool[before], pool[after]))
