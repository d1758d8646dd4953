"""Which events a step caused: from its root events down their subtrees and along producer-consumer links to other threads and devices."""

from __future__ import annotations

import numpy as np

from outpace._once import derived
from outpace.model.arrays import Codes, Ids, Indices, Key
from outpace.timeline.names import Is, names
from outpace.timeline.steps import Steps
from outpace.timeline.workers import by_time, on_host, runs, runs_jax, with_regions
from outpace.trace import StatColumn, Trace, dialect
from outpace.trace.algorithms import common, latest, spread

STATS = (
    dialect.ASYNC,
    dialect.ID,
    dialect.ITER_NUM,
    dialect.CORRELATION_ID,
    dialect.GROUP_ID,
    dialect.RUN_ID,
)


def step_of_events(trace: Trace, steps: Steps, hidden: Indices) -> Codes:
    """Index of the step that every event belongs to, -1 for none. int32, one entry per event."""
    if len(steps) == 0:
        return np.full(len(trace), -1, np.int32)
    trace.load(STATS)
    if steps.groups:
        return _saved_groups(trace, steps)
    mask = np.ones(len(trace), bool)
    mask[trace.stat(dialect.ASYNC).row] = mask[hidden] = False
    mask[steps.root_row] = True
    subtree_end = trace.subtree_ends(None if mask.all() else mask)
    del mask
    cause, effect = _links(trace)
    jax = runs_jax(trace)
    if jax:
        subtree_end = with_regions(trace, subtree_end)
        cause, effect = (np.concatenate(pair) for pair in zip((cause, effect), runs(trace), strict=True))
    group = spread(subtree_end, cause, effect, steps.root_row, steps.root_step)
    group = _devices_by_time(trace, steps, group)
    return by_time(trace, steps.start, steps.end, group, steps.ahead)


def _links(trace: Trace) -> tuple[Indices, Indices]:
    """All cause and effect rows."""
    pairs = [contexts(trace), _executor_inputs(trace), launches(trace)]
    return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])


def _both(first: StatColumn, second: StatColumn) -> tuple[Indices, tuple[Ids, Ids]]:
    """Rows that carry both stats, and the values of each there, uint64."""
    if np.array_equal(first.row, second.row):
        return first.row, (first.uints, second.uints)
    at_first, at_second = common(first.row, second.row)
    return first.row[at_first], (first.uints[at_first], second.uints[at_second])


def partners(trace: Trace, cause: Indices, cause_key: Key, effect: Indices, effect_key: Key) -> tuple[Indices, Indices]:
    """(cause, effect) rows of one clock with equal keys, at most one pair per effect: its cause is the latest that begins no later than it.

    Ids come again in a long capture, in a ring buffer and in files that were put together: what is meant is the event that has just happened.
    """
    cause, effect = _nearest(trace, cause, cause_key, effect, effect_key)
    begun = trace.start[cause] <= trace.start[effect]
    return cause[begun], effect[begun]


def _nearest(trace: Trace, cause: Indices, cause_key: Key, effect: Indices, effect_key: Key) -> tuple[Indices, Indices]:
    """The same, where an effect that seems to begin before all of its causes goes to the first of them."""
    at = latest(cause_key, trace.start[cause], effect_key, trace.start[effect])
    known = at >= 0
    return cause[at[known]], effect[known]


@derived
def contexts(trace: Trace) -> tuple[Indices, Indices]:
    """`_pt`/`_p` (producer) to `_ct`/`_c` (consumer). Most stats of a profile are these, and nothing else asks for them: they are not kept."""
    stats = trace.find_stats((dialect.PRODUCER_ID, dialect.PRODUCER_TYPE, dialect.CONSUMER_ID, dialect.CONSUMER_TYPE))
    producer, producer_type, consumer, consumer_type = stats.values()
    return partners(trace, *_both(producer, producer_type), *_both(consumer, consumer_type))


def _executor_inputs(trace: Trace) -> tuple[Indices, Indices]:
    """The executor run that asked for input, to the input op that a tf.data thread runs for it (before it or later)."""
    rows, (run, iteration) = _both(trace.stat(dialect.ID), trace.stat(dialect.ITER_NUM))
    name = trace.name[rows]
    asked, ran = (np.flatnonzero(names(trace).are(what)[name]) for what in (Is.EXECUTOR, Is.INPUT_REQUEST))
    return _nearest(trace, rows[asked], (run[asked], iteration[asked]), rows[ran], (run[ran], iteration[ran]))


@derived
def launches(trace: Trace) -> tuple[Indices, Indices]:
    """Host launch to device execution, by correlation id (0 is none). The two clocks may differ by more than the time between them."""
    stat = trace.stat(dialect.CORRELATION_ID)
    rows, key = stat.row[stat.uints != 0], stat.uints[stat.uints != 0]
    host = on_host(trace, rows)
    return _nearest(trace, rows[host], key[host], rows[~host], key[~host])


def _saved_groups(trace: Trace, steps: Steps) -> Codes:
    """A file that was saved after grouping says itself which step an event belongs to."""
    group = np.full(len(trace), -1, np.int32)
    stat = trace.stat(dialect.GROUP_ID)
    group[stat.row] = [steps.groups.get(g, -1) for g in stat.ints.tolist()]
    return group


def _devices_by_time(trace: Trace, steps: Steps, group: Codes) -> Codes:
    """Events of device lines that no link reaches (step lines, profiles without links) belong to the step in whose time they start; where
    steps are those of the work, all."""
    for line in (line for plane in trace.planes_like(dialect.DEVICES) for line in plane.lines):
        rows = trace.lines.rows(line)
        if rows.start == rows.stop or (not steps.ahead and np.any(group[rows] >= 0)):
            continue
        at = np.searchsorted(steps.start, trace.start[rows], side="right") - 1
        inside = (at >= 0) & (trace.start[rows] < steps.end[np.maximum(at, 0)])
        group[rows] = np.where(inside, at, -1)
    return group
