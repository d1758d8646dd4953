# SPDX-License-Identifier: Apache-2.0
"""How busy the cores are during steps, and how much of that is input processing.

A thread counts as busy while an op, or a task of its pool, runs on it. Python can't be seen in a
profile; the processor time that Outpace's own capture measures includes it. Threads of tf.data
(`tf_data_*`) that wait inside an iterator are not busy: only ops, tasks, and the functions that
stages run, count there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from outpace._caching import memoize
from outpace._dataclass import dataclass
from outpace.metrics.facts.input_pipelines import function_runs
from outpace.metrics.spans import BusyTime, merge_spans
from outpace.model import Row, Table, TableType, Threshold, Unit
from outpace.model.arrays import Mask, Picoseconds
from outpace.timeline import OpKind, Run, Timeline
from outpace.timeline.event_names import INPUT_THREADS, INTRA_OP_THREADS, EventFlag
from outpace.trace.algorithms import distinct, find_slice, take_codes

_XLA_THREADS = "tf_XLA"  # prefix of XLA's worker threads on a CPU: all their events are computation
SATURATION_THRESHOLD = Threshold(
    "cores saturated", 0.85, Unit.FRACTION, "our choice: above it a thread that becomes ready mostly waits for a core"
)
MOSTLY_BUSY_THRESHOLD = Threshold(
    "most cores busy", 0.7, Unit.FRACTION, "our choice: from here on an op that uses all cores meets other work on one of them"
)
_MAX_OTHER_CORES = 0.1  # cores: maximum that other programs may use for a capture to be undisturbed
_MOMENTS = 4096  # number of sampled moments: enough to know a share of the cores' time to a hundredth
_GOLDEN = (math.sqrt(5) - 1) / 2
_MIN_INPUT_SHARE = 0.25  # minimum share of all cores' time in input processing that makes contention likely

SATURATION = TableType("saturation", "Core saturation and background input").columns("""
    * host        | text     | name of the host
    + busy_cores  | cores    | mean number of busy threads during the steps, as far as the profile shows them
    + used_cores  | cores    | processor time of the process per second of the capture; empty where it was not measured
      cores       | text     | cores that the process could use; empty where the profile does not say
      saturation  | fraction | used cores (or busy threads) per core, or what all processes of the machine use where that is \
                               more; above 1 threads wait
    + input_ps    | ps       | background input CPU time: busy time of tf.data threads per step | Input per step
      input_share | fraction | share of the busy time that is input processing
