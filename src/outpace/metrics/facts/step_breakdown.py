# SPDX-License-Identifier: Apache-2.0
"""Where each step's time goes: the guide's categories, without overlap, summing to the step time.

The meaning is that of the reference (`xplane_to_step_events.cc`, `event_span.cc` of openxla/xprof):
every event that belongs to a step gets a type by its name; where events overlap, the type of
highest priority gets the time; time without any event is "all others". Intended differences:
building a `tf.function` graph and compiling XLA programs count as compilation (the reference has
the category but never fills it on a host); host events count on machines with accelerators too (as
in the reference until TensorFlow 2.15); the precision of a device's computing is read from its
programs (`device_event_kinds.py`); and what the compiler runs on a device to choose the fastest way
is compilation. An event without duration takes no time (in the reference its type may last until
the next event). Of JAX programs, builds and whatever runs in a step's time count for the step
(`jax_activity.py`).
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize, once
from outpace._dataclass import dataclass
from outpace.metrics.facts.active_devices import active_devices, device_lags, step_device
from outpace.metrics.facts.device_event_kinds import DEVICE_EVENT_KINDS, iter_device_event_kinds
from outpace.metrics.facts.jax_activity import build_spans, xla_worker_rows
from outpace.metrics.spans import BusyTime, intersect_spans, merge_spans
from outpace.model import Category, Field, Table, TableType, Unit
from outpace.model.arrays import Codes, Column, Indices, Mask, Picoseconds, Values
from outpace.timeline import Run, Timeline
from outpace.timeline.builds import find_autotuning_launches
from outpace.timeline.event_names import EventFlag
from outpace.timeline.xla_threads import find_continuations, has_jax_calls
from outpace.trace import EventColumn, Plane, dialect
from outpace.trace.algorithms import compute_time_by_priority, distinct, find_slice, take_codes
from outpace.trace.trace import BLOCK_EVENTS

# Kinds of time in order of rising priority, and the category that shows them. "Waiting for input"
# has priority over collectives: an all-reduce that overlaps a wait for input is waiting too.
_KINDS: tuple[tuple[str, Category], ...] = (
    ("nothing", Category.ALL_OTHERS),
    ("host_compute", Category.HOST_COMPUTE),
    ("compile", Category.COMPILATION),
    ("host_to_device", Category.INPUT),
    ("launch", Category.KERNEL_LAUNCH),
    ("collective", Category.DEVICE_COLLECTIVES),
    ("wait_input", Category.INPUT),
    ("device_to_device", Category.DEVICE_TO_DEVICE),
    ("device_to_host", Category.OUTPUT),
    ("compute_32", Category.DEVICE_COMPUTE_32),
    ("compute_16", Category.DEVICE_COMPUTE_16),
)
_CODE = {name: code for code, (name, _) in enumerate(_KINDS)}

Planes = tuple[Plane, ...] | None  # planes whose events count; None for all
WorkSpans = tuple[Indices, Codes, Picoseconds, Picoseconds]  # window or event row, kind, start, end
Windows = tuple[
    Picoseconds, Picoseconds, Codes | EventColumn
]  # start and end of each window; window of every event, -1 for none

TRANSFERS_COLUMN = "transfers_ps"
CATEGORY_FIELDS = tuple(Field(c.column, Unit.PS, c.meaning, c.label) for c in Category)
CATEGORY_COLORS = {c.column: c.value for c in Category}
CATEGORY_COLUMNS = tuple(CATEGORY_COLORS)

STEPS = TableType("steps", "Steps", shared=CATEGORY_FIELDS).columns("""
    * host         | text  | host that the step ran on (name of its profile file)
      step         | count | step number as the program counts it, or 0, 1, ... where it does not
      source       | text  | how the step was found: marked, device line, keras batch or inferred
      complete     | bool  | whether the capture holds the whole step; statistics use complete steps only
      aside        | text  | why the step is no part of the steady state: warm-up, first compilation, fed from buffers, one-off, \
                             slow; empty for steps that are | Set aside
    * start_ps     | ps    | start of the step, counted from the earliest event of its host | Start
    + duration_ps  | ps    | length of the step | Step time
    + ...
    + transfers_ps | ps    | of the input time: transfers from the host to devices, and waits for them | Transfers
