# SPDX-License-Identifier: Apache-2.0
"""Which tf.data stages work, and which only wait.

An asynchronous stage (Prefetch, ParallelMap, MapAndBatch, ...) mostly waits in its consumer's
thread while other threads do the work. So a pipeline is cut at its asynchronous stages into
*segments* that run concurrently:

* a **chain**: the synchronous stages between two asynchronous ones, run one after the other by the
    threads that request their elements (the training loop itself runs the last chain); its work is
    the sum of its stages' self time and of the cost of handing elements over;
* a **function**: what an asynchronous stage runs for every element in the tf.data thread pool; its
    work is the time of the executor runs that its calls caused.

A segment's busy time per batch is its work, divided by the threads that ran it and by the root
calls. The slowest segment limits the pipeline, and its stage with the most work is where to act.
Stages are identified by iterator id; nested datasets that are created per element (inside
interleave and flat_map) count as one stage per position in the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.metrics.facts.input_iterators import IteratorGraph, is_async_stage, iterator_graphs
from outpace.metrics.spans import BusyTime, merge_spans
from outpace.model.arrays import Codes, Indices, Numbers, Picoseconds, Values
from outpace.timeline import OpKind, Run, Timeline
from outpace.timeline.causality import match_causes
from outpace.timeline.event_names import EventFlag, event_names
from outpace.timeline.work_kinds import is_random_op
from outpace.trace import EventColumn, Trace, dialect, store_column
from outpace.trace.algorithms import distinct, find_positions, find_slice, isin, propagate_groups, union_rows

CHAIN, FUNCTION = "chain", "function"
# Index of a copy of a stage; after Zip, Concatenate and DirectedInterleave, the index of an input.
_INDEX = compile_lazily(r"(?<!Zip)(?<!Concatenate)(?<!DirectedInterleave)\[\d+\]")
_GATHERS = "Gather"
_PYTHON_OPS = (":PyFunc", ":EagerPyFunc", ":PyFuncStateless")


def stage_position(name: str) -> str:
    """Return a stage's long name without the indices of its copies.

    Interleave and flat_map create a copy of a stage for every element.
    """
    return _INDEX.sub("", name)


@dataclass(frozen=True)
class StageWork:
    """Work of one stage of a pipeline; times in ps, summed over the pipeline's window (see
    `Pipeline`).

    position: long name without the indices of copies (interleaved ones)
    type: type of the stage
    iterators: indices into `IteratorGraph.ids`
    parent: index of the calling stage in the pipeline, -1 for none
    is_async: whether the stage is asynchronous
    calls: number of calls
    self_ps: self time on the threads that call it; 0 for an asynchronous stage, which waits there
    handoff_ps: self time of the stage's own producing threads
    function_ps: time that its function ran on pool threads
    threads: number of threads that ran the stage
    function_threads: number of threads that ran its function, at most `parallelism`
    parallelism: how many calls of its function TensorFlow lets run concurrently; 0 where that is
        unknown, or autotuning may change it
    runs_python: whether its function runs Python
    op_ps: time of its function's ops by `name:type`
    label: the stage's label in the profile
    """

    position: str
    type: str
    iterators: tuple[int, ...]
    parent: int
    is_async: bool
    calls: int
    self_ps: int
    handoff_ps: int
    function_ps: int
    threads: int
    function_threads: int
    parallelism: int
    runs_python: bool
    op_ps: Mapping[str, int]
    label: str

    @property
    def work_ps(self) -> int:
        """Work of the stage, ps.

        A synchronous stage waits for its function itself, so that the function is already in its
        self time.
        """
        return self.handoff_ps + self.function_ps if self.is_async else self.self_ps

    @property
    def top_op(self) -> str:
        """Type of the op that took most of its function's time; "" where no op was recorded."""
        types = self._by_type()
        return max(types, key=types.__getitem__, default="")

    @property
    def top_share(self) -> float:
        """Share of the function's time in ops of type `top_op`; 0 where no op was recorded."""
        return max(self._by_type().values(), default=0) / self.function_ps if self.function_ps else 0.0

    @property
    def only_gathers(self) -> bool:
        """Whether its function only takes rows out of arrays."""
        return bool(self.op_ps) and all(kind.startswith(_GATHERS) for kind in self._by_type())

    @property
    def draws_random(self) -> bool:
        """Whether its function draws random numbers."""
        return any(is_random_op(*name.rsplit(":", 1)[::-1]) for name in self.op_ps if ":" in name)

    @property
    def call_overhead_share(self) -> float:
        """Share of its function's time outside of ops: calling the function and starting its ops.

        It is 0 where no op was recorded.
        """
        return 1 - min(1.0, sum(self.op_ps.values()) / self.function_ps) if self.function_ps and self.op_ps else 0.0

    def _by_type(self) -> dict[str, int]:
        types: dict[str, int] = {}
        for name, time in self.op_ps.items():
            kind = name.rsplit(":", 1)[-1]
            types[kind] = types.get(kind, 0) + time
        return types


