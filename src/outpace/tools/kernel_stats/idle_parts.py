"""What a device's idle time is made of: the host waited for the device, it came late with the next launch, or it recorded nothing.

A host that waits for completion (`block_until_ready`, a stream's synchronisation, a rendezvous) has launched nothing late: it let the device
run empty. What it does after the wait, before it launches again, lies bare because of it, as far as the device's work could have covered it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.spans import Busy, union, within
from outpace.model import Table, median
from outpace.model.arrays import Indices, Mask, Picoseconds
from outpace.timeline import Timeline
from outpace.timeline.names import Is
from outpace.tools.kernel_stats.copies import copy_time
from outpace.tools.kernel_stats.idle import NOTHING, Idle, activities, activity_name, annotates, marks
from outpace.tools.kernel_stats.launches import launch_rows, queued
from outpace.tools.kernel_stats.schema import DEVICES
from outpace.trace.algorithms import distinct


@dataclass(frozen=True)
class IdleParts:
    """Parts of the steady steps' time on a device (of its span, where the host has no steps), ps.

    `judged`: that time; `busy`: of it, a stream worked. Of the rest, before the launch of what ended a gap: `waited`: the host waited for
    completion; `after`: it worked, having waited in the same gap; `late`: it worked, and had not waited; `unrecorded`: no event says what it
    did in such a gap; `fed`: it waited for input, which is in none of these. `usual`: `waited` and `after`, if every step had as much of them
    as the median one. `ahead`: the device works for most of the time, and half of the kernels or more were launched with more than a kernel's
    work queued before them. `waits`: the event in which the host waited longest. `late_in`: what it did in most of
    `late` (`late_in_ps`), and whether that is an annotation of the program's own (`late_own`).
    """

    judged: int
    busy: int
    waited: int
    after: int
    late: int
    unrecorded: int
    fed: int
    usual: int
    ahead: bool
    waits: str
    late_in: str = NOTHING
    late_in_ps: int = 0
    late_own: bool = False

    @property
    def by_waiting(self) -> int:
        """What waiting costs a usual step at most: the wait, and the host's work behind it, as far as the device's could cover that."""
        return min(self.waited + min(self.after, self.busy), self.usual)

    @property
    def by_launching(self) -> int:
        """What late launches cost at most; nothing where the host runs ahead."""
        return 0 if self.ahead else self.late + max(self.after - self.busy, 0)


def devices_table(found: list[Idle]) -> Table:
    """Kernel, copy, busy and idle time of every device that ran kernels, and what the idle time in steps is made of."""
    rows = []
    for gaps in found:
        device, (first, last), parts = gaps.device, gaps.span, idle_parts(gaps)
        times = device.trace.duration[device.kernels]
        missing = int(gaps.length.sum())
        span = last - first
        tuned = int(device.trace.duration[device.tuning].sum())
        kernels = (int(times.sum()), float(times.mean()), copy_time(device), tuned)
        numbers = (*kernels, span, span - missing, missing, missing / span)
        late_in = (parts.late_in, parts.late_in_ps, parts.late_own)
        idle = (gaps.unlaunched, parts.judged, parts.waited, parts.after, parts.late, parts.unrecorded, parts.fed)
        rows.append((len(times), *numbers, *idle, parts.by_waiting, parts.by_launching, parts.waits, *late_in, *device.place))
    return Table.from_rows("devices", "Devices", DEVICES, rows)


def idle_parts(gaps: Idle) -> IdleParts:
    """Split the idle time of one device; of a device that has no event in the steps all is 0."""
    timeline = gaps.device.timeline
    steps, (first, last) = timeline.steps, gaps.span
    judged = union(steps.start[steps.whole], steps.end[steps.whole]) if len(steps) else (np.array([first]), np.array([last]))
    edged = _with_edges(gaps, int(judged[0][0]), int(judged[1][-1]))
    _, start, end = within(judged[0], judged[1], (edged.start, edged.end))
    gap = np.searchsorted(edged.start, start, side="right") - 1
    time = int((judged[1] - judged[0]).sum())
    working = time - int((end - start).sum())
    if working <= 0:
        return IdleParts(0, 0, 0, 0, 0, 0, 0, 0, False, "")
    called = edged.called[gap]
    called = np.where(called < 0, start, np.clip(called, start, end))
    waited, waits = _waited(edged, gap, start, called, Is.AWAITS_DEVICE)
    fed = np.where(waited > 0, 0, _waited(edged, gap, start, called, Is.INPUT)[0])
    unlaunched = called - start - fed
    late = waited == 0
    late_in = _late_in(edged, gap[late], unlaunched[late])
    return IdleParts(
        judged=time,
        busy=working,
        waited=int(waited.sum()),
        after=int((unlaunched - waited)[~late].sum()),
        late=int(unlaunched[late].sum()),
        fed=int(fed.sum()),
        unrecorded=int(unlaunched[late & (edged.activity[gap] < 0)].sum()),
        usual=_usual(steps.start[steps.whole], start[~late], unlaunched[~late]),
        ahead=2 * working > time and _ahead(gaps),
        waits=waits,
        late_in=late_in[0],
        late_in_ps=late_in[1],
        late_own=late_in[2],
    )


def _late_in(gaps: Idle, gap: Indices, late: Picoseconds) -> tuple[str, int, bool]:
    """(what the host did for most of the time in which it was late, that time in ps, whether the program itself calls it so)."""
    trace, said = gaps.device.trace, activity_name(gaps.device)
    row = gaps.activity[gap]
    row = np.where(np.isin(row, marks(gaps.device.timeline)), -1, row)
    name = np.where(row >= 0, trace.name[np.maximum(row, 0)], -1)
    sums: dict[str, list[int]] = {}
    for code in distinct(name).tolist():
        known = sums.setdefault(said(code), [0, -1])
        known[0] += int(late[name == code].sum())
        known[1] = code
    top = max(sums, key=lambda text: sums[text][0], default=NOTHING)
    time, code = sums.get(top, (0, -1))
    rows = row[name == code] if code >= 0 else row[:0]
    return top, time, bool(len(rows)) and annotates(gaps.device.timeline, int(rows[0]))


def _usual(steps: Picoseconds, start: Picoseconds, length: Picoseconds) -> int:
    """Median length of what starts in each step, times steps."""
    of_step = np.maximum(np.searchsorted(steps, start, side="right") - 1, 0)
    count = max(len(steps), 1)
    return int(count * median(np.bincount(of_step, length, count)))


def _with_edges(gaps: Idle, begin: int, stop: int) -> Idle:
    """The gaps, with the time in [begin, stop) before the device's first event and behind its last: what comes next is launched later."""
    device, (first, last) = gaps.device, gaps.span
    trace, call = device.trace, launch_rows(device, device.busy_rows[:1])
    begin, stop = min(begin, first), max(stop, last)
    called = int(trace.start[call[0]]) if call[0] >= 0 else -1
    caller = int(trace.line[call[0]]) if call[0] >= 0 else -1
    did = activities(device.timeline, np.array([begin, last]), np.array([first, stop]), np.array([caller, -1])).tolist()
    return Idle(
        device,
        gaps.span,
        start=np.concatenate(([begin], gaps.start, [last])),
        end=np.concatenate(([first], gaps.end, [stop])),
        next=np.concatenate((device.busy_rows[:1], gaps.next, [-1])),
        called=np.concatenate(([called], gaps.called, [stop])),
        caller=np.concatenate(([caller], gaps.caller, [-1])),
        activity=np.concatenate((did[:1], gaps.activity, did[1:])),
    )