""")


@memoize
def cpu_saturation(run: Run) -> Table:
    """Return a table with one row per host that has steps (columns: `SATURATION`)."""
    return SATURATION.build(_row(run, t) for t in run.hosts if len(t.steps))


def is_saturated(row: Mapping[str, Any]) -> bool:
    """Whether all cores of a row of `cpu_saturation` are busy."""
    return row["saturation"] is not None and row["saturation"] >= SATURATION_THRESHOLD.value


def is_mostly_busy(row: Mapping[str, Any]) -> bool:
    """Whether most cores of a row of `cpu_saturation` are busy."""
    return row["saturation"] is not None and row["saturation"] >= MOSTLY_BUSY_THRESHOLD.value


def has_core_contention(row: Mapping[str, Any]) -> bool:
    """Whether input processing and the model compete for the cores, by a row of `cpu_saturation`.

    They do where all cores are busy, or where most are and input processing takes a quarter of the
    machine, so that ops which briefly use all cores meet it there.
    """
    busy, input_share = row["saturation"], row["input_share"] or 0.0
    return is_saturated(row) or (is_mostly_busy(row) and busy * input_share >= _MIN_INPUT_SHARE)


def _row(run: Run, timeline: Timeline) -> Row:
    begin, end = int(timeline.steps.start.min()), int(timeline.steps.end.max())
    window = max(end - begin, 1)
    span = np.array((begin, end))
    busy = [(name, int(np.diff(when.busy_until(span))[0])) for name, when in thread_busy_times(timeline)]
    on_input = sum(time for name, time in busy if name.startswith(INPUT_THREADS))
    busy_cores, used = sum(time for _, time in busy) / window, _used_cores(run, timeline)
    total = busy_cores if math.isnan(used) else max(used, on_input / window)
    cores = run.core_count(timeline)
    return SATURATION.row(
        host=timeline.host,
        busy_cores=busy_cores,
        used_cores=used,
        cores=str(cores) if cores else "",
        saturation=max(total / cores, machine_utilization(run, timeline)) if cores else float("nan"),
        input_ps=on_input / len(timeline.steps),
        input_share=on_input / window / total if total else 0.0,
    )


def _used_cores(run: Run, timeline: Timeline) -> float:
    window = run.record(timeline.host).get("window") or {}
    seconds, cpu = window.get("seconds") or 0.0, window.get("cpu_seconds") or 0.0
    return cpu / seconds if seconds > 0 and cpu > 0 else math.nan


def machine_utilization(run: Run, timeline: Timeline) -> float:
    """Return the share of the machine's processor time that all processes used during the capture.

    Return 0 where it was not measured.
    """
    window = run.record(timeline.host).get("window") or {}
    return float(window.get("machine_busy") or 0.0)


def other_processes_cores(run: Run, timeline: Timeline) -> float:
    """Return the mean number of cores that other programs used during the capture; 0 if not
    measured.
    """
    cores, used = run.core_count(timeline), _used_cores(run, timeline)
    return max(0.0, machine_utilization(run, timeline) * cores - used) if cores and not math.isnan(used) else 0.0


@dataclass(frozen=True)
class CoreShares:
    """What the cores do in the steady steps.

    idle_share: share of all cores' time in which a core is idle
    input_share: share of all cores' time that input threads get
    thread_core_share: share of a core that an input thread gets while it works
    """

    idle_share: float
    input_share: float
    thread_core_share: float


@memoize
def core_shares(run: Run) -> dict[str, CoreShares]:
    """Return the shares of the cores' time by host; hosts with an unknown number of cores are left
    out.

    The shares are means over `_MOMENTS` moments, evenly distributed over the steady steps. Where
    more threads work than there are cores, each gets its fair share of them: an event of a thread
    then lasts longer than the thread computes in it.
    """
    return {t.host: _core_time(t, cores) for t in run.hosts if len(t.steps.steady_rows) and (cores := run.core_count(t))}


def _core_time(timeline: Timeline, cores: int) -> CoreShares:
    moments = _moments(timeline)
    working_threads, on_input = np.zeros(len(moments)), np.zeros(len(moments))
    for name, when in thread_busy_times(timeline):
        open_then = when.busy_until(moments + 1) > when.busy_until(moments)
        working_threads += open_then
        on_input += open_then & name.startswith(INPUT_THREADS)
    fair = np.minimum(1.0, cores / np.maximum(working_threads, 1.0))
    idle = np.maximum(0.0, 1 - working_threads / cores)
    gets, wants = float((on_input * fair).mean()), float(on_input.mean())
    return CoreShares(float(idle.mean()), gets / cores, gets / wants if wants else 1.0)


def _moments(timeline: Timeline) -> Picoseconds:
    """Return moments in the steady steps, ps, sorted and evenly distributed over their total time.

    The golden ratio places them, so that they have no period that steps could have as well.
    """
    steps = timeline.steps
    start, duration = steps.start[steps.steady_rows], steps.duration[steps.steady_rows]
    before = np.cumsum(duration) - duration
    far = (np.arange(_MOMENTS) * _GOLDEN % 1.0 * float(duration.sum())).astype(np.int64)
    at = np.searchsorted(before, far, side="right") - 1
    return np.sort(start[at] + far - before[at])


def is_undisturbed(run: Run, timeline: Timeline) -> bool:
    """Whether the capture measured that other programs used hardly any core."""
    return machine_utilization(run, timeline) > 0 and other_processes_cores(run, timeline) < _MAX_OTHER_CORES


@memoize
def thread_busy_times(timeline: Timeline) -> tuple[tuple[str, BusyTime], ...]:
    """Return (thread name, busy time) of every host thread.

    A thread is busy while an op runs on it. A thread of the intra-op pool, or of the pool that runs
    functions of tf.data, is busy during its tasks as well: it records when it begins and ends one.
    """
    trace = timeline.trace
    works, (calls, ran) = _working_names(timeline), function_runs(trace)
    waits = distinct(calls[trace.line[calls] != trace.line[ran]])  # a stage waits while its function runs on another thread
    busy_times = []
    for plane in timeline.host_planes:
        for line in plane.lines:
            rows = trace.lines.row_slice(line)
            name = trace.lines.names[line]
            mask = trace.duration[rows] > 0
            if not name.startswith(_XLA_THREADS):
                mask &= take_codes(works, trace.name[rows])
                mask[waits[find_slice(waits, rows)] - rows.start] = False
            at = np.flatnonzero(mask) + rows.start
            start, end = trace.start[at], trace.end[at]
            if name.startswith((INTRA_OP_THREADS, INPUT_THREADS)):
                begun, done = _tasks(timeline, rows)
                start, end = np.concatenate((start, begun)), np.concatenate((end, done))
            busy_times.append((name, BusyTime.from_sorted_spans(*merge_spans(start, end))))
    return tuple(busy_times)


def _tasks(timeline: Timeline, rows: slice) -> tuple[Picoseconds, Picoseconds]:
    """Return starts and ends of the tasks of a pool's thread, ps."""
    trace = timeline.trace
    starts, stops = (
        timeline.event_names.mask(what)[trace.name[rows]] for what in (EventFlag.REGION_START, EventFlag.REGION_STOP)
    )
    at = np.flatnonzero(starts | stops)
    first = np.flatnonzero(starts[at][:-1] & stops[at][1:])
    time = trace.start[rows]
    return time[at[first]], time[at[first + 1]]


def _working_names(timeline: Timeline) -> Mask:
    """Return a mask of the event names during which a thread works.

    Input ops that wait for the pipeline are not work.
    """
    is_op = timeline.op_kind_mask(OpKind.TENSORFLOW, OpKind.JAX, OpKind.COPY)
    return np.asarray(
        (is_op | timeline.event_names.mask(EventFlag.COMPUTE_SCOPE)) & ~timeline.event_names.mask(EventFlag.WAITING_OP)
    )
