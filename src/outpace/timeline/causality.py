"""Which events a step caused: from its root events down their subtrees and along producer-consumer links to other threads and devices."""

from __future__ import annotations

import numpy as np

from outpace.timeline.steps import Array, Steps
from outpace.trace import Trace
from outpace.trace.algorithms import nest, spread

_CROWD = 64  # a context with this many producers and this many consumers says nothing about who caused whom (as in group_events.cc)
_EXECUTOR = "ExecutorState::Process"
_INPUT_OPS = ("IteratorGetNextOp::DoCompute", "IteratorGetNextAsOptionalOp::DoCompute")
STATS = ("_pt", "_p", "_ct", "_c", "_a", "id", "iter_num", "correlation_id", "group_id")


def step_of_events(trace: Trace, steps: Steps, hidden: Array) -> Array:
    """Index of the step that every event belongs to, -1 for none. int32, one entry per event."""
    if len(steps) == 0:
        return np.full(len(trace), -1, np.int32)
    trace.load(STATS)
    if steps.groups:
        return _saved_groups(trace, steps)
    mask = ~trace.stat("_a").has(len(trace))
    mask[hidden] = False
    mask[steps.root_row] = True
    if mask.all():
        _, subtree_end, _ = trace.nesting
    else:
        _, subtree_end, _ = nest(trace.lines.first_event, trace.start, trace.duration, mask)
    cause, effect = _links(trace)
    group = spread(subtree_end, cause, effect, steps.root_row, steps.root_step)
    return _devices_by_time(trace, steps, group)


def _links(trace: Trace) -> tuple[Array, Array]:
    """All cause and effect rows, sorted by cause."""
    pairs = [_contexts(trace), _executor_inputs(trace), _launches(trace)]
    cause = np.concatenate([p[0] for p in pairs])
    effect = np.concatenate([p[1] for p in pairs])
    order = np.argsort(cause, kind="stable")
    return cause[order], effect[order]


def _join(cause: Array, cause_key: Array, effect: Array, effect_key: Array, *, crowd: int | None = None) -> tuple[Array, Array]:
    """All pairs (cause row, effect row) with equal keys."""
    order = np.argsort(cause_key, kind="stable")
    cause, cause_key = cause[order], cause_key[order]
    low = np.searchsorted(cause_key, effect_key, side="left")
    count = np.searchsorted(cause_key, effect_key, side="right") - low
    if crowd is not None and len(effect_key):
        _, inverse, consumers = np.unique(effect_key, return_inverse=True, return_counts=True)
        count = np.where((count >= crowd) & (consumers[inverse] >= crowd), 0, count)
    first = np.repeat(low - np.concatenate(([0], np.cumsum(count)[:-1])), count) if len(count) else low
    picked = first + np.arange(int(count.sum()))
    return cause[picked], np.repeat(effect, count)


def _context_keys(trace: Trace, kind: str, identity: str) -> tuple[Array, Array]:
    """Rows that carry both stats of a context, with one 64-bit key for (type, id)."""
    types, ids = trace.stat(kind), trace.stat(identity)
    rows, at_type, at_id = np.intersect1d(types.row, ids.row, assume_unique=True, return_indices=True)
    with np.errstate(over="ignore"):
        key = ids.uints[at_id] * np.uint64(0x9E3779B97F4A7C15) + types.uints[at_type] * np.uint64(0xC2B2AE3D27D4EB4F)
    return rows, key


def _contexts(trace: Trace) -> tuple[Array, Array]:
    """`_pt`/`_p` (producer) to `_ct`/`_c` (consumer)."""
    cause, cause_key = _context_keys(trace, "_pt", "_p")
    effect, effect_key = _context_keys(trace, "_ct", "_c")
    return _join(cause, cause_key, effect, effect_key, crowd=_CROWD)


def _executor_inputs(trace: Trace) -> tuple[Array, Array]:
    """The executor run that asked for input, to the input op that a tf.data thread runs for it."""
    executor = trace.named(lambda n: n == _EXECUTOR)
    inputs = trace.named(lambda n: n in _INPUT_OPS)
    none = np.zeros(0, np.int64)
    if len(executor) == 0 or len(inputs) == 0:
        return none, none
    identity, iteration = trace.stat("id"), trace.stat("iter_num")

    def keys(rows: Array) -> tuple[Array, Array]:
        rows = rows[np.isin(rows, identity.row) & np.isin(rows, iteration.row)]
        with np.errstate(over="ignore"):
            mixed = identity.uints[np.searchsorted(identity.row, rows)] * np.uint64(0x9E3779B97F4A7C15)
            return rows, mixed + iteration.uints[np.searchsorted(iteration.row, rows)]

    cause, cause_key = keys(executor)
    last = len(cause) - 1 - np.unique(cause_key[::-1], return_index=True)[1]  # of several runs with one key the last one counts
    return _join(cause[last], cause_key[last], *keys(inputs))


def _launches(trace: Trace) -> tuple[Array, Array]:
    """Host launch to device execution, by correlation id."""
    stat = trace.stat("correlation_id")
    if len(stat) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    on_host = np.fromiter((p.name.startswith("/host:") for p in trace.planes), bool, len(trace.planes))
    is_host = on_host[trace.lines.plane[trace.line[stat.row]]]
    rows, key = stat.row.astype(np.int64), stat.uints
    return _join(rows[is_host], key[is_host], rows[~is_host], key[~is_host])


def _saved_groups(trace: Trace, steps: Steps) -> Array:
    """A file that was saved after grouping says itself which step an event belongs to."""
    group = np.full(len(trace), -1, np.int32)
    stat = trace.stat("group_id")
    group[stat.row] = [steps.groups.get(g, -1) for g in stat.ints.tolist()]
    return group


def _devices_by_time(trace: Trace, steps: Steps, group: Array) -> Array:
    """Device events that no link reaches belong to the step in whose time they start (device step lines, profiles without launch links)."""
    for plane in trace.planes_like("/device:"):
        rows = trace.rows_of(plane)
        mine = group[rows]
        if np.any(mine >= 0) or rows.start == rows.stop:
            continue
        at = np.searchsorted(steps.start, trace.start[rows], side="right") - 1
        inside = (at >= 0) & (trace.start[rows] < steps.end[np.maximum(at, 0)])
        group[rows] = np.where(inside, at, -1)
    return group