@dataclass(frozen=True)
class Segment:
    """Stages that run on the same threads.

    kind: `CHAIN` or `FUNCTION`
    boundary: index of the asynchronous stage that runs the segment; -1 for the training loop
    stages: indices of its stages
    work_ps: total work, ps
    threads: number of threads that ran it
    busy_ps: busy time of one of these threads per root call, ps
    dominant: index of the stage with the most work
    """

    kind: str
    boundary: int
    stages: tuple[int, ...]
    work_ps: int
    threads: int
    busy_ps: float
    dominant: int


@dataclass(frozen=True)
class Pipeline:
    """One input pipeline of one host.

    host: name of the host
    root: index of the root iterator
    root_calls: number of calls of the root
    stages: stages from the root down
    segments: segments, slowest first
    steps: number of steps
    steps_ps: total length of these steps, ps

    All of it, the costs per element and per batch too, is of the host's steady steps with the time
    before each of them: costs of other steps, divided by the time of these, would be rates that no
    step had. Where no root is called there, it is of the whole capture.
    """

    host: str
    root: int
    root_calls: int
    stages: tuple[StageWork, ...]
    segments: tuple[Segment, ...]
    steps: int
    steps_ps: int

    @property
    def bottleneck(self) -> StageWork | None:
        """The stage with the most work in the slowest segment; None without segments."""
        return self.stages[self.segments[0].dominant] if self.segments else None


@memoize
def pipelines(run: Run) -> tuple[Pipeline, ...]:
    """Return all input pipelines of all hosts; for each host, the one with the most root calls
    first.

    Pipelines that run on a device's side are left out.
    """
    graphs = iterator_graphs(run)
    all_pipelines = [p for t in run.hosts if t.host in graphs for p in _pipelines(t, graphs[t.host])]
    return tuple(sorted(all_pipelines, key=lambda p: (p.host, -p.root_calls)))


def slowest_segment_share(run: Run) -> float | None:
    """Return the share of the step in which the slowest segment of the slowest pipeline works.

    Return None where there is no pipeline, or where the training loop itself does most of the work
    of one, which then does not overlap the model.
    """
    shares = []
    for pipeline in pipelines(run):
        loop_work = sum(s.work_ps for s in pipeline.segments if s.kind == CHAIN and s.boundary < 0)
        steps = run.by_host[pipeline.host].steps
        if 2 * loop_work >= sum(s.work_ps for s in pipeline.segments) or not len(steps):
            return None
        shares.append(pipeline.segments[0].busy_ps * pipeline.root_calls / max(pipeline.steps_ps, 1))
    return max(shares, default=None)


def _pipelines(timeline: Timeline, graph: IteratorGraph) -> list[Pipeline]:
    steady = _Steady.of(timeline)
    roots = graph.iterator[graph.roots]
    rows = graph.rows[graph.roots]
    begun = timeline.trace.start[rows]
    inside = steady.part(begun, begun) > 0
    every, steady_calls = (np.bincount(roots[mask], minlength=len(graph.ids)) for mask in (np.ones(len(roots), bool), inside))
    calls = {
        int(root): int(steady_calls[root] or every[root])
        for root in distinct(roots)
        if int(graph.ids[root]) not in graph.device_ids
    }
    positions: dict[tuple[int, str], list[int]] = {}
    for root, iterator in _members(graph, calls):
        positions.setdefault((root, stage_position(graph.long_names[iterator])), []).append(iterator)
    place = {iterator: at for at, group in enumerate(positions.values()) for iterator in group}
    stage_of = np.full(len(graph.ids) + 1, -1, np.int32)
    stage_of[list(place)] = list(place.values())
    owner = _owners(timeline, graph)
    limited = np.array([bool(steady_calls[root]) for root, _ in positions] + [False])

    def counts(start: Picoseconds, end: Picoseconds, stage: Codes) -> Values:
        return np.where(limited[stage], steady.part(start, end), 1.0)

    totals = _totals(timeline, owner, stage_of, len(positions), counts)
    ids = {int(identity): i for i, identity in enumerate(graph.ids.tolist())}
    stages: dict[int, list[StageWork]] = {root: [] for root in calls}
    for at, ((root, position), group) in enumerate(positions.items()):
        root_stages = stages[root]
        above = place.get(ids.get(int(graph.parent_id[group[0]]), -1), -1) - (at - len(root_stages))
        parent = above if 0 <= above < len(root_stages) else -1  # in a damaged file, iterators may call each other in a circle
        root_stages.append(_stage(graph, position, tuple(group), parent, at, totals))
    return [
        Pipeline(
            timeline.host,
            root,
            calls[root],
            tuple(root_stages),
            _segments(root_stages, calls[root]),
            *(steady.steps if steady_calls[root] else (len(timeline.steps), int(timeline.steps.duration.sum()))),
        )
        for root, root_stages in stages.items()
    ]


