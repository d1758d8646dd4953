# SPDX-License-Identifier: Apache-2.0
"""Tracks that are computed instead of copied from a line of the profile: steps, allocated memory,
and tf.data stages by source line.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace.metrics.facts.input_iterators import IteratorGraph
from outpace.metrics.stage_labels import stage_source
from outpace.model.arrays import Numbers, Picoseconds
from outpace.timeline import Timeline
from outpace.timeline.event_names import EventFlag
from outpace.timeline.event_names import event_names as event_names
from outpace.timeline.run import Record
from outpace.trace import Trace, dialect
from outpace.trace.algorithms import intersect_indices
from outpace.trace.export import ComputedSlices

STEP_CATEGORY, STAGE_CATEGORY = "step", "tf.data stage"  # categories that distinguish computed slices from events


def build_step_slices(timeline: Timeline) -> ComputedSlices:
    """Return one slice per step, with the step's attributes as arguments."""
    steps = timeline.steps
    count = len(steps)
    whole = ["yes" if complete else "no: the capture begins or ends within it" for complete in steps.complete.tolist()]
    return ComputedSlices(
        steps.start,
        steps.duration,
        [f"step {number}" for number in steps.number.tolist()],
        {
            "number": steps.number,
            "kind": [steps.kind] * count,
            "complete": whole,
            "found by": [steps.source.value] * count,
            "confidence": [steps.confidence.value] * count,
            "steps in it": np.full(count, steps.steps_per_execution),
        },
        STEP_CATEGORY,
    )


def iter_memory_counters(trace: Trace) -> Iterator[tuple[str, Picoseconds, Numbers]]:
    """Yield (allocator, times in ps, allocated bytes) for every allocator that reports its
    allocations.
    """
    trace.load_stats((dialect.ALLOCATOR_NAME, dialect.BYTES_ALLOCATED))
    rows = event_names(trace).rows(EventFlag.ALLOCATION | EventFlag.DEALLOCATION).astype(np.int32)
    used, allocator = trace.stat(dialect.BYTES_ALLOCATED), trace.stat(dialect.ALLOCATOR_NAME)
    of_rows, at = intersect_indices(rows, used.rows)
    rows, amount = rows[of_rows], used.ints[at]
    of_rows, at = intersect_indices(rows, allocator.rows)
    code, names = allocator.encode_texts(at)
    for number, name in enumerate(names):
        places = of_rows[code == number]
        order = np.argsort(trace.start[rows[places]], kind="stable")
        yield name, trace.start[rows[places]][order], amount[places][order]


def iter_stage_slices(graph: IteratorGraph, record: Record) -> Iterator[tuple[str, ComputedSlices]]:
    """Yield (source line, slices of its calls) for every tf.data stage whose label refers to a line
    of the program; nothing where there are no such labels.
    """
    trace, label = graph.trace, graph.trace.stat(dialect.NAME)
    of_rows, at = intersect_indices(graph.rows.astype(np.int32), label.rows)
    code, names = label.encode_texts(at)
    for number, name in enumerate(names):
        line = stage_source(name, record) if record else ""
        if not line:
            continue
        rows = graph.rows[of_rows[code == number]]
        long_names = [trace.names[n] for n in trace.name[rows].tolist()]
        yield line, ComputedSlices(trace.start[rows], trace.duration[rows], long_names, {}, STAGE_CATEGORY)
