# SPDX-License-Identifier: Apache-2.0
"""tf.data iterators: what each call of an input pipeline did, stage by stage.

The meaning is that of `xplane_to_tf_data_stats.cc` of openxla/xprof, the analysis that the
TensorFlow Profiler guide describes: a call of the root iterator is followed into the iterators that
it called on its own thread, and, across an asynchronous stage, into those that produced the very
element that it consumed. A stage's self time leaves out the time that overlaps its children; a
stage is on the critical path when it and all stages above it overlap their callers.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize, once
from outpace._dataclass import dataclass
from outpace.model.arrays import Codes, Column, Ids, Indices, Mask, Numbers, Picoseconds
from outpace.timeline import OpKind, Run, Timeline
from outpace.timeline.event_names import DEVICE_PREFETCH_STAGE, EventFlag, event_names
from outpace.trace import StatColumn, Trace, dialect
from outpace.trace.algorithms import find_positions, intersect_indices, match_latest

ASYNC_TYPES = (
    "Prefetch",
    "ParallelInterleave",
    "ParallelMap",
    "ParseExample",
    "MapAndBatch",
    "DataService",
    "ParallelBatch",
    "ParallelFilter",
)
_SHUFFLES, _DRAWS = "Shuffle", ("Random", "Sampling")
_GROUPS = ("Batch", "PaddedBatch", "ParallelBatch", "MapAndBatch", "Window", "GroupBy", "Zip")
_MAKES = "MakeIterator::RootDataset"  # event of a new iterator of a whole pipeline
_DEEPEST = 100  # maximum number of levels followed below a root, as in the reference
ITERATOR_STATS = (dialect.ID, dialect.PARENT_ID, dialect.ELEMENT_ID, dialect.NAME, dialect.PARALLELISM, dialect.AUTOTUNE)


def is_async_stage(iterator_type: str) -> bool:
    """Whether a stage produces elements on threads of its own, so that its consumer mostly waits in
    it.
    """
    return iterator_type.removeprefix("Legacy").startswith(ASYNC_TYPES)


def is_shuffling_stage(iterator_type: str) -> bool:
    """Whether a stage changes the order of its elements in every epoch."""
    return iterator_type.startswith(_SHUFFLES)


def is_random_stage(iterator_type: str) -> bool:
    """Whether a stage produces different elements in every epoch."""
    return iterator_type.startswith(_DRAWS)


def is_grouping_stage(iterator_type: str) -> bool:
    """Whether a stage groups elements, so that another order of elements gives other groups."""
    return iterator_type.startswith(_GROUPS)


def count_iterators(timeline: Timeline) -> int:
    """Return how many iterators of whole pipelines a host made."""
    return len(timeline.trace.find_rows_by_name(lambda name: name == _MAKES))


@dataclass(frozen=True, eq=False)
class IteratorCalls:
    """Every (root call, iterator) pair of one host, sorted by call and iterator.

    call: index of the root call
    iterator: index into `IteratorGraph.ids`
    start: start of the first execution, ps
    total_ps: total time of the executions, ps
    self_ps: self time of the executions, ps
    count: number of executions
    blocking: whether the iterator is on the critical path of the call
    """

    call: Indices
    iterator: Codes
    start: Picoseconds
    total_ps: Picoseconds
    self_ps: Picoseconds
    count: Numbers
    blocking: Mask


@dataclass(frozen=True, eq=False)
class IteratorExecutions:
    """All executions of each iterator of one host, whether or not a root call of the capture led to
    them.

    The arrays have an entry per iterator, in the order of `IteratorGraph.ids`.

    count: number of executions
    start: start of the first execution, ps
    total_ps: total time of the executions, ps
    self_ps: self time of the executions, ps
    """

    count: Numbers
    start: Picoseconds
    total_ps: Picoseconds
    self_ps: Picoseconds


@dataclass(frozen=True, eq=False)
class IteratorGraph:
    """The iterator events of one host, and which of them ran for which.

    trace: the host's trace
    rows: rows of the iterator events
    ids: distinct iterator ids, uint64
    iterator: index into `ids` per event
    parent_id: id of the parent iterator, uint64 per iterator; 0 for none
    first_row: row of the first event per iterator
    cause: position in `rows` of the calling event, per edge
    effect: position in `rows` of the event that ran for it, per edge
    roots: positions in `rows` of the root calls
    device_ids: ids of root iterators whose pipelines run on a device's side
    """

    trace: Trace
    rows: Indices
    ids: Ids
    iterator: Codes
    parent_id: Ids
    first_row: Indices
    cause: Indices
    effect: Indices
    roots: Indices
    device_ids: frozenset[int]

    @once
    def long_names(self) -> tuple[str, ...]:
        """Long name of every iterator: `Iterator::Root::Prefetch::Map`."""
        return tuple(self.trace.names[n] for n in self.trace.name[self.first_row].tolist())

    @once
    def types(self) -> tuple[str, ...]:
        """Type of every iterator: the last part of its long name."""
        return tuple(name.rsplit("::", 1)[-1] for name in self.long_names)

    @once
    def text_columns(self) -> tuple[Column, Column]:
        """Type and id of every iterator, as columns of texts."""
        columns = (self.types, [str(identity) for identity in self.ids.tolist()])
        stage, identity = (np.array([*texts, None], object)[:-1] for texts in columns)
        return stage, identity

    @once
    def last_row(self) -> Indices:
        """Row of the last event per iterator."""
        rows = np.zeros(len(self.ids), self.rows.dtype)
        np.maximum.at(rows, self.iterator, self.rows)
        return rows

    @once
    def overlap_ps(self) -> Picoseconds:
        """Time that the two events of every edge overlap, ps."""
        start, end = self.trace.start[self.rows], self.trace.end[self.rows]
        common: Picoseconds = np.minimum(end[self.cause], end[self.effect]) - np.maximum(start[self.cause], start[self.effect])
        np.maximum(common, 0, out=common)
        return common

    @once
    def self_ps(self) -> Picoseconds:
        """Self time of every event, ps: without the time that overlaps the iterators that it
        called.

        It is never negative, also where the called iterators ran concurrently.
        """
        self_ps = self.trace.duration[self.rows].copy()
        np.subtract.at(self_ps, self.cause, self.overlap_ps)
        return np.maximum(self_ps, 0)

    @once
    def is_critical(self) -> Mask:
        """Whether each iterator is on the critical path of a root call."""
        return np.asarray(np.bincount(self.calls.iterator[self.calls.blocking], minlength=len(self.ids)) > 0)

    @once
    def executions(self) -> IteratorExecutions:
        """All executions by iterator: those in `calls`, and those that begin before or end after
        the root calls.
        """
        count = np.bincount(self.iterator, minlength=len(self.ids))
        start = np.full(len(self.ids), np.iinfo(np.int64).max)
        np.minimum.at(start, self.iterator, self.trace.start[self.rows])
        total, self_ps = np.zeros(len(self.ids), np.int64), np.zeros(len(self.ids), np.int64)
        np.add.at(total, self.iterator, self.trace.duration[self.rows])
        np.add.at(self_ps, self.iterator, self.self_ps)
        return IteratorExecutions(count, start, total, self_ps)

    @once
    def calls(self) -> IteratorCalls:
        """What every root call did, by iterator."""
        return _follow(self)


@memoize
def iterator_graphs(run: Run) -> dict[str, IteratorGraph]:
    """Return the iterator graph of every host that has tf.data events, by host."""
    graphs = {t.host: _graph(t) for t in run.hosts}
    return {host: graph for host, graph in graphs.items() if graph is not None}


def _graph(timeline: Timeline) -> IteratorGraph | None:
    trace = timeline.trace
    trace.load_stats(ITERATOR_STATS)
    is_iterator = timeline.op_kind_mask(OpKind.TF_DATA)
    if not is_iterator.any():
        return None
    identity = trace.stat(dialect.ID)
    with_id = is_iterator[trace.name[identity.rows]]
    row, ids = identity.rows[with_id], identity.uints[with_id]
    if len(row) == 0:
        return None
    distinct, first, index = np.unique(ids, return_index=True, return_inverse=True)
    parent_id = trace.stat(dialect.PARENT_ID).take_ints(row, 0).view(np.uint64)
    cause, effect = _edges(trace, row, ids, parent_id)
    second, root = (
        timeline.event_names.mask(what)[trace.name[row]] for what in (EventFlag.DEVICE_PIPELINE, EventFlag.ITERATOR_ROOT)
    )
    named = trace.stat(dialect.NAME)
    at, place = intersect_indices(row[root], named.rows)
    label, texts = named.encode_texts(place)
    second_root = np.flatnonzero(root)[at][np.array([text == DEVICE_PREFETCH_STAGE for text in texts], bool)[label]]
    return IteratorGraph(
        trace=trace,
        rows=row,
        ids=distinct,
        iterator=index.astype(np.int32),
        parent_id=parent_id[first],
        first_row=row[first],
        cause=cause,
        effect=effect,
        roots=np.flatnonzero(root),
        device_ids=frozenset((*parent_id[second].tolist(), *ids[second_root].tolist())),
    )


def _edges(trace: Trace, row: Indices, ids: Ids, parent_id: Ids) -> tuple[Indices, Indices]:
    """Return positions (caller, callee) of all edges.

    A caller calls the callee on its own thread, or consumes an element that the callee produced on
    another thread.
    """
    parent = trace.parent[row]
    caller = find_positions(row, parent)
    nested = np.flatnonzero(caller >= 0)

    element = trace.stat(dialect.ELEMENT_ID)
    produces, consumes = _pairs(trace, element)
    producer = np.flatnonzero(find_positions(element.rows[produces], parent) >= 0)
    # The first iterator below a producing event is the one that produced the element.
    _, first_child = np.unique(parent[producer], return_index=True)
    producer = producer[first_child]
    # An iterator that is called on the same thread already has an edge.
    producer = producer[(parent_id[producer] != 0) & (caller[producer] < 0)]
    produced = element.uints[np.searchsorted(element.rows, parent[producer])]

    consumer = find_positions(row, trace.parent[element.rows[consumes]])
    consumed = element.uints[consumes][consumer >= 0]
    consumer = consumer[consumer >= 0]
    # An element belongs to the first consumption that ends after its production began.
    begun, done = (
        trace.start[row[producer]],
        trace.end[row[consumer]],
    )
    at = match_latest((ids[consumer], consumed), -done, (parent_id[producer], produced), -begun)
    linked = np.flatnonzero(at >= 0)
    linked = linked[done[at[linked]] >= begun[linked]]
    return np.concatenate((caller[nested], consumer[at[linked]])), np.concatenate((nested, producer[linked])).astype(np.int32)


def _pairs(trace: Trace, element: StatColumn) -> tuple[Indices, Indices]:
    """Return positions in the `element_id` column of producing and of consuming events."""
    of = trace.name[element.rows]
    return np.flatnonzero(event_names(trace).mask(EventFlag.PRODUCER)[of]), np.flatnonzero(
        event_names(trace).mask(EventFlag.CONSUMER)[of]
    )


def _follow(graph: IteratorGraph) -> IteratorCalls:
    """Walk from all root calls at once, level by level, and return the sums per (call,
    iterator).
    """
    trace = graph.trace
    order = np.argsort(graph.cause, kind="stable")
    child, shared = graph.effect[order], graph.overlap_ps[order]
    first = np.searchsorted(graph.cause[order], np.arange(len(graph.rows) + 1))

    call = np.arange(len(graph.roots))
    event, blocking = graph.roots, np.ones(len(graph.roots), bool)
    levels = []
    for _ in range(_DEEPEST):
        if len(event) == 0:
            break
        levels.append((call, event, blocking))
        fan = first[event + 1] - first[event]
        edge = np.repeat(first[event] - np.concatenate(([0], np.cumsum(fan)[:-1])), fan) + np.arange(int(fan.sum()))
        call, blocking = np.repeat(call, fan), np.repeat(blocking, fan) & (shared[edge] > 0)
        event = child[edge]
    return _sum_up(graph, levels, trace.start[graph.rows], trace.duration[graph.rows])


def _sum_up(
    graph: IteratorGraph, levels: list[tuple[Indices, Indices, Mask]], start: Picoseconds, duration: Picoseconds
) -> IteratorCalls:
    call, event, blocking = (
        (np.concatenate(column) for column in zip(*levels, strict=True)) if levels else (np.zeros(0, np.int64),) * 3
    )
    iterator = graph.iterator[event]
    pair, inverse = np.unique(call * len(graph.ids) + iterator, return_inverse=True)
    size = len(pair)
    earliest = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(earliest, inverse, start[event])
    total, self_time = np.zeros(size, np.int64), np.zeros(size, np.int64)
    np.add.at(total, inverse, duration[event])
    np.add.at(self_time, inverse, graph.self_ps[event])
    blocks = np.zeros(size, bool)
    np.logical_or.at(blocks, inverse, blocking.astype(bool))
    return IteratorCalls(
        call=pair // len(graph.ids),
        iterator=(pair % len(graph.ids)).astype(np.int32),
        start=earliest,
        total_ps=total,
        self_ps=self_time,
        count=np.bincount(inverse, minlength=size),
        blocking=blocks,
    )
