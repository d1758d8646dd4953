# SPDX-License-Identifier: Apache-2.0
"""Assignment of events to the steps that caused them: from a step's root events to all events below
them, and along producer-consumer links to other threads and devices.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace.model.arrays import Codes, Ids, Indices, Key
from outpace.timeline.event_names import EventFlag, event_names
from outpace.timeline.steps import Steps
from outpace.timeline.xla_threads import assign_by_time, extend_to_regions, find_execution_links, has_jax_calls, host_mask
from outpace.trace import StatColumn, Trace, dialect
from outpace.trace.algorithms import intersect_indices, match_latest, propagate_groups

LINK_STATS = (
    dialect.IS_ASYNC,
    dialect.ID,
    dialect.ITER_NUM,
    dialect.CORRELATION_ID,
    dialect.GROUP_ID,
    dialect.RUN_ID,
)


def assign_steps(trace: Trace, steps: Steps, ignored_rows: Indices) -> Codes:
    """Return the index of the step of every event of the trace, -1 for none; int32.

    `ignored_rows`: rows of hidden marks, which are left out of the nesting.
    """
    if len(steps) == 0:
        return np.full(len(trace), -1, np.int32)
    trace.load_stats(LINK_STATS)
    if steps.groups:
        return _saved_groups(trace, steps)
    mask = np.ones(len(trace), bool)
    mask[trace.stat(dialect.IS_ASYNC).rows] = mask[ignored_rows] = False
    mask[steps.root_row] = True
    subtree_end = trace.compute_masked_subtree_ends(None if mask.all() else mask)
    del mask
    cause, effect = _links(trace)
    jax = has_jax_calls(trace)
    if jax:
        subtree_end = extend_to_regions(trace, subtree_end)
        cause, effect = (np.concatenate(pair) for pair in zip((cause, effect), find_execution_links(trace), strict=True))
    group = propagate_groups(subtree_end, cause, effect, steps.root_row, steps.root_step)
    group = _devices_by_time(trace, steps, group)
    return assign_by_time(trace, steps.start, steps.end, group, steps.async_dispatch)


def _links(trace: Trace) -> tuple[Indices, Indices]:
    """Return the rows of (causes, effects) of all links."""
    pairs = [find_context_links(trace), _executor_inputs(trace), find_launches(trace)]
    return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])


def _intersect_stats(first: StatColumn, second: StatColumn) -> tuple[Indices, tuple[Ids, Ids]]:
    """Return (rows that have both stats, (values of the first, values of the second)); uint64."""
    if np.array_equal(first.rows, second.rows):
        return first.rows, (first.uints, second.uints)
    at_first, at_second = intersect_indices(first.rows, second.rows)
    return first.rows[at_first], (first.uints[at_first], second.uints[at_second])


def match_causes(trace: Trace, cause: Indices, cause_key: Key, effect: Indices, effect_key: Key) -> tuple[Indices, Indices]:
    """Return (cause, effect) rows of one clock with equal keys, at most one pair per effect. The
    cause is the latest one that begins no later than the effect.

    Ids repeat in a long capture, in a ring buffer and in concatenated files; the right event is the
    one that has just happened.
    """
    cause, effect = _nearest(trace, cause, cause_key, effect, effect_key)
    begun = trace.start[cause] <= trace.start[effect]
    return cause[begun], effect[begun]


def _nearest(trace: Trace, cause: Indices, cause_key: Key, effect: Indices, effect_key: Key) -> tuple[Indices, Indices]:
    """Return pairs as `match_causes` does, but an effect that seems to begin before all of its
    causes is paired with the first of them.
    """
    at = match_latest(cause_key, trace.start[cause], effect_key, trace.start[effect])
    has_cause = at >= 0
    return cause[at[has_cause]], effect[has_cause]


@memoize
def find_context_links(trace: Trace) -> tuple[Indices, Indices]:
    """Return (cause, effect) rows from producers (`_pt`, `_p`) to consumers (`_ct`, `_c`).

    These are most of a profile's stats, and no other function reads them: they are not cached.
    """
    stats = trace.read_stats((dialect.PRODUCER_ID, dialect.PRODUCER_TYPE, dialect.CONSUMER_ID, dialect.CONSUMER_TYPE))
    producer, producer_type, consumer, consumer_type = stats.values()
    return match_causes(trace, *_intersect_stats(producer, producer_type), *_intersect_stats(consumer, consumer_type))


def _executor_inputs(trace: Trace) -> tuple[Indices, Indices]:
    """Return (cause, effect) rows from the executor run that requested input to the input op that a
    tf.data thread runs for it, which may begin earlier or later.
    """
    rows, (run, iteration) = _intersect_stats(trace.stat(dialect.ID), trace.stat(dialect.ITER_NUM))
    name = trace.name[rows]
    requests, inputs = (
        np.flatnonzero(event_names(trace).mask(what)[name]) for what in (EventFlag.EXECUTOR, EventFlag.INPUT_REQUEST)
    )
    return _nearest(trace, rows[requests], (run[requests], iteration[requests]), rows[inputs], (run[inputs], iteration[inputs]))


@memoize
def find_launches(trace: Trace) -> tuple[Indices, Indices]:
    """Return (cause, effect) rows from a launch on the host to its execution on a device, by
    correlation id (0 is none). The effect may seem earlier, because the two clocks may differ by
    more than the time between them.
    """
    stat = trace.stat(dialect.CORRELATION_ID)
    rows, key = stat.rows[stat.uints != 0], stat.uints[stat.uints != 0]
    host = host_mask(trace, rows)
    return _nearest(trace, rows[host], key[host], rows[~host], key[~host])


def _saved_groups(trace: Trace, steps: Steps) -> Codes:
    """Return the step of every event of a file that was saved after grouping, by its `group_id`."""
    group = np.full(len(trace), -1, np.int32)
    stat = trace.stat(dialect.GROUP_ID)
    group[stat.rows] = [steps.groups.get(g, -1) for g in stat.ints.tolist()]
    return group


def _devices_by_time(trace: Trace, steps: Steps, group: Codes) -> Codes:
    """Return `group` with events of device lines that no link reaches (step lines, profiles without
    links) assigned to the step in whose time they start. With `async_dispatch`, all events of
    device lines are assigned that way.
    """
    for line in (line for plane in trace.find_planes(dialect.DEVICE_PREFIX) for line in plane.lines):
        rows = trace.lines.row_slice(line)
        if rows.start == rows.stop or (not steps.async_dispatch and np.any(group[rows] >= 0)):
            continue
        at = np.searchsorted(steps.start, trace.start[rows], side="right") - 1
        inside = (at >= 0) & (trace.start[rows] < steps.end[np.maximum(at, 0)])
        group[rows] = np.where(inside, at, -1)
    return group
