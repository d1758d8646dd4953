"""The ops of a training step, and the wall-clock time of each: where several threads compute at
once, each has its part of the moment.

What counts: ops that the executor runs, ops that ran one by one (eager), ops of programs that XLA
compiled for the CPU, and, on accelerators, what each device did in the steps
(`metrics/facts/device_work.py`). What the input pipeline runs is left out, and what only waits for
others (a call of a function, of a compiled program) counts only while nothing else computes; so do
a device's copies and collectives, which its computing hides.

TensorFlow writes no event for ops that it has found to be cheap: they, and the executor's own work,
are the time of `ExecutorState::Process` outside of ops. This overhead goes to the ops that ran
within the same event, or else to the op nearest in time; inside a loop, to the nearest op of a
loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.facts.device_work import device_work
from outpace.metrics.facts.input_pipelines import function_runs
from outpace.metrics.facts.op_executions import count_executions, launching_ops
from outpace.metrics.facts.op_metrics import DEVICE, HOST, device_op_names, parse_device_op
from outpace.metrics.facts.step_breakdown import event_kinds, kind_mask, step_breakdown
from outpace.model import Category
from outpace.model.arrays import Codes, Indices, Mask, Numbers, Picoseconds, Values
from outpace.timeline import OpKind, Run, Timeline
from outpace.timeline.event_names import GET_NEXT_THREADS, INPUT_THREADS, WAITING_OP_TYPES, EventFlag, Op, classify_work
from outpace.timeline.hlo_modules import load_hlo_ops
from outpace.timeline.xla_threads import find_hlo_events, host_mask
from outpace.trace import EventColumn, dialect, store_column
from outpace.trace.algorithms import distinct, divide_time, find_positions, find_slice, intersect_indices, union_rows

_EXECUTOR = "ExecutorState::Process"
_EAGER = "EagerLocalExecute: "
_INPUT_OPS = ("Iterator", "MakeIterator", "Optional", "Dataset", "DeleteIterator", "AnonymousIterator")
_WAITING = re.compile(
    r"XlaLaunch|_?XlaRun|(Stateful)?PartitionedCall|(Stateless)?(While|If|Case)|RemoteCall|MapDefun|BatchFunction|__(inference|forward|backward)_.*"
)
BLOCK_UNTIL_READY = "BlockUntilReady"  # a call of a compiled program waits for the threads that run it
COMPILED = "compiled program"
_DATASET = re.compile(r"Dataset(V\d+)?$")
OpName = tuple[str, str, str]  # name, type, line that a compiled program gives
NONE, OVERHEAD, WORK, WAIT = 0, 1, 2, 3
"""What a name is: nothing of a step's ops, the executor around them, an op, or what waits for
others.
"""


@dataclass(frozen=True, eq=False)
class ModelOps:
    """One side of one host. Arrays have one entry per event of an op in a step that counts.

    name: index into `ops`, (name, type, line that a compiled program gives) of each; step: its
    step, of all; wall: time of its own, ps; overhead: the executor's time that goes to it; alone:
    of `attributed_ps`, while no other thread computed; pooled: whether tasks of the intra-op pool
    were seen to run in it; begun: executions of the op that begin with it; computes: whether it
    does, on a device, and neither copies nor hands on. flops: floating-point operations of one
    execution of each of `ops`, as its program tells, -1 unknown. `step_count`: training steps that
    count, those of each device; `step_ps`: mean length of one; `busy_ps`: per step, time in which
    any thread computed; `single_thread_ps`: exactly one; `thread_ps`: sum over threads;
    `overhead_ps`: the executor's time outside of ops, per step, wall clock.
    """

    host: str
    side: str
    ops: tuple[OpName, ...]
    flops: Values
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
    step_count: int
    step_ps: float
    busy_ps: float
    single_thread_ps: float
    thread_ps: float
    overhead_ps: float

    def step_share(self, time_ps: float) -> float:
        """Time in all steps together, ps, as a share of them: all of a step at most, however much
        longer than it some of its events last.
        """
        return min(time_ps / self.step_count / self.step_ps, 1.0) if self.step_ps else 0.0


@memoize
def model_ops(run: Run) -> tuple[ModelOps, ...]:
    """The ops of every host that has steps, and those of its devices."""
    return tuple(part for timeline in run.hosts if len(timeline.steps) for part in _sides(run, timeline))


def is_waiting_op(op_type: str) -> bool:
    """Whether such an op may last as long as others run: its time says nothing of itself."""
    return op_type == COMPILED or op_type.startswith(WAITING_OP_TYPES) or bool(_WAITING.fullmatch(op_type))


def called_functions(timeline: Timeline) -> set[str]:
    """Names of the functions that the host's program called."""
    is_func = timeline.trace.stat(dialect.IS_FUNC)
    at, _ = intersect_indices(timeline.trace.stat(dialect.EAGER_OP).rows, is_func.rows[is_func.ints != 0])
    texts = timeline.trace.stat(dialect.EAGER_OP).texts()
    return {texts[i] for i in at.tolist()}


