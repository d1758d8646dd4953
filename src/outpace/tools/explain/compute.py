# SPDX-License-Identifier: Apache-2.0
"""Attribution of every moment of one step to one event."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.metrics.facts.op_metrics import device_op_names, parse_device_op
from outpace.metrics.facts.step_breakdown import (
    Planes,
    averaged_devices,
    category_of,
    event_kinds,
    step_breakdown,
    step_event_times,
    time_matched_work,
    work_rows,
)
from outpace.metrics.kernel_names import kernel_function_name
from outpace.model import Category, Table, UsageError
from outpace.model.arrays import Codes, Indices, Picoseconds
from outpace.timeline import Run, Timeline
from outpace.tools.explain.schema import CATEGORIES, EVENTS, GROUPS
from outpace.trace import Plane, dialect
from outpace.trace.algorithms import isin

NO_EVENT = "(no event)"
_NOBODY = -1  # event row of time in which no event is open
# Rows of -2 and below (`_OTHER - row`) encode events that are counted a second time, for another
# time span or kind than their own.
_OTHER = -2


@dataclass(frozen=True)
class TargetStep:
    """The step to explain.

    timeline: timeline of the host that recorded the step
    index: index of the step in the timeline's steps
    """

    timeline: Timeline
    index: int

    @property
    def number(self) -> int:
        """Number of the step as the program counts it."""
        return int(self.timeline.steps.number[self.index])

    @property
    def span(self) -> tuple[int, int]:
        """Start and end of the step, ps."""
        steps = self.timeline.steps
        return int(steps.start[self.index]), int(steps.end[self.index])

    @property
    def device(self) -> Plane | None:
        """The device that is explained where the host has several: the one that works longest in
        the step. None where the host does not have several devices that work in its steps.
        """
        return max(averaged_devices(self.timeline), key=self._busy_ps, default=None)

    def _busy_ps(self, device: Plane) -> int:
        """Return the summed duration of a device's events in the step, ps."""
        rows = work_rows(self.timeline, (device,))
        return int(self.timeline.trace.duration[rows[self.timeline.step_index[rows] == self.index]].sum())

    @property
    def device_name(self) -> str:
        """Name of the device without its plane prefix, such as `GPU:2`; "" without a device."""
        return self.device.name.removeprefix(dialect.DEVICE_PREFIX) if self.device else ""

    @property
    def planes(self) -> Planes:
        """Planes whose events are explained; None for all."""
        return None if self.device is None else (*self.timeline.host_planes, self.device)


def select_step(run: Run, step: int | None, host: str | None) -> TargetStep | None:
    """Return the step with a number, or the slowest complete one; None where no host has steps.

    step: number of the step; None for the slowest complete step
    host: host whose steps are searched; None for all, of which those that run the main program of
        the report are preferred for the slowest step

    Raises UsageError where the host or the step was not recorded.
    """
    hosts = [t for t in run.hosts if len(t.steps)]
    if host is not None:
        hosts = [t for t in hosts if t.host == host]
        if not hosts:
            raise UsageError(f"No host '{host}' recorded steps. There are: {', '.join(t.host for t in run.hosts)}.")
    if not hosts:
        return None
    if step is None:
        main_hosts = main_program_hosts(run) if host is None else ()
        slowest = [_slowest(timeline) for timeline in hosts]
        return max(
            slowest,
            key=lambda target: (
                target.timeline.host in main_hosts,
                int(target.timeline.steps.duration[target.index]),
            ),
        )
    for timeline in hosts:
        places = np.flatnonzero(timeline.steps.number == step)
        if len(places):
            return TargetStep(timeline, int(places[0]))
    numbers = "; ".join(f"{t.host}: {t.steps.number[0]} to {t.steps.number[-1]}" for t in hosts)
    raise UsageError(f"There is no step {step}. Recorded are {numbers}.")


def _slowest(timeline: Timeline) -> TargetStep:
    """Return the slowest of a host's complete steps; the first of several equal ones."""
    captured = timeline.steps.complete_rows
    return TargetStep(timeline, int(captured[np.argmax(timeline.steps.duration[captured])]))