def _waited(gaps: Idle, gap: Indices, start: Picoseconds, called: Picoseconds, what: Is) -> tuple[Picoseconds, str]:
    """How long the host was in events of a kind in each [start, called), and the name of the longest of them, "" if it never was."""
    waited, longest, name = np.zeros(len(start), np.int64), 0, ""
    for line, mine in _lines(gaps, gap):
        open_, called_so = _open(gaps.device.timeline, line, what)
        stop = open_.before_open(called[mine])  # another thread launched while this one went on waiting: not for that wait
        part = np.maximum(open_.until(stop) - open_.until(np.minimum(start[mine], stop)), 0)
        waited[mine] = np.maximum(waited[mine], part)
        if (total := int(part.sum())) > longest:
            longest, name = total, called_so
    return waited, name


def _open(timeline: Timeline, line: int, what: Is) -> tuple[Busy, str]:
    """When a thread was in events of a kind, and the name of the longest, "" for none; the trace keeps it, for all devices ask."""
    trace = timeline.trace

    def made() -> tuple[Busy, str]:
        rows = trace.lines.rows(line)
        mine = rows.start + np.flatnonzero(timeline.names.are(what)[trace.name[rows]])
        name = trace.names[trace.name[mine[np.argmax(trace.duration[mine])]]] if len(mine) else ""
        return Busy.of(trace.start[mine], trace.end[mine]), name

    return cast(tuple[Busy, str], trace.derived.get((_open, line, what), made))


def _lines(gaps: Idle, gap: Indices) -> Iterator[tuple[int, Mask]]:
    """Threads whose waits count, and for which of the gaps: the one that trains for all, the one that launched for its own, and one whose
    event stands for what the host did."""
    timeline = gaps.device.timeline
    trace, host = timeline.trace, _host_lines(timeline)
    for line in distinct(timeline.steps.line).tolist():
        if line in host:
            yield line, np.ones(len(gap), bool)
    rows = gaps.activity[gap]
    for of_gap in (np.where(rows >= 0, trace.line[np.maximum(rows, 0)], -1), gaps.caller[gap]):
        for line in distinct(of_gap[of_gap >= 0]).tolist():
            yield line, of_gap == line


def _host_lines(timeline: Timeline) -> frozenset[int]:
    return frozenset(line for plane in timeline.host_planes for line in plane.lines)


def _ahead(gaps: Idle) -> bool:
    device, kernels = gaps.device, gaps.device.kernels
    waits = queued(device, kernels, launch_rows(device, kernels))
    return bool(median(waits) > device.trace.duration[kernels].mean())