""")


@dataclass(frozen=True, eq=False)
class StepBreakdown:
    """The categories of each step.

    steps: table with one row per step and host (columns: `STEPS`)
    steps_per_execution: number of training steps per row, by host
    """

    steps: Table
    steps_per_execution: dict[str, int]

    @once
    def steady_mask(self) -> Mask:
        """Whether each row enters statistics, bool.

        These are the complete steps of the steady state, or all steps of a host that has none.
        """
        complete = self.steps["complete"].astype(bool) & (self.steps["aside"] == "")
        hosts = set(self.steps["host"][complete].tolist())
        without = [host not in hosts for host in self.steps["host"].tolist()]
        return np.asarray(complete | np.array(without, bool))

    @once
    def steady_steps(self) -> Table:
        """The rows that enter statistics."""
        return self.steps if self.steady_mask.all() else self.steps.take(self.steady_mask)

    def select_hosts(self, *hosts: str) -> StepBreakdown:
        """Return the breakdown of some hosts."""
        return StepBreakdown(self.steps.filter_by("host", *hosts), {host: self.steps_per_execution[host] for host in hosts})

    @property
    def transfer_share(self) -> float:
        """Share of the steady steps in transfers from the host to devices, a part of the input
        time.
        """
        whole = self.steady_steps
        total = float(whole["duration_ps"].sum())
        return float(whole[TRANSFERS_COLUMN].sum()) / total if total else 0.0

    def category_ps(self, category: Category, steps: Table | None = None) -> Values:
        """Return the time of one category per step, float64 ps.

        steps: rows of `steps`; None for the steady steps
        """
        return (self.steady_steps if steps is None else steps)[category.column].astype(np.float64)


@memoize
def step_breakdown(run: Run) -> StepBreakdown:
    """Return the breakdown of every step of every host."""
    return StepBreakdown(
        STEPS.from_columns(*map(_host_rows, run.hosts)), {t.host: t.steps.steps_per_execution for t in run.hosts}
    )


def _host_rows(timeline: Timeline) -> dict[str, Column]:
    steps = timeline.steps
    count = len(steps)
    rows: dict[str, Column] = {
        "host": np.full(count, timeline.host, dtype=object),
        "step": steps.number,
        "source": np.full(count, steps.source.value, dtype=object),
        "complete": steps.complete,
        "aside": np.array([reason.value for reason in steps.exclusions], dtype=object),
        "start_ps": steps.start - timeline.zero_ps,
        "duration_ps": steps.duration,
    }
    times = _kind_times(timeline)
    return {**rows, **_category_sums(times), TRANSFERS_COLUMN: times[:, _CODE["host_to_device"]]}


def category_times(timeline: Timeline, planes: Planes = None, windows: Windows | None = None) -> dict[str, Picoseconds]:
    """Return the time of each category in each step under the key `<category>_ps`, int64, shape
    (steps,).

    planes: planes whose events count; None for all, with the mean over several devices
    windows: windows to use instead of steps: start and end of each, ps, and the window of every
        event, -1 for none
    """
    return _category_sums(_window_times(timeline, planes, windows) if planes else _kind_times(timeline, windows))


def _category_sums(times: Picoseconds) -> dict[str, Picoseconds]:
    codes = {
        category: [code for code, (_, kind_category) in enumerate(_KINDS) if kind_category is category] for category in Category
    }
    return {category.column: times[:, codes[category]].sum(axis=1) for category in Category}


def _kind_times(timeline: Timeline, windows: Windows | None = None) -> Picoseconds:
    """Return the time of each kind in each window, int64 ps, shape (windows, kinds).

    windows: see `category_times`; None for steps

    Several devices are averaged.
    """
    devices = averaged_devices(timeline)
    if len(devices) > 1:
        return _mean(timeline, devices, windows)
    return _window_times(timeline, (*timeline.host_planes, *devices) if devices else None, windows)


@memoize
def averaged_devices(timeline: Timeline) -> tuple[Plane, ...]:
    """Return the devices of a host that work in its steps, where it has several; else ()."""
    several = len(timeline.steps) > 0 and len(timeline.device_planes) > 1
    return active_devices(timeline, event_kinds(timeline)) if several else ()


def _window_times(timeline: Timeline, planes: Planes, windows: Windows | None) -> Picoseconds:
    start, end, _ = windows or _steps(timeline)
    if len(start) == 0:
        return np.zeros((0, len(_KINDS)), np.int64)
    return np.asarray(compute_time_by_priority(*_counted_work(timeline, planes, windows), start, end, len(_KINDS)))


def _mean(timeline: Timeline, devices: tuple[Plane, ...], windows: Windows | None) -> Picoseconds:
    """Return the mean over devices of the time of each kind on the host and one device together.

    A moment is of a kind or of a higher one where the host or the device is: that time is the
    host's and the device's less their overlap. So the host is read once, however many devices there
    are. Windows are placed one after the other on a common axis, so that they do not touch.
    """
    start, end, _ = windows or _steps(timeline)
    base = np.cumsum(end - start + 1) - (end - start + 1)
    host = _busy_by_kind(timeline, timeline.host_planes, windows, base)
    total = np.zeros((len(start), len(_KINDS) + 1), np.int64)
    total[:, 0] = (end - start) * len(devices)
    for device in devices:
        for code, device_busy in _busy_by_kind(timeline, (device,), windows, base).items():
            window = np.searchsorted(base, device_busy.start, side="right") - 1
            both = host[code].busy_until(device_busy.end) - host[code].busy_until(device_busy.start)
            total[:, code] += np.bincount(window, device_busy.end - device_busy.start - both, len(start)).astype(np.int64)
    for code, host_busy in host.items():
        total[:, code] += len(devices) * (host_busy.busy_until(base + end - start) - host_busy.busy_until(base))
    total //= max(len(devices), 1)
    return np.asarray(total[:, :-1] - total[:, 1:])


def _busy_by_kind(
    timeline: Timeline, planes: tuple[Plane, ...], windows: Windows | None, base: Picoseconds
) -> dict[int, BusyTime]:
    """Return, by kind above 0, the time in which the events of planes are of that kind or a higher
    one.

    base: start of each window on the common axis, ps
    """
    start, end, _ = windows or _steps(timeline)
    window, kind, began, ended = _counted_work(timeline, planes, windows)
    low, high = np.maximum(began, start[window]), np.minimum(ended, end[window])
    low, high = low - start[window] + base[window], high - start[window] + base[window]
    return {
        code: BusyTime.from_sorted_spans(*merge_spans(low[kind >= code], high[kind >= code])) for code in range(1, len(_KINDS))
    }


def _steps(timeline: Timeline) -> Windows:
    return timeline.steps.start, timeline.steps.end, timeline.step_index


def _counted_work(timeline: Timeline, planes: Planes, windows: Windows | None) -> WorkSpans:
    """Return (window, kind, start, end) of the work on these planes that counts for the windows."""
    start, end, of_row = windows or _steps(timeline)
    kind, rows = event_kinds(timeline), work_rows(timeline, planes, windows)
    parent = timeline.trace.parent[rows]  # an event inside another one of the same kind and window adds nothing to a union
    above = np.maximum(parent, 0)
    rows = rows[(parent < 0) | (kind[above] != kind[rows]) | (of_row[above] != of_row[rows])]
    spans = (
        step_event_times(timeline, rows, planes) if windows is None else (timeline.trace.start[rows], timeline.trace.end[rows])
    )
    more = _unlinked_work(timeline, planes, start, end, kind)
    of, what, began, ended = (np.concatenate(column) for column in zip((of_row[rows], kind[rows], *spans), *more, strict=True))
    return of, what, began, ended


def work_rows(timeline: Timeline, planes: Planes, windows: Windows | None = None) -> Indices:
    """Return the rows of the events on these planes that are work in a window, or in a step."""
    kind, of_row = event_kinds(timeline), (windows or _steps(timeline))[2]
    parts = (
        [slice(0, len(kind))] if planes is None else sorted(map(timeline.trace.rows_of, planes), key=lambda part: part.start)
    )
    row_blocks = [np.zeros(0, np.int64)]
    for part in parts:
        for at in range(part.start, part.stop, BLOCK_EVENTS):
            rows = at + np.flatnonzero(kind[at : min(at + BLOCK_EVENTS, part.stop)] > 0)
            row_blocks.append(rows[of_row[rows] >= 0])
    return np.concatenate(row_blocks)


def step_event_times(timeline: Timeline, rows: Indices, planes: Planes) -> tuple[Picoseconds, Picoseconds]:
    """Return (start, end) of events of steps, ps.

    What a device of `planes` did at another time than its step is shifted into the step.
    """
    trace = timeline.trace
    start, end = trace.start[rows], trace.end[rows]
    for device in planes or ():
        if device.name.startswith(dialect.DEVICE_PREFIX):
            only = trace.rows_of(device)
            of_device = find_slice(rows, only)
            late = device_lags(timeline, event_kinds(timeline), device)[timeline.step_index[rows[of_device]]]
            start[of_device], end[of_device] = start[of_device] - late, end[of_device] - late
    return start, end


def _unlinked_work(timeline: Timeline, planes: Planes, start: Picoseconds, end: Picoseconds, kind: Codes) -> list[WorkSpans]:
    """Return (window, kind, start, end) of a JAX program's work in the windows that belongs to no
    event of theirs.
    """
    spans: list[WorkSpans] = []
    _, code, begin, stop = time_matched_work(timeline, kind, planes)
    for kind_code in distinct(code).tolist():
        mask = code == kind_code
        window, low, high = intersect_spans(start, end, merge_spans(begin[mask], stop[mask]))
        spans.append((window, np.full(len(window), kind_code), low, high))
    return spans


def time_matched_work(timeline: Timeline, event_kind: Codes, planes: Planes = None) -> WorkSpans:
    """Return (event row, kind, start, end) of the work that counts for the steps in whose time it
    falls.

    event_kind: result of `event_kinds`
    planes: planes whose events count; None for all

    The work counts whichever step caused it: see `jax_activity.py`.
    """
    trace = timeline.trace
    none = np.zeros(0, np.int64)
    parts = [(none, none, none, none)]
    if has_jax_calls(trace) and (planes is None or any(plane.name == dialect.HOST_PLANE for plane in planes)):
        row, begin, stop = build_spans(timeline)
        parts.append((row, np.full(len(row), _CODE["compile"]), begin, stop))
        rows = xla_worker_rows(timeline)
        parts.append((rows, np.full(len(rows), _CODE["host_compute"]), trace.start[rows], trace.end[rows]))
        more = find_continuations(trace)
        parts.append((more.row, np.full(len(more.row), _CODE["host_compute"]), more.start, more.end))
    for device in time_matched_devices(timeline, planes):
        rows = np.arange(*trace.rows_of(device).indices(len(event_kind)))
        rows = rows[event_kind[rows] > 0]
        parts.append((rows, event_kind[rows].astype(np.int64), trace.start[rows], trace.end[rows]))
    columns = tuple(np.concatenate(column) for column in zip(*parts, strict=True))
    return columns[0], columns[1], columns[2], columns[3]


def time_matched_devices(timeline: Timeline, planes: Planes = None) -> list[Plane]:
    """Return the devices whose work is matched to steps by time.

    These are the devices of a JAX program, and where the steps are one device's own, all others.
    """
    owner = step_device(timeline)
    if owner is None and not has_jax_calls(timeline.trace):
        return []
    candidates = timeline.device_planes if planes is None else planes
    return [plane for plane in candidates if plane is not owner and plane.name.startswith(dialect.DEVICE_PREFIX)]


def category_of(kind: int) -> Category:
    """Return the category of a kind of time (a code of `event_kinds`)."""
    return _KINDS[kind][1]


def kind_mask(*categories: Category) -> Mask:
    """Return whether each kind of `event_kinds` belongs to one of the categories, bool."""
    return np.array([category in categories for _, category in _KINDS])


@memoize
def event_kinds(timeline: Timeline) -> Codes:
    """Return the kind of time of every event as an index into `_KINDS`, uint8.

    The kind is 0 for events that are no work of a step.
    """
    trace = timeline.trace
    kind = np.zeros(len(trace), np.uint8)
    by_name = _host_kinds(timeline)
    for plane in timeline.host_planes:
        rows = trace.rows_of(plane)
        kind[rows] = take_codes(by_name, trace.name[rows])
    if timeline.device_planes:
        _mark_launches(timeline, kind)
        code = np.fromiter((_CODE[name] for name in DEVICE_EVENT_KINDS), np.uint8)
        for events, kinds in iter_device_event_kinds(timeline):
            kind[events] = code[kinds]
        for events in find_autotuning_launches(trace):
            kind[events] = _CODE["compile"]
    stages = trace.stat(dialect.IPL_STAGE).rows
    kind[stages] = np.maximum(kind[stages], _CODE["wait_input"])
    kind[timeline.steps.root_row[_is_mark(timeline)]] = 0
    kind.setflags(write=False)
    return kind


def _is_mark(timeline: Timeline) -> Mask:
    """Return whether each step's root event is a mark, bool.

    A mark spans the step and is no work, unlike the root events from which steps are inferred.
    """
    return timeline.trace.stat(dialect.STEP_NUM).has_rows(timeline.steps.root_row)


def _host_kinds(timeline: Timeline) -> Codes:
    """Return the kind of each event name on a host's thread; the first matching flag decides."""
    order = (
        (EventFlag.BUILD, "compile"),
        (EventFlag.WRAPPER | EventFlag.STEP_MARK, "nothing"),
        (EventFlag.HOST_TO_DEVICE_OP, "host_to_device"),
        (EventFlag.EXECUTOR_ANY_CASE, "launch" if timeline.device_planes else "host_compute"),
        (EventFlag.INPUT_OP, "wait_input"),
    )
    masks = [timeline.event_names.mask(what) for what, _ in order]
    return np.select(masks, [_CODE[kind] for _, kind in order], _CODE["host_compute"]).astype(np.uint8)


def _mark_launches(timeline: Timeline, kind: Codes) -> None:
    """Set the kind of a host's events that launch work on a device, in place.

    On a host with a device, an event of computation with a correlation id is a launch.
    """
    trace = timeline.trace
    launches = trace.stat(dialect.CORRELATION_ID).rows
    for plane in timeline.host_planes:
        rows = trace.rows_of(plane)
        in_plane = launches[(launches >= rows.start) & (launches < rows.stop)]
        kind[in_plane] = np.where(kind[in_plane] == _CODE["host_compute"], _CODE["launch"], kind[in_plane])