@dataclass(frozen=True, eq=False)
class _Steady:
    """The time of a host's steady steps.

    windows: the steady steps, each from the end of the previous step
    steps: (number of steady steps, their total length in ps)
    """

    windows: BusyTime
    steps: tuple[int, int]

    @classmethod
    def of(cls, timeline: Timeline) -> _Steady:
        steps = timeline.steps
        order = np.argsort(steps.start, kind="stable")
        before = np.maximum.accumulate(np.append(steps.start[order][:1], steps.end[order][:-1]))
        whole = isin(order, steps.steady_rows)
        windows = merge_spans(np.minimum(before, steps.start[order])[whole], steps.end[order][whole])
        return cls(BusyTime.from_sorted_spans(*windows), (int(whole.sum()), int(steps.duration[order][whole].sum())))

    def part(self, start: Picoseconds, end: Picoseconds) -> Values:
        """Return the share of each event that lies in the windows; for one without length, whether
        it does.
        """
        end = np.maximum(end, start + 1)
        return np.asarray((self.windows.busy_until(end) - self.windows.busy_until(start)) / (end - start))


@dataclass(frozen=True, eq=False)
class _Owners:
    """The iterator for which each event works.

    of: index into `IteratorGraph.ids` per event, -1 for none
    iterator: rows of iterator events
    iterator_self: their self time among iterator and producing events, ps
    produce: rows of producing events
    produce_self: their self time among iterator and producing events, ps
    pool: rows of events that run on pool threads
    """

    of: EventColumn
    iterator: Indices
    iterator_self: Picoseconds
    produce: Indices
    produce_self: Picoseconds
    pool: Indices


def _owners(timeline: Timeline, graph: IteratorGraph) -> _Owners:
    trace = timeline.trace
    produce = timeline.event_names.rows(EventFlag.PRODUCER)
    maker = _makers(trace, graph, produce)
    rows = np.concatenate((graph.rows, maker[0]))
    iterator = np.concatenate((graph.iterator, maker[1]))
    # A nested event has a larger row, and has to claim its subtree before its caller does.
    inner_first = np.argsort(-rows, kind="stable")
    cause, effect = function_runs(trace)
    of = store_column(
        propagate_groups(trace.compute_masked_subtree_ends(), cause, effect, rows[inner_first], iterator[inner_first])
    )
    nested = union_rows(graph.rows, produce)
    _, self_time = trace.compute_nesting(nested)
    iterates = find_positions(graph.rows, nested) >= 0
    pool = np.concatenate([_pool(timeline, graph, of, block) for block in trace.lines.iter_blocks()] or [np.zeros(0, np.int64)])
    return _Owners(of, nested[iterates], self_time[iterates], nested[~iterates], self_time[~iterates], pool)


def _pool(timeline: Timeline, graph: IteratorGraph, of: EventColumn, block: slice) -> Indices:
    """Return the rows of a block that begin the work of a stage's function.

    Such an event belongs to a stage, and the event around it to no stage or to another one.
    """
    trace = timeline.trace
    claimed = of[block] >= 0
    claimed[graph.rows[find_slice(graph.rows, block)] - block.start] = False
    rows = np.flatnonzero(claimed) + block.start
    above = trace.parent[rows]
    rows = rows[(above < 0) | (of[above] != of[rows])]
    return np.asarray(rows[~timeline.event_names.mask(EventFlag.PRODUCER | EventFlag.CONSUMER)[trace.name[rows]]])