def _sides(run: Run, timeline: Timeline) -> Iterator[ModelOps]:
    breakdown = step_breakdown(run).select_hosts(timeline.host)
    whole = breakdown.steady_steps
    counted = np.isin(timeline.steps.start - timeline.zero_ps, whole["start_ps"])
    steps = int(counted.sum()) * breakdown.steps_per_execution[timeline.host]
    if not steps:
        return
    length = float(timeline.steps.duration[counted].sum()) / steps
    compute = float(breakdown.category_ps(Category.HOST_COMPUTE, whole).sum())
    host = _host(timeline, counted)
    if host is not None:
        yield _measured(timeline, HOST, host, counted, steps, length, None if timeline.device_planes else compute)
    device = _device(timeline, counted)
    if device is not None:
        yield _measured(timeline, DEVICE, device, counted, steps * len(distinct(device.lane)), length, None)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Events that count, sorted: row, step, what they are, index of the op, their time in the step,
    the place here of the event around each, whether it ran in a loop, and the ops. `lane`: the
    device that ran it; what another did at the same moment has no part in it.
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
    ops: tuple[OpName, ...]
    flops: Values
    lane: Codes


def _in_steps(timeline: Timeline, rows: Indices, counted: Mask) -> Mask:
    """Which of the rows took time in a step that counts."""
    step = timeline.step_index[rows]
    return np.asarray((step >= 0) & counted[np.maximum(step, 0)] & (timeline.trace.duration[rows] > 0))


def _host(timeline: Timeline, counted: Mask) -> _Rows | None:
    """Ops and executor runs on the host's threads."""
    trace = timeline.trace
    of_name = name_roles(timeline)
    hlo_row, hlo_name, hlo_ops, hlo_flops = _hlo_ops(timeline)
    parts = (hlo_row, *(trace.find_rows_by_mask(of_name != NONE, trace.rows_of(plane)) for plane in timeline.host_planes))
    rows = union_rows(*(part[_in_steps(timeline, part, counted)] for part in parts))
    rows = rows[~input_mask(timeline, rows)]
    what: Codes = of_name[trace.name[rows]]
    name: Codes = trace.name[rows].astype(np.int64)
    at, place = intersect_indices(rows, hlo_row)
    what[at], name[at] = WORK, hlo_name[place] + len(trace.names)
    if not len(rows):
        return None
    rows, what, name = _without_inner_eager(timeline, rows, what, name)
    ops = (*(_named(text, op) for text, op in zip(trace.names, timeline.ops, strict=True)), *hlo_ops)
    pooled = _holding(timeline, rows, EventFlag.INTRA_OP_TASK)
    flops = np.concatenate((np.full(len(trace.names), -1.0), hlo_flops))
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
        loop=_in_loop(timeline, rows),
        pooled=pooled,
        begun=np.ones(len(rows), np.int64),
        computes=every,
        ops=ops,
        flops=flops,
        lane=np.zeros(len(rows), np.int64),
    )


def _named(text: str, op: Op) -> tuple[str, str, str]:
    """(name, type, line) of an op on the host, by the name of its event."""
    if text.startswith(_EAGER):
        return text[len(_EAGER) :], text[len(_EAGER) :], ""
    return (COMPILED, COMPILED, "") if text == BLOCK_UNTIL_READY or text.startswith("__inference_") else (op.name, op.type, "")


