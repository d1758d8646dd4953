"""Where each step's time goes: the guide's categories, without overlap, summing to the step time.

Meaning as in the reference (`xplane_to_step_events.cc`, `event_span.cc` of openxla/xprof): every
event that belongs to a step is given a type by its name; where events overlap, the type of highest
priority gets the time; time without any event is "all others". On purpose different: building a
`tf.function` graph and compiling XLA programs count as compilation (the reference has the category
but never fills it on a host), host events count on machines with accelerators too (as the reference
did until TensorFlow 2.15), and what a device computes in is read from its programs
(`iter_device_event_kinds.py`), where what the compiler runs to choose the fastest way is
compilation. An event without duration holds no time (in the reference it may hold its kind open
until the next one). Of JAX programs, builds and whatever runs in a step's time count for the step
(`jax_time.py`).
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize, once
from outpace._dataclass import dataclass
from outpace.metrics.facts.active_devices import active_devices, device_lags, step_device
from outpace.metrics.facts.device_event_kinds import DEVICE_EVENT_KINDS, iter_device_event_kinds
from outpace.metrics.facts.jax_activity import build_spans, xla_worker_rows
from outpace.metrics.spans import BusyTime, intersect_spans, merge_spans
from outpace.model import Category, Field, Table, Unit
from outpace.model.arrays import Codes, Column, Indices, Mask, Picoseconds, Values
from outpace.timeline import Run, Timeline
from outpace.timeline.builds import find_autotuning_launches
from outpace.timeline.event_names import EventFlag
from outpace.timeline.xla_threads import has_jax_calls
from outpace.trace import EventColumn, Plane, dialect
from outpace.trace.algorithms import compute_time_by_priority, distinct, find_slice, take_codes
from outpace.trace.trace import BLOCK_EVENTS

# Kinds of time in order of rising priority, and the category that shows them. "Waiting for input"
# outranks collectives: an all-reduce that overlaps a wait for input is waiting too.
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

Planes = tuple[Plane, ...] | None  # None: all
WorkSpans = tuple[Indices, Codes, Picoseconds, Picoseconds]
Windows = tuple[Picoseconds, Picoseconds, Codes | EventColumn]

TRANSFERS_COLUMN = "transfers_ps"
FIELDS = (
    Field("host", Unit.TEXT, "host that the step ran on (name of its profile file)", key=True),
    Field("step", Unit.COUNT, "step number as the program counts it, or 0, 1, ... where it does not"),
    Field("source", Unit.TEXT, "how the step was found: marked, device line, keras batch or inferred"),
    Field("complete", Unit.BOOL, "whether the capture holds the whole step; statistics use complete steps only"),
    Field(
        "aside",
        Unit.TEXT,
        "why the step is no part of the steady state: warm-up, first compilation, fed from buffers, one-off, slow; empty for steps that are",
        "Set aside",
    ),
    Field("start_ps", Unit.PS, "start of the step, counted from the earliest event of its host", "Start", key=True),
    Field("duration_ps", Unit.PS, "length of the step", "Step time", additive=True),
    *(Field(f"{c.value}_ps", Unit.PS, c.meaning, c.label, additive=True) for c in Category),
    Field(
        TRANSFERS_COLUMN,
        Unit.PS,
        "of the input time: transfers from the host to devices, and waits for them",
        "Transfers",
        additive=True,
    ),
)


@dataclass(frozen=True, eq=False)
class StepBreakdown:
    """`steps`: one row per step and host (see `FIELDS`). `steps_per_execution`: training steps per
    row, by host.
    """

    steps: Table
    steps_per_execution: dict[str, int]

    @once
    def steady_mask(self) -> Mask:
        """Of each row whether statistics are made of it: of complete steps of the steady state, or
        of all where a host has none.
        """
        complete = self.steps["complete"].astype(bool) & (self.steps["aside"] == "")
        known = set(self.steps["host"][complete].tolist())
        without = [host not in known for host in self.steps["host"].tolist()]
        return np.asarray(complete | np.array(without, bool))

    @once
    def steady_steps(self) -> Table:
        """The rows that statistics are made of."""
        return self.steps if self.steady_mask.all() else self.steps.take(self.steady_mask)

    def select_hosts(self, *hosts: str) -> StepBreakdown:
        """The steps of some hosts."""
        return StepBreakdown(self.steps.filter_by("host", *hosts), {host: self.steps_per_execution[host] for host in hosts})

    @property
    def transfer_share(self) -> float:
        """Share of the steady steps that goes to transfers from the host to devices: a part of the
        input time.
        """
        whole = self.steady_steps
        total = float(whole["duration_ps"].sum())
        return float(whole[TRANSFERS_COLUMN].sum()) / total if total else 0.0

    def category_ps(self, category: Category, steps: Table | None = None) -> Values:
        """Time of one category per step, float64 ps."""
        return (self.steady_steps if steps is None else steps)[f"{category.value}_ps"].astype(np.float64)


@memoize
def step_breakdown(run: Run) -> StepBreakdown:
    """Break down every step of every host."""
    parts = [_host_rows(timeline) for timeline in run.hosts]
    data: dict[str, Column] = {f.name: np.concatenate([p[f.name] for p in parts]) for f in FIELDS}
    table = Table.build("steps", "Steps", FIELDS, data)
    return StepBreakdown(table, {t.host: t.steps.steps_per_execution for t in run.hosts})


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
    return {**rows, **_by_category(times), TRANSFERS_COLUMN: times[:, _CODE["host_to_device"]]}


def category_times(timeline: Timeline, planes: Planes = None, windows: Windows | None = None) -> dict[str, Picoseconds]:
    """Time of each category within each step as `<category_ps>_ps`, int64 of shape (steps,).

    `planes` counts their events only; else several devices are averaged. `windows` (start and end
    of each, ps, and the window of every event,
    -1 for none) are looked into instead of steps.
    """
    return _by_category(_swept(timeline, planes, windows) if planes else _kind_times(timeline, windows))


def _by_category(times: Picoseconds) -> dict[str, Picoseconds]:
    codes = {c: [code for code, (_, shown) in enumerate(_KINDS) if shown is c] for c in Category}
    return {f"{c.value}_ps": times[:, codes[c]].sum(axis=1) for c in Category}


def _kind_times(timeline: Timeline, windows: Windows | None = None) -> Picoseconds:
    """Time of each kind within each window (None: each step), int64 ps of shape (windows, kinds);
    of several devices, their mean.
    """
    devices = averaged_devices(timeline)
    if len(devices) > 1:
        return _mean(timeline, devices, windows)
    return _swept(timeline, (*timeline.host_planes, *devices) if devices else None, windows)


@memoize
def averaged_devices(timeline: Timeline) -> tuple[Plane, ...]:
    """Of several devices of a host, those that work in its steps; none where it has one or none."""
    several = len(timeline.steps) > 0 and len(timeline.device_planes) > 1
    return active_devices(timeline, event_kinds(timeline)) if several else ()


def _swept(timeline: Timeline, planes: Planes, windows: Windows | None) -> Picoseconds:
    start, end, _ = windows or _steps(timeline)
    if len(start) == 0:
        return np.zeros((0, len(_KINDS)), np.int64)
    return np.asarray(compute_time_by_priority(*_counted(timeline, planes, windows), start, end, len(_KINDS)))


def _mean(timeline: Timeline, devices: tuple[Plane, ...], windows: Windows | None) -> Picoseconds:
    """The mean over devices of what each does together with the host.

    A moment is of a kind or a higher one where the host or the device is: that time is the host's
    and the device's without what they share. So the host is looked at once, however many devices
    there are. Windows are laid one behind the other, that none touches another.
    """
    start, end, _ = windows or _steps(timeline)
    base = np.cumsum(end - start + 1) - (end - start + 1)
    host = _at_least(timeline, timeline.host_planes, windows, base)
    total = np.zeros((len(start), len(_KINDS) + 1), np.int64)
    total[:, 0] = (end - start) * len(devices)
    for device in devices:
        for code, mine in _at_least(timeline, (device,), windows, base).items():
            window = np.searchsorted(base, mine.start, side="right") - 1
            both = host[code].busy_until(mine.end) - host[code].busy_until(mine.start)
            total[:, code] += np.bincount(window, mine.end - mine.start - both, len(start)).astype(np.int64)
    for code, theirs in host.items():
        total[:, code] += len(devices) * (theirs.busy_until(base + end - start) - theirs.busy_until(base))
    total //= max(len(devices), 1)
    return np.asarray(total[:, :-1] - total[:, 1:])


def _at_least(timeline: Timeline, planes: tuple[Plane, ...], windows: Windows | None, base: Picoseconds) -> dict[int, BusyTime]:
    """By kind (a code above 0), when what these planes do in the windows is of it or a higher one;
    a window begins at its `base`.
    """
    start, end, _ = windows or _steps(timeline)
    window, kind, began, ended = _counted(timeline, planes, windows)
    low, high = np.maximum(began, start[window]), np.minimum(ended, end[window])
    low, high = low - start[window] + base[window], high - start[window] + base[window]
    return {
        code: BusyTime.from_sorted_spans(*merge_spans(low[kind >= code], high[kind >= code])) for code in range(1, len(_KINDS))
    }


def _steps(timeline: Timeline) -> Windows:
    return timeline.steps.start, timeline.steps.end, timeline.step_index


def _counted(timeline: Timeline, planes: Planes, windows: Windows | None) -> WorkSpans:
    """(window, kind, start, end) of what counts for the windows on these planes."""
    start, end, of_row = windows or _steps(timeline)
    kind, rows = event_kinds(timeline), work_rows(timeline, planes, windows)
    parent = timeline.trace.parent[rows]  # events inside one of the same kind and window add nothing to a union
    above = np.maximum(parent, 0)
    rows = rows[(parent < 0) | (kind[above] != kind[rows]) | (of_row[above] != of_row[rows])]
    spans = (
        step_event_times(timeline, rows, planes) if windows is None else (timeline.trace.start[rows], timeline.trace.end[rows])
    )
    more = _unseen(timeline, planes, start, end, kind)
    of, what, began, ended = (np.concatenate(c) for c in zip((of_row[rows], kind[rows], *spans), *more, strict=True))
    return of, what, began, ended


def work_rows(timeline: Timeline, planes: Planes, windows: Windows | None = None) -> Indices:
    """Rows of the events that are work of a window (of a step), on these planes."""
    kind, of_row = event_kinds(timeline), (windows or _steps(timeline))[2]
    parts = (
        [slice(0, len(kind))] if planes is None else sorted(map(timeline.trace.rows_of, planes), key=lambda part: part.start)
    )
    found = [np.zeros(0, np.int64)]
    for part in parts:
        for at in range(part.start, part.stop, BLOCK_EVENTS):
            rows = at + np.flatnonzero(kind[at : min(at + BLOCK_EVENTS, part.stop)] > 0)
            found.append(rows[of_row[rows] >= 0])
    return np.concatenate(found)


def step_event_times(timeline: Timeline, rows: Indices, planes: Planes) -> tuple[Picoseconds, Picoseconds]:
    """Start and end of events of steps, ps; what a device of these planes did at another time is
    put into the step's.
    """
    trace = timeline.trace
    start, end = trace.start[rows], trace.end[rows]
    for device in planes or ():
        if device.name.startswith(dialect.DEVICE_PREFIX):
            only = trace.rows_of(device)
            mine = find_slice(rows, only)
            late = device_lags(timeline, event_kinds(timeline), device)[timeline.step_index[rows[mine]]]
            start[mine], end[mine] = start[mine] - late, end[mine] - late
    return start, end


def _unseen(timeline: Timeline, planes: Planes, start: Picoseconds, end: Picoseconds, kind: Codes) -> list[WorkSpans]:
    """(window, kind, start, end) of what a JAX program did in the windows that is no event of
    theirs.
    """
    found: list[WorkSpans] = []
    _, code, begin, stop = time_matched_work(timeline, kind, planes)
    for each in distinct(code).tolist():
        mine = code == each
        window, low, high = intersect_spans(start, end, merge_spans(begin[mine], stop[mine]))
        found.append((window, np.full(len(window), each), low, high))
    return found


def time_matched_work(timeline: Timeline, event_kind: Codes, planes: Planes = None) -> WorkSpans:
    """(event row, kind, start, end) of all that counts for the steps in whose time it falls,
    whichever caused it: see `jax_time.py`.

    `event_kind` is `event_kinds`.
    """
    trace = timeline.trace
    none = np.zeros(0, np.int64)
    parts = [(none, none, none, none)]
    if has_jax_calls(trace) and (planes is None or any(plane.name == dialect.HOST_PLANE for plane in planes)):
        row, begin, stop = build_spans(timeline)
        parts.append((row, np.full(len(row), _CODE["compile"]), begin, stop))
        rows = xla_worker_rows(timeline)
        parts.append((rows, np.full(len(rows), _CODE["host_compute"]), trace.start[rows], trace.end[rows]))
    for device in time_matched_devices(timeline, planes):
        rows = np.arange(*trace.rows_of(device).indices(len(event_kind)))
        rows = rows[event_kind[rows] > 0]
        parts.append((rows, event_kind[rows].astype(np.int64), trace.start[rows], trace.end[rows]))
    found = tuple(np.concatenate(column) for column in zip(*parts, strict=True))
    return found[0], found[1], found[2], found[3]


def time_matched_devices(timeline: Timeline, planes: Planes = None) -> list[Plane]:
    """Devices whose work is looked for by time: those of a JAX program, and where steps are one
    device's own, all others.
    """
    own = step_device(timeline)
    if own is None and not has_jax_calls(timeline.trace):
        return []
    asked = timeline.device_planes if planes is None else planes
    return [plane for plane in asked if plane is not own and plane.name.startswith(dialect.DEVICE_PREFIX)]


def category_of(kind: int) -> Category:
    """The category that shows time of a kind (a code of `event_kinds`)."""
    return _KINDS[kind][1]


def kind_mask(*categories: Category) -> Mask:
    """Boolean over the kinds of `event_kinds`: does one of these categories show its time."""
    return np.array([shown in categories for _, shown in _KINDS])


@memoize
def event_kinds(timeline: Timeline) -> Codes:
    """Kind of time of every event as a code into `_KINDS`; uint8, 0 for events that are no work of
    a step.
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
    """Which root events are marks (they span the step and are no work), not work that inference
    gathered.
    """
    return timeline.trace.stat(dialect.STEP_NUM).has_rows(timeline.steps.root_row)


def _host_kinds(timeline: Timeline) -> Codes:
    """Kind of what each event name says, on a thread of the host. What a name is first counts."""
    order = (
        (EventFlag.BUILD, "compile"),
        (EventFlag.WRAPPER | EventFlag.STEP_MARK, "nothing"),
        (EventFlag.HOST_TO_DEVICE_OP, "host_to_device"),
        (EventFlag.EXECUTOR_ANY_CASE, "launch" if timeline.device_planes else "host_compute"),
        (EventFlag.INPUT_OP, "wait_input"),
    )
    found = [timeline.event_names.mask(what) for what, _ in order]
    return np.select(found, [_CODE[kind] for _, kind in order], _CODE["host_compute"]).astype(np.uint8)


def _mark_launches(timeline: Timeline, kind: Codes) -> None:
    """On hosts with a device, an event with a correlation id launches work there."""
    trace = timeline.trace
    launches = trace.stat(dialect.CORRELATION_ID).rows
    for plane in timeline.host_planes:
        rows = trace.rows_of(plane)
        mine = launches[(launches >= rows.start) & (launches < rows.stop)]
        kind[mine] = np.where(kind[mine] == _CODE["host_compute"], _CODE["launch"], kind[mine])