def attribute_time(target: TargetStep) -> dict[tuple[int, int], int]:
    """Return the time in ps by (kind, event row) of one step; row -1 stands for time without an
    event.

    The algorithm is that of the step-time breakdown (`ox_sweep`): the highest kind with an open
    event gets the time. Among the open events of that kind, the one that started last gets it,
    which is the innermost where events nest. Of several devices only the busiest is used, since the
    work of one device would hide what the others do at the same moment.
    """
    timeline, (begin, end) = target.timeline, target.span
    planes = target.planes
    kind, work = event_kinds(timeline), work_rows(timeline, planes)
    work = work[timeline.step_index[work] == target.index]
    other, code, start, stop = _time_matched_events(timeline, planes, kind, work, begin, end)
    rows, codes = np.concatenate((work, _OTHER - other)), np.concatenate((kind[work].astype(np.int64), code))
    began, ended = step_event_times(timeline, work, planes)
    first = np.maximum(np.concatenate((began, start)), begin)
    last = np.minimum(np.concatenate((ended, stop)), end)
    inside = first < last
    rows, codes, first, last = rows[inside], codes[inside], first[inside], last[inside]
    moments = np.concatenate((first, last))
    opens = np.repeat([True, False], len(rows))
    both, which = np.concatenate((rows, rows)), np.concatenate((codes, codes))
    order = np.lexsort((both, -which, opens, moments))
    time_by_event: dict[tuple[int, int], int] = {}
    walked = _walk(moments[order].tolist(), opens[order].tolist(), both[order].tolist(), which[order].tolist(), begin, end)
    for (event_kind, row), time in walked.items():
        key = (event_kind, _OTHER - row if row <= _OTHER else row)
        time_by_event[key] = time_by_event.get(key, 0) + time
    return time_by_event


def _time_matched_events(
    timeline: Timeline, planes: Planes, kind: Codes, work: Indices, begin: int, end: int
) -> tuple[Indices, Codes, Picoseconds, Picoseconds]:
    """Return (event row, kind, start, end), in ps, of the events that count for the step only
    because of their time, without those that are counted already.
    """
    row, code, start, stop = time_matched_work(timeline, kind, planes)
    counted = np.zeros(len(kind), bool)
    counted[work] = True
    is_counted = counted[row] & (kind[row] == code) & (start == timeline.trace.start[row]) & (stop == timeline.trace.end[row])
    mask = ~is_counted & (start < end) & (stop > begin) & (stop > start)
    return row[mask], code[mask], start[mask], stop[mask]


def _walk(
    moments: list[int], opens: list[bool], row: list[int], kind: list[int], begin: int, end: int
) -> dict[tuple[int, int], int]:
    """Return the time in ps by (kind, event row), from the starts and ends of events in order of
    time.

    moments, opens, row, kind: time in ps, whether an event starts, event row and kind, one item per
        start or end
    begin, end: span of the step, ps
    """
    time_by_event: dict[tuple[int, int], int] = {}
    balance = [0] * 256
    stacks: dict[int, list[int]] = {}
    closed: set[int] = set()
    highest, now = 0, begin
    for moment, starts, event, event_kind in zip(moments, opens, row, kind, strict=True):
        if moment > now:
            key = (highest, _owner(highest, stacks, closed) if highest else _NOBODY)
            time_by_event[key] = time_by_event.get(key, 0) + moment - now
            now = moment
        if starts:
            balance[event_kind] += 1
            stacks.setdefault(event_kind, []).append(event)
            highest = max(highest, event_kind)
        else:
            balance[event_kind] -= 1
            closed.add(event)
            if balance[event_kind] == 0 and event_kind == highest:
                highest -= 1
                while highest > 0 and balance[highest] <= 0:
                    highest -= 1
    if end > now:
        time_by_event[0, _NOBODY] = time_by_event.get((0, _NOBODY), 0) + end - now
    return time_by_event