def name_roles(timeline: Timeline) -> Codes:
    """What an event is, by its name."""
    names = timeline.trace.names
    is_op = timeline.op_kind_mask(OpKind.TENSORFLOW)
    what = np.zeros(len(names), np.uint8)
    for i, (text, op) in enumerate(zip(names, timeline.ops, strict=True)):
        if text.startswith(_EXECUTOR):
            what[i] = OVERHEAD
        elif text == BLOCK_UNTIL_READY or text.startswith("__inference_"):
            what[i] = WAIT
        elif text.startswith(_EAGER):
            kind = text[len(_EAGER) :]
            own = not kind.startswith(("__", *_INPUT_OPS)) and not _DATASET.search(kind)
            what[i] = WORK if own else NONE
        elif is_op[i] and not op.type.startswith(_INPUT_OPS) and not _DATASET.search(op.type):
            what[i] = WAIT if _WAITING.fullmatch(op.type) else WORK
    return what


def input_mask(timeline: Timeline, rows: Indices) -> Mask:
    """Which of the events the input pipeline caused: on its threads, below its iterators, and in
    the functions of its stages.
    """
    trace = timeline.trace
    _, ran = function_runs(trace)
    roots = union_rows(timeline.event_names.rows(EventFlag.INPUT_WORK), ran)
    end = np.maximum.accumulate(
        trace.compute_subtree_ends(roots)
    )  # of those up to each, the last: subtrees lie within each other or apart
    at = np.searchsorted(roots, rows, side="right") - 1
    below = (at >= 0) & (rows < end[np.maximum(at, 0)]) if len(roots) else np.zeros(len(rows), bool)
    for line, name in enumerate(trace.lines.names):
        if name.startswith(INPUT_THREADS) and not name.startswith(GET_NEXT_THREADS):
            below[find_slice(rows, trace.lines.row_slice(line))] = True
    return np.asarray(below)


