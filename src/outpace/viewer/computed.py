"""Tracks that are no line of the profile: steps, allocated memory, and tf.data stages by source line."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace.metrics.input.iterators import IteratorGraph
from outpace.metrics.input.stage_labels import source
from outpace.model.arrays import Numbers, Picoseconds
from outpace.timeline import Timeline
from outpace.timeline.names import Is
from outpace.timeline.names import names as event_names
from outpace.timeline.run import Record
from outpace.trace import Trace, dialect
from outpace.trace.algorithms import common
from outpace.trace.export import ComputedSlices

STEPS, STAGES = "step", "tf.data stage"  # categories, which tell computed slices from events


def steps(timeline: Timeline) -> ComputedSlices:
    """One slice per step, with what is known about it."""
    found = timeline.steps
    count = len(found)
    whole = ["yes" if complete else "no: the capture begins or ends within it" for complete in found.complete.tolist()]
    return ComputedSlices(
        found.start,
        found.duration,
        [f"step {number}" for number in found.number.tolist()],
        {
            "number": found.number,
            "kind": [found.kind] * count,
            "complete": whole,
            "found by": [found.source.value] * count,
            "confidence": [found.confidence.value] * count,
            "steps in it": np.full(count, found.per_row),
        },
        STEPS,
    )


def memory(trace: Trace) -> Iterator[tuple[str, Picoseconds, Numbers]]:
    """Bytes allocated over time: (allocator, times in ps, bytes) for every allocator that reports its allocations."""
    trace.load((dialect.ALLOCATOR_NAME, dialect.BYTES_ALLOCATED))
    rows = event_names(trace).rows(Is.ALLOCATION | Is.DEALLOCATION).astype(np.int32)
    used, allocator = trace.stat(dialect.BYTES_ALLOCATED), trace.stat(dialect.ALLOCATOR_NAME)
    of_rows, at = common(rows, used.row)
    rows, amount = rows[of_rows], used.ints[at]
    of_rows, at = common(rows, allocator.row)
    code, names = allocator.codes(at)
    for number, name in enumerate(names):
        mine = of_rows[code == number]
        order = np.argsort(trace.start[rows[mine]], kind="stable")
        yield name, trace.start[rows[mine]][order], amount[mine][order]


def stages(graph: IteratorGraph, record: Record) -> Iterator[tuple[str, ComputedSlices]]:
    """(source line, its calls) for every tf.data stage whose label leads to a line of the program; nothing without such labels."""
    trace, label = graph.trace, graph.trace.stat(dialect.NAME)
    of_rows, at = common(graph.row.astype(np.int32), label.row)
    code, names = label.codes(at)
    for number, name in enumerate(names):
        line = source(name, record) if record else ""
        if not line:
            continue
        rows = graph.row[of_rows[code == number]]
        long_names = [trace.names[n] for n in trace.name[rows].tolist()]
        yield line, ComputedSlices(trace.start[rows], trace.duration[rows], long_names, {}, STAGES)
