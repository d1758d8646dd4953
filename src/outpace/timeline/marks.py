# SPDX-License-Identifier: Apache-2.0
"""Steps that the profile itself marks: explicit marks, a device's step line, Keras' `Profiled
batch`.
"""

from __future__ import annotations

import numpy as np

from outpace.model import median
from outpace.model.arrays import Codes, Indices, Mask, Numbers, Picoseconds
from outpace.model.units import format_count
from outpace.timeline.event_names import EventFlag, event_names
from outpace.timeline.steps import Confidence, Steps, StepSource
from outpace.trace import Plane, Trace, dialect
from outpace.trace.algorithms import distinct, intersect_indices

_SHORT = 0.5  # share of the median mark below which a mark is a call without data, which does no work of a step


def find_step_marks(trace: Trace) -> Indices:
    """Return the event rows of explicit marks, which have `_r` and a step number. (`_r` alone is
    also on tf.data's function runs.)
    """
    trace.load_stats((dialect.IS_ROOT, dialect.STEP_NUM))
    return _numbered_marks(trace, trace.stat(dialect.IS_ROOT).rows)


def find_keras_marks(trace: Trace) -> Indices:
    """Return the event rows of Keras' own batch marks, which lack `_r`."""
    return _numbered_marks(trace, event_names(trace).rows(EventFlag.KERAS_BATCH))


def _numbered_marks(trace: Trace, rows: Indices) -> Indices:
    return distinct(rows[intersect_indices(rows, trace.stat(dialect.STEP_NUM).rows)[0]])


def build_steps_from_marks(trace: Trace, rows: Indices, source: StepSource) -> Steps:
    """Return one step per mark, of the mark's duration. Marks within other marks, and those of a
    second thread that overlap the main thread's, are no steps.
    """
    rows = trace.find_outermost(rows)
    line = trace.line[rows]
    rows = rows[_main_thread_mask(trace, rows, line)]
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    column = trace.stat(dialect.STEP_NUM)
    number, name = column.ints[np.searchsorted(column.rows, rows)], trace.names[trace.name[rows[0]]]
    empty = _begun_again(number, trace.duration[rows])
    rows, number = rows[~empty], number[~empty]
    without = f", without {int(empty.sum())} that found no data" if empty.any() else ""
    return Steps(
        source=source,
        confidence=Confidence.CERTAIN,
        explanation=f"{format_count(len(rows), 'step marker')} '{name}' in the profile{without}",
        number=number,
        start=trace.start[rows],
        end=trace.end[rows],
        line=trace.line[rows],
        complete=np.ones(len(rows), bool),
        root_row=rows.astype(np.int32),
        root_step=np.arange(len(rows), dtype=np.int32),
    )


def _begun_again(number: Numbers, duration: Picoseconds) -> Mask:
    """Return a boolean per mark, in order of time: whether it is short and the next mark has the
    same number. Keras begins a batch when the epoch's data has ended, and begins it again in the
    next epoch.
    """
    again = np.append(number[1:] == number[:-1], False)
    return np.asarray(again & (duration < _SHORT * median(duration)))


def _main_thread_mask(trace: Trace, rows: Indices, line: Codes) -> Mask:
    """Return a boolean per mark: true for all threads' marks where they do not overlap, else only
    for those of the busiest thread.
    """
    order = np.argsort(trace.start[rows], kind="stable")
    start, end = trace.start[rows][order], trace.end[rows][order]
    if not np.any(start[1:] < np.maximum.accumulate(end)[:-1]):
        return np.ones(len(rows), bool)
    threads = distinct(line)
    busiest = max(threads, key=lambda t: int(trace.duration[rows[line == t]].sum()))
    return np.asarray(line == busiest)


def find_device_step_lines(trace: Trace) -> list[tuple[Plane, int]]:
    """Return (plane, line) of the non-empty step lines of devices."""
    names, first = trace.lines.names, trace.lines.first_event
    lines = [(plane, line) for plane in trace.find_planes(dialect.DEVICE_PREFIX) for line in plane.lines]
    return [(plane, line) for plane, line in lines if names[line] == dialect.STEP_LINE and first[line + 1] > first[line]]


def build_steps_from_lines(trace: Trace, lines: list[tuple[Plane, int]]) -> Steps:
    """Return steps from devices' step lines. Step events of one name on several devices are one
    step, with the times of the device that took longest.
    """
    spans: dict[str, tuple[int, int]] = {}
    for _, line in lines:
        rows = trace.lines.row_slice(line)
        columns = (trace.name[rows].tolist(), trace.start[rows].tolist(), trace.end[rows].tolist())
        for code, *times in zip(*columns, strict=True):
            name, span = trace.names[code], (times[0], times[1])
            previous = spans.get(name)
            if previous is None or span[1] - span[0] > previous[1] - previous[0]:
                spans[name] = span
    steps = sorted(spans.items(), key=lambda item: item[1])
    numbers = [int(name) if name.lstrip("-").isdigit() else i for i, (name, _) in enumerate(steps)]
    none = np.zeros(0, np.int32)
    return Steps(
        source=StepSource.DEVICE_LINE,
        confidence=Confidence.HIGH,
        explanation=f"the step line of {format_count(len(lines), 'device')}",
        number=np.array(numbers, np.int64),
        start=np.array([s for _, (s, _) in steps], np.int64),
        end=np.array([e for _, (_, e) in steps], np.int64),
        line=np.full(len(steps), -1, np.int32),
        complete=np.ones(len(steps), bool),
        root_row=none,
        root_step=none,
        groups=_groups(trace, lines, [name for name, _ in steps]),
    )


def _groups(trace: Trace, lines: list[tuple[Plane, int]], names: list[str]) -> dict[int, int]:
    """Return the step index by `group_id` of step events; in files that were saved after grouping,
    that stat assigns events to steps.
    """
    stat = trace.stat(dialect.GROUP_ID)
    place = {name: i for i, name in enumerate(names)}
    groups = {}
    for _, line in lines:
        rows = trace.lines.row_slice(line)
        low, high = np.searchsorted(stat.rows, [rows.start, rows.stop])
        for row, group in zip(stat.rows[low:high].tolist(), stat.ints[low:high].tolist(), strict=True):
            groups[group] = place[trace.names[trace.name[row]]]
    return groups
