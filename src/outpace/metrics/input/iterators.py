"""tf.data iterators: what each call of an input pipeline did, stage by stage.

Meaning as in `xplane_to_tf_data_stats.cc` of openxla/xprof, the analysis that the TensorFlow Profiler guide describes: a call of the
root iterator is followed into the iterators that it called on its own thread, and, across an asynchronous stage, into those that
produced the very element that it consumed. A stage's self time leaves out the time that overlaps its children; a stage is on the
critical path when it and all above it overlap their caller.
"""

from __future__ import annotations

import numpy as np

from outpace._dataclass import dataclass
from outpace._once import derived, once
from outpace.model.arrays import Codes, Column, Ids, Indices, Mask, Numbers, Picoseconds
from outpace.timeline import OpKind, Run, Timeline
from outpace.timeline.names import DEVICE_PREFETCH, Is, names
from outpace.trace import StatColumn, Trace, dialect
from outpace.trace.algorithms import common, latest, placed

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
_DEEPEST = 100  # levels followed below a root, as in the reference
STATS = (dialect.ID, dialect.PARENT_ID, dialect.ELEMENT_ID, dialect.NAME, dialect.PARALLELISM, dialect.AUTOTUNE)


def is_async(iterator_type: str) -> bool:
    """Whether a stage hands elements over from threads of its own: its consumer mostly waits in it."""
    return iterator_type.removeprefix("Legacy").startswith(ASYNC_TYPES)


def shuffles(iterator_type: str) -> bool:
    """Whether a stage gives its elements another order in every epoch."""
    return iterator_type.startswith(_SHUFFLES)


def draws(iterator_type: str) -> bool:
    """Whether a stage gives other elements in every epoch."""
    return iterator_type.startswith(_DRAWS)


def groups(iterator_type: str) -> bool:
    """Whether a stage puts elements together: in another order they make other groups."""
    return iterator_type.startswith(_GROUPS)


@dataclass(frozen=True, eq=False)
class Calls:
    """Every (root call, iterator) pair of one host. Arrays run in parallel, sorted by (call, iterator).

    call: index of the root call; iterator: index into `IteratorGraph.ids`; start, total, self_time: ps (start of the first execution, sums
    over executions); count: executions; blocking: on the critical path of that call.
    """

    call: Indices
    iterator: Codes
    start: Picoseconds
    total: Picoseconds
    self_time: Picoseconds
    count: Numbers
    blocking: Mask


@dataclass(frozen=True, eq=False)
class Executions:
    """Every execution of every iterator of one host, whether a root call of the capture led to it or not. Arrays run along `IteratorGraph.ids`.

    count: executions; start: ps, of the first; total, self_time: ps, sums over them.
    """

    count: Numbers
    start: Picoseconds
    total: Picoseconds
    self_time: Picoseconds


@dataclass(frozen=True, eq=False)
class IteratorGraph:
    """The iterator events of one host.

    row: event rows; ids: distinct uint64 iterator ids; iterator: index into ids per event; parent_id: uint64 per iterator (0: none);
    name_row: a row of `trace.names` per iterator (its long name); first_row: an event row per iterator.
    cause, effect: positions in `row`: the second ran for the first. `roots`: positions of root calls.
    """

    trace: Trace
    row: Indices
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
        """Last part of every long name."""
        return tuple(name.rsplit("::", 1)[-1] for name in self.long_names)

    @once
    def texts(self) -> tuple[Column, Column]:
        """Type and id of every iterator, as columns of texts."""
        columns = (self.types, [str(identity) for identity in self.ids.tolist()])
        stage, identity = (np.array([*texts, None], object)[:-1] for texts in columns)
        return stage, identity

    @once
    def last_row(self) -> Indices:
        """An event row per iterator, its last."""
        rows = np.zeros(len(self.ids), self.row.dtype)
        np.maximum.at(rows, self.iterator, self.row)
        return rows

    @once
    def overlap(self) -> Picoseconds:
        """Time that cause and effect of every edge have in common, ps."""
        start, end = self.trace.start[self.row], self.trace.end[self.row]
        common: Picoseconds = np.minimum(end[self.cause], end[self.effect]) - np.maximum(start[self.cause], start[self.effect])
        np.maximum(common, 0, out=common)
        return common

    @once
    def own(self) -> Picoseconds:
        """Self time of every event, ps: without what overlaps the iterators that it called. Of those that ran at once nothing is left."""
        own = self.trace.duration[self.row].copy()
        np.subtract.at(own, self.cause, self.overlap)
        return np.maximum(own, 0)

    @once
    def on_path(self) -> Mask:
        """Whether each iterator blocks a root call."""
        return np.asarray(np.bincount(self.calls.iterator[self.calls.blocking], minlength=len(self.ids)) > 0)

    @once
    def executions(self) -> Executions:
        """Every execution, iterator by iterator: those that `calls` attributes to root calls, and those that begin before or end after them."""
        count = np.bincount(self.iterator, minlength=len(self.ids))
        start = np.full(len(self.ids), np.iinfo(np.int64).max)
        np.minimum.at(start, self.iterator, self.trace.start[self.row])
        total, own = np.zeros(len(self.ids), np.int64), np.zeros(len(self.ids), np.int64)
        np.add.at(total, self.iterator, self.trace.duration[self.row])
        np.add.at(own, self.iterator, self.own)
        return Executions(count, start, total, own)

    @once
    def calls(self) -> Calls:
        """What every root call did, iterator by iterator."""
        return _follow(self)