def _owner(kind: int, stacks: dict[int, list[int]], closed: set[int]) -> int:
    """Return the row of the open event of a kind that started last."""
    stack = stacks[kind]
    while stack[-1] in closed:
        stack.pop()
    return stack[-1]


def compute_events(target: TargetStep, wanted: Category | None) -> Table:
    """Return `EVENTS`: the events of a step that count for a category, most time first.

    wanted: the category; None for all categories
    """
    trace, (begin, _) = target.timeline.trace, target.span
    counted = list(_category_times(target, wanted))
    belongs = _ops(target, {row for _, row, _ in counted})
    # Row 0 stands in for "no event" (-1), whose columns are not read.
    of = np.maximum([row for _, row, _ in counted], 0).astype(np.int64)
    columns = (trace.line[of].tolist(), trace.name[of].tolist(), trace.start[of].tolist(), trace.duration[of].tolist())
    rows = []
    for (kind, row, time), line, name_at, start, duration in zip(counted, *columns, strict=True):
        cells = {"category": category_of(kind).label, "counted_ps": time}
        if row == _NOBODY:
            rows.append(
                EVENTS.row(cells, op=NO_EVENT, kernel="", event=NO_EVENT, plane="", thread="", offset_ps=0, duration_ps=0)
            )
            continue
        name = trace.names[name_at]
        function = kernel_function_name(name)
        op, kernel = (
            (belongs[row], function) if row in belongs else (function if name.startswith(f"%{function} = ") else name, "")
        )
        cells |= {"plane": trace.planes[trace.lines.plane[line]].name, "thread": trace.lines.titles[line]}
        rows.append(EVENTS.row(cells, op=op, kernel=kernel, event=name, offset_ps=start - begin, duration_ps=duration))
    return EVENTS.build(sorted(rows, key=lambda row: (-row["counted_ps"], row["offset_ps"])))


def _ops(target: TargetStep, event_rows: set[int]) -> dict[int, str]:
    """Return by event row the op that a device's event belongs to, for events that name an op other
    than themselves.
    """
    timeline, trace = target.timeline, target.timeline.trace
    devices = {plane.index for plane in timeline.device_planes}
    rows = np.array(sorted(row for row in event_rows if row >= 0), np.int64)
    rows = rows[isin(trace.lines.plane[trace.line[rows]], list(devices))]
    code, texts = device_op_names(timeline, rows)
    names = [parse_device_op(text)[1] if text else "" for text in texts]
    named_rows = zip(rows.tolist(), (names[at] for at in code.tolist()), trace.name[rows].tolist(), strict=True)
    return {row: op for row, op, name in named_rows if op and op != trace.names[name]}


def _category_times(target: TargetStep, selected: Category | None) -> Iterator[tuple[int, int, int]]:
    """Yield (kind, event row, time in ps) of the step's events that count for a category; None
    means all. The row is -1 for time in which no event is open.
    """
    for (kind, row), counted in attribute_time(target).items():
        if selected is None or category_of(kind) is selected:
            yield kind, row, counted


def compute_event_groups(events: Table) -> Table:
    """Return `GROUPS`: the events merged by name and thread, most time first.

    Events of a device are merged by the last part of their op's name.
    """
    rows = (
        GROUPS.row(row, op=row["op"].rpartition("/")[2] if row["kernel"] else row["op"], count=1) for row in events.records()
    )
    return GROUPS.build(GROUPS.sum_rows(rows)).sort_by("counted_ps")


def compute_categories(run: Run, target: TargetStep, events: Table) -> Table:
    """Return `CATEGORIES`: the categories of the step next to those of the host's mean step."""
    whole = step_breakdown(run).steady_steps
    host_steps = whole.filter_by("host", target.timeline.host)
    rows = []
    for category in Category:
        counted = events["counted_ps"][events["category"] == category.label]
        time, usual = int(counted.sum()), float(np.mean(host_steps[category.column]))
        if time or usual:
            rows.append(CATEGORIES.row(category=category.label, time_ps=time, usual_ps=usual, events=len(counted)))
    return CATEGORIES.build(rows)