def _hlo_ops(timeline: Timeline) -> tuple[Indices, Codes, tuple[OpName, ...], Values]:
    """(rows on the host that ran an op of a compiled program, index of the op of each, the ops by
    their program, their FLOPs).
    """
    trace = timeline.trace
    rows = find_hlo_events(trace)
    rows = rows[host_mask(trace, rows)]
    index, found = load_hlo_ops(timeline, rows)
    key = index * len(trace.names) + trace.name[rows]
    keys = distinct(key)
    ops = [(found[k // len(trace.names)], trace.names[k % len(trace.names)]) for k in keys.tolist()]
    described = ((op.framework_op or text, op.opcode or text.partition(".")[0], op.source) for op, text in ops)
    return rows, np.searchsorted(keys, key), tuple(described), np.array([op.flops for op, _ in ops], np.float64)


def _without_inner_eager(timeline: Timeline, rows: Indices, what: Codes, name: Codes) -> tuple[Indices, Codes, Codes]:
    """An op that a Python function inside an op runs is that op's own work."""
    trace = timeline.trace
    eager = timeline.event_names.mask(EventFlag.EAGER_OP)[trace.name[rows]]
    if not eager.any():
        return rows, what, name
    parent, _ = trace.compute_nesting(rows)
    keep = ~eager | (parent < 0)
    return rows[keep], what[keep], name[keep]


def _in_loop(timeline: Timeline, rows: Indices) -> Mask:
    """Whether an executor run belongs to an iteration of a loop after the first."""
    iterations = timeline.trace.stat(dialect.ITER_NUM)
    found = np.zeros(len(rows), bool)
    found[intersect_indices(rows, iterations.rows[iterations.ints > 0])[0]] = True
    return found


def _holding(timeline: Timeline, rows: Indices, what: EventFlag) -> Mask:
    """Whether such an event lies directly or deeper below each of the rows."""
    trace = timeline.trace
    found = timeline.event_names.rows(what)
    return np.asarray(np.searchsorted(found, trace.compute_subtree_ends(rows)) > np.searchsorted(found, rows, side="right"))


def _device(timeline: Timeline, counted: Mask) -> _Rows | None:
    """What the devices that work in the steps did in them."""
    trace, work = timeline.trace, device_work(timeline)
    at = np.flatnonzero(counted[work.step] & (work.end > work.start))
    if not len(at):
        return None
    row, rows = work.row[at], distinct(work.row[at])
    of = np.searchsorted(rows, row)
    name, ops = _device_ops(timeline, rows)
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
        ops=ops,
        flops=np.full(len(ops), -1.0),
        lane=trace.lines.plane[trace.line[row]].astype(np.int64),
    )


def _device_ops(timeline: Timeline, rows: Indices) -> tuple[Codes, tuple[OpName, ...]]:
    """(index of the op of each device event, the ops): event that names none is called after
    itself, and what its program says that it multiplies stands before the type that its name tells
    (`transpose`).
    """
    trace = timeline.trace
    code, texts = device_op_names(timeline, rows)
    called = np.where(code == 0, len(texts) + trace.name[rows].astype(np.int64), code)
    number, instructions_ = load_hlo_ops(timeline, rows)
    products = ["", *sorted({op.product for op in instructions_} - {""})]
    product = np.array([products.index(op.product) for op in instructions_])[number]
    pair = called * len(products) + product
    pairs = distinct(pair)
    ops = []
    for at in pairs.tolist():
        text, multiplies = at // len(products), products[at % len(products)]
        kind, name = parse_device_op(texts[text] if text < len(texts) else trace.names[text - len(texts)])
        ops.append((name, multiplies if multiplies and classify_work(kind) is not classify_work(multiplies) else kind, ""))
    return np.searchsorted(pairs, pair), tuple(ops)


def _measured(
    timeline: Timeline, side: str, found: _Rows, counted: Mask, steps: int, length: float, most: float | None
) -> ModelOps:
    """Give every moment of the steps to what computes in it. `most`: ps that all
    together may take.
    """
    trace, what, step = timeline.trace, found.what, found.step
    start, end, parent = found.start, found.end, found.parent
    if found.lane.any():  # devices are laid one behind the other
        apart = found.lane * (int(end.max()) - int(start.min()) + 1)
        start, end = start + apart, end + apart
    own, alone, (busy, single, threads) = divide_time(start, end, parent, what == WAIT)
    scale = min(1.0, most / total) if most is not None and (total := float(own.sum())) > 0 else 1.0
    own *= scale
    alone *= scale
    is_op = what != OVERHEAD
    ran = found.row[is_op]
    overhead = _to_ops(own, what, start, step, parent, found.loop)
    return ModelOps(
        timeline.host,
        side,
        found.ops,
        found.flops,
        found.name[is_op].astype(np.int32),
        step[is_op],
        own[is_op],
        overhead[is_op],
        alone[is_op],
        store_column(trace.start[ran]),
        store_column(trace.duration[ran]),
        found.pooled[is_op],
        found.begun[is_op],
        found.computes[is_op],
        steps,
        length,
        float(busy) / steps,
        float(single) / steps,
        float(threads) / steps,
        float(own[~is_op].sum()) / steps,
    )


def _to_ops(own: Values, what: Codes, start: Picoseconds, step: Codes, parent: Indices, loop: Mask) -> Values:
    """The executor's own time, given to ops: those inside the same executor run, or the nearest one
    in time in the step.
    """
    given = np.zeros(len(own))
    is_op = what != OVERHEAD
    nested = np.flatnonzero(is_op & (parent >= 0) & (what[np.maximum(parent, 0)] == OVERHEAD))
    children = np.bincount(parent[nested], minlength=len(own))
    given[nested] = own[parent[nested]] / children[parent[nested]]
    op_in_loop = is_op & (parent >= 0) & loop[np.maximum(parent, 0)]
    for in_loop in (False, True):
        bare = np.flatnonzero(~is_op & (children == 0) & (loop == in_loop) & (own > 0))
        pool = np.flatnonzero(op_in_loop if in_loop and op_in_loop.any() else is_op)
        if len(bare) and len(pool):
            given += np.bincount(_nearest(bare, pool, start, step), own[bare], len(own))
    return given


def _nearest(of: Indices, pool: Indices, start: Picoseconds, step: Codes) -> Indices:
    """For each event, the one of the pool whose start is nearest; in its own step if
    that has any.
    """
    pool = pool[np.argsort(start[pool], kind="stable")]
    after = np.minimum(np.searchsorted(start[pool], start[of]), len(pool) - 1)
    before = np.maximum(after - 1, 0)
    far = np.abs(start[pool[after]] - start[of]) + np.where(step[pool[after]] != step[of], 1 << 60, 0)
    near = np.abs(start[pool[before]] - start[of]) + np.where(step[pool[before]] != step[of], 1 << 60, 0)
    return np.asarray(np.where(near <= far, pool[before], pool[after]))