def _makers(trace: Trace, graph: IteratorGraph, produce: Indices) -> tuple[Indices, Codes]:
    """Return (rows of producing events, index of the asynchronous iterator that each works for).

    That iterator is the parent of the first iterator that the event calls.
    """
    parent = trace.parent[graph.rows]
    below = np.flatnonzero(find_positions(produce, parent) >= 0)
    rows, first = np.unique(parent[below], return_index=True)
    parent_id = graph.parent_id[graph.iterator[below[first]]]
    at = np.minimum(np.searchsorted(graph.ids, parent_id), len(graph.ids) - 1)
    is_known = graph.ids[at] == parent_id
    return rows[is_known].astype(np.int32), at[is_known].astype(np.int32)


@memoize
def function_runs(trace: Trace) -> tuple[Indices, Indices]:
    """Return (rows of a stage's function, rows of the executor's work for it on other threads).

    The events of a pair have the same run id.
    """
    stat = trace.stat(dialect.ID)
    functions, executor = (
        event_names(trace).mask(what)[trace.name[stat.rows]]
        for what in (EventFlag.STAGE_FUNCTION, EventFlag.EXECUTOR | EventFlag.EXECUTOR_DONE)
    )
    return match_causes(trace, stat.rows[functions], stat.uints[functions], stat.rows[executor], stat.uints[executor])