@derived
def iterators(run: Run) -> dict[str, IteratorGraph]:
    """The iterator graph of every host that has tf.data activity."""
    graphs = {t.host: _graph(t) for t in run.hosts}
    return {host: graph for host, graph in graphs.items() if graph is not None}


def _graph(timeline: Timeline) -> IteratorGraph | None:
    trace = timeline.trace
    trace.load(STATS)
    is_iterator = timeline.is_kind(OpKind.TF_DATA)
    if not is_iterator.any():
        return None
    identity = trace.stat(dialect.ID)
    with_id = is_iterator[trace.name[identity.row]]
    row, ids = identity.row[with_id], identity.uints[with_id]
    if len(row) == 0:
        return None
    distinct, first, index = np.unique(ids, return_index=True, return_inverse=True)
    parent_id = trace.stat(dialect.PARENT_ID).ints_of(row, 0).view(np.uint64)
    cause, effect = _edges(trace, row, ids, parent_id)
    second, root = (timeline.names.are(what)[trace.name[row]] for what in (Is.DEVICE_PIPELINE, Is.ITERATOR_ROOT))
    named = trace.stat(dialect.NAME)
    at, place = common(row[root], named.row)
    label, texts = named.codes(place)
    second_root = np.flatnonzero(root)[at][np.array([text == DEVICE_PREFETCH for text in texts], bool)[label]]
    return IteratorGraph(
        trace=trace,
        row=row,
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
    """Positions (caller, callee): direct nesting on a thread, and consumption of an element that another thread produced."""
    parent = trace.parent[row]
    caller = placed(row, parent)
    nested = np.flatnonzero(caller >= 0)

    element = trace.stat(dialect.ELEMENT_ID)
    produces, consumes = _pairs(trace, element)
    producer = np.flatnonzero(placed(element.row[produces], parent) >= 0)
    _, first_child = np.unique(parent[producer], return_index=True)  # an element's first iterator is what produced it
    producer = producer[first_child]
    producer = producer[(parent_id[producer] != 0) & (caller[producer] < 0)]  # what is called on the same thread has its caller
    produced = element.uints[np.searchsorted(element.row, parent[producer])]

    consumer = placed(row, trace.parent[element.row[consumes]])
    consumed = element.uints[consumes][consumer >= 0]
    consumer = consumer[consumer >= 0]
    begun, done = (
        trace.start[row[producer]],
        trace.end[row[consumer]],
    )  # an element goes to the first consumption that ends after that
    at = latest((ids[consumer], consumed), -done, (parent_id[producer], produced), -begun)
    linked = np.flatnonzero(at >= 0)
    linked = linked[done[at[linked]] >= begun[linked]]
    return np.concatenate((caller[nested], consumer[at[linked]])), np.concatenate((nested, producer[linked])).astype(np.int32)


def _pairs(trace: Trace, element: StatColumn) -> tuple[Indices, Indices]:
    """Positions in the `element_id` column of producing and of consuming events."""
    of = trace.name[element.row]
    return np.flatnonzero(names(trace).are(Is.PRODUCES)[of]), np.flatnonzero(names(trace).are(Is.CONSUMES)[of])


def _follow(graph: IteratorGraph) -> Calls:
    """Walk from all root calls at once, level by level, and sum up per (call, iterator)."""
    trace = graph.trace
    order = np.argsort(graph.cause, kind="stable")
    child, shared = graph.effect[order], graph.overlap[order]
    first = np.searchsorted(graph.cause[order], np.arange(len(graph.row) + 1))

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
    return _sum_up(graph, levels, trace.start[graph.row], trace.duration[graph.row])


def _sum_up(
    graph: IteratorGraph, levels: list[tuple[Indices, Indices, Mask]], start: Picoseconds, duration: Picoseconds
) -> Calls:
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
    np.add.at(self_time, inverse, graph.own[event])
    blocks = np.zeros(size, bool)
    np.logical_or.at(blocks, inverse, blocking.astype(bool))
    return Calls(
        call=pair // len(graph.ids),
        iterator=(pair % len(graph.ids)).astype(np.int32),
        start=earliest,
        total=total,
        self_time=self_time,
        count=np.bincount(inverse, minlength=size),
        blocking=blocks,
    )