def _members(graph: IteratorGraph, roots: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield (root, iterator) of each pipeline, callers before callees."""
    children: dict[int, list[int]] = {}
    for index, parent in enumerate(graph.parent_id.tolist()):
        children.setdefault(int(parent), []).append(index)
    for root in roots:
        members = {root: None}
        todo = [root]
        for top in todo:  # the loop appends to the list that it iterates over
            new = [child for child in children.get(int(graph.ids[top]), ()) if child not in members]
            members.update(dict.fromkeys(new))
            todo += new
        yield from ((root, iterator) for iterator in members)


@dataclass(frozen=True, eq=False)
class _Totals:
    own: Picoseconds
    calls: Numbers
    handing: Picoseconds
    function: Picoseconds
    threads: Numbers
    handing_threads: Numbers
    function_threads: Numbers
    ops: list[dict[str, int]]


def _totals(
    timeline: Timeline, owner: _Owners, stage_of: Codes, count: int, counts: Callable[[Picoseconds, Picoseconds, Codes], Values]
) -> _Totals:
    """Return the sums of each stage.

    stage_of: stage per iterator, with -1 as the last entry, for events of no iterator
    count: number of stages
    counts: returns the share of each event that counts, from starts, ends and stages of events
    """
    trace = timeline.trace
    lines = max(len(trace.lines), 1)

    def total(rows: Indices, values: Picoseconds | Values, *, whole: bool = False) -> Numbers:
        stage = stage_of[owner.of[rows]]
        mask = stage >= 0
        rows, stage = rows[mask], stage[mask]
        begin = trace.start[rows]
        part = counts(begin, begin if whole else trace.end[rows], stage)
        return np.bincount(stage, weights=values[mask] * part, minlength=count).astype(np.int64)

    def thread_count(rows: Indices) -> Numbers:
        rows = rows[(stage_of[owner.of[rows]] >= 0) & (trace.duration[rows] > 0)]
        cell = stage_of[owner.of[rows]].astype(np.int64) * lines + trace.line[rows]
        return np.bincount(distinct(cell) // lines, minlength=count)

    return _Totals(
        own=total(owner.iterator, owner.iterator_self),
        calls=total(owner.iterator, np.ones(len(owner.iterator)), whole=True),
        handing=total(owner.produce, owner.produce_self),
        function=total(owner.pool, trace.duration[owner.pool]),
        threads=thread_count(owner.iterator),
        handing_threads=thread_count(owner.produce),
        function_threads=thread_count(owner.pool),
        ops=_function_ops(timeline, owner.of, stage_of, count, counts),
    )


def _function_ops(
    timeline: Timeline,
    of: EventColumn,
    stage_of: Codes,
    count: int,
    counts: Callable[[Picoseconds, Picoseconds, Codes], Values],
) -> list[dict[str, int]]:
    """Return the time of the ops in each stage's function by name, ps."""
    trace = timeline.trace
    ops = np.flatnonzero(timeline.op_kind_mask(OpKind.TENSORFLOW))
    code = np.full(len(trace.names), -1, np.int64)
    code[ops] = np.arange(len(ops))
    rows = trace.find_rows_by_mask(code >= 0)
    rows = rows[of[rows] >= 0]
    rows = rows[stage_of[of[rows]] >= 0]
    part = counts(trace.start[rows], trace.end[rows], stage_of[of[rows]])
    cell = stage_of[of[rows]].astype(np.int64) * len(ops) + code[trace.name[rows]]
    cells = distinct(cell)
    time = np.bincount(np.searchsorted(cells, cell), weights=trace.duration[rows] * part, minlength=len(cells))
    op_ps: list[dict[str, int]] = [{} for _ in range(count)]
    for key, spent in zip(cells.tolist(), time.tolist(), strict=True):
        op_ps[key // len(ops)][trace.names[ops[key % len(ops)]]] = int(spent)
    return op_ps


def _stage(graph: IteratorGraph, position: str, group: tuple[int, ...], parent: int, at: int, totals: _Totals) -> StageWork:
    stage_type = graph.types[group[0]]
    stage_type = stage_position(stage_type)
    asynchronous = is_async_stage(stage_type)
    parallelism, function_threads = _parallelism(graph, group[0]), int(totals.function_threads[at])
    return StageWork(
        position=position,
        type=stage_type,
        iterators=group,
        parent=parent,
        is_async=asynchronous,
        calls=int(totals.calls[at]),
        self_ps=0 if asynchronous else int(totals.own[at]),
        handoff_ps=int(totals.handing[at]),
        function_ps=int(totals.function[at]),
        threads=max(1, int(totals.handing_threads[at] if asynchronous else totals.threads[at])),
        function_threads=max(1, min(function_threads, parallelism or function_threads)),
        parallelism=parallelism,
        runs_python=any(name.endswith(_PYTHON_OPS) for name in totals.ops[at]),
        op_ps=totals.ops[at],
        label=_text_at(graph.trace, "name", int(graph.first_row[group[0]])),
    )


def _parallelism(graph: IteratorGraph, iterator: int) -> int:
    """Return how many calls of its function TensorFlow lets a stage run concurrently; 0 where that
    is unknown, or autotuning may change it.
    """
    row = int(graph.last_row[iterator])
    text = _text_at(graph.trace, dialect.PARALLELISM, row)
    return int(text) if text.isdigit() and _text_at(graph.trace, dialect.AUTOTUNE, row) == "false" else 0


def _text_at(trace: Trace, name: str, row: int) -> str:
    """Return the stat of one event as text; "" where it has none."""
    stat = trace.stat(name)
    at = int(np.searchsorted(stat.rows, np.int32(row)))
    entry = stat.slice(at, at + 1)
    return entry.texts()[0] if len(entry) == 1 and int(entry.rows[0]) == row else ""


def _segments(stages: list[StageWork], calls: int) -> tuple[Segment, ...]:
    chains: dict[int, list[int]] = {}
    # Index of the nearest asynchronous stage above each stage, -1 where the training loop itself
    # calls it; callers come before callees.
    boundaries: list[int] = []
    for at, stage in enumerate(stages):
        above = stage.parent
        boundaries.append(above if above < 0 or stages[above].is_async else boundaries[above])
        if not stage.is_async:
            chains.setdefault(boundaries[at], []).append(at)
    segments = []
    for boundary in sorted({*chains, *(i for i, s in enumerate(stages) if s.is_async and s.handoff_ps)}):
        members = chains.get(boundary, [])
        work = {at: stages[at].self_ps for at in members}
        threads = 1
        if boundary >= 0:
            work[boundary] = stages[boundary].handoff_ps
            threads = stages[boundary].threads
        segments.append(_segment(CHAIN, boundary, work, threads, calls))
    for at, stage in enumerate(stages):
        if stage.is_async and stage.function_ps:
            segments.append(_segment(FUNCTION, at, {at: stage.function_ps}, stage.function_threads, calls))
    return tuple(sorted(segments, key=lambda s: -s.busy_ps))


def _segment(kind: str, boundary: int, work: dict[int, int], threads: int, calls: int) -> Segment:
    total = sum(work.values())
    dominant = max(work, key=lambda at: work[at])
    return Segment(kind, boundary, tuple(work), total, threads, total / threads / max(calls, 1), dominant)
