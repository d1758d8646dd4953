"""How busy the cores are during steps, and how much of that is input processing.

A thread counts as busy while an op runs on it. Python, and the tasks of the intra-op pool, cannot be seen in a profile; the processor time
that Outpace's own capture measured holds them too. Threads of tf.data (`tf_data_*`) that wait inside an iterator are not busy: only ops, and
the functions that stages run, count there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from outpace._once import derived
from outpace.metrics.input.segments import function_runs, pipelines
from outpace.model import Table, Threshold, Unit, schema
from outpace.model.arrays import Mask
from outpace.timeline import OpKind, Run, Timeline
from outpace.timeline.names import INPUT_THREADS, Is
from outpace.trace.algorithms import cover

_XLA_THREADS = "tf_XLA"  # XLA's workers on a CPU: they record nothing but computation
SATURATED = Threshold(
    "cores saturated", 0.85, Unit.FRACTION, "our choice: above it a thread that becomes ready mostly waits for a core"
)
MOST = Threshold(
    "most cores busy", 0.7, Unit.FRACTION, "our choice: from here on an op that uses all cores meets other work on one of them"
)
_QUARTER = 0.25  # of the cores busy with input

FIELDS = schema("""
    host        | text     | name of the host
    busy_cores  | cores    | mean number of busy threads during the steps, as far as the profile shows them
    used_cores  | cores    | processor time of the process per second of the capture; empty where it was not measured
    cores       | text     | cores that the process could use; empty where the profile does not say
    saturation  | fraction | used cores (or busy threads) per core, or what all processes of the machine use where that is \
                             more; above 1 threads wait
    input_ps    | ps       | background input CPU time: busy time of tf.data threads per step | Input per step
    input_share | fraction | share of the busy time that is input processing
""")


@derived
def cpu_saturation(run: Run) -> Table:
    """One row per host that has steps."""
    rows = [_row(run, t) for t in run.hosts if len(t.steps)]
    return Table.from_rows("saturation", "Core saturation and background input", FIELDS, rows)


def saturated(row: Mapping[str, Any]) -> bool:
    """Whether the cores of a row of the table are all busy."""
    return row["saturation"] is not None and row["saturation"] >= SATURATED.value


def mostly_busy(row: Mapping[str, Any]) -> bool:
    """Whether most of the cores of a row of the table are busy."""
    return row["saturation"] is not None and row["saturation"] >= MOST.value


def shares_cores(row: Mapping[str, Any]) -> bool:
    """Whether input and the model want the same cores, of a row of the table: they are all busy; or most are, and input by itself
    takes a quarter of the machine, so that ops which use all cores for a moment meet it there."""
    busy, mine = row["saturation"], row["input_share"] or 0.0
    return saturated(row) or (mostly_busy(row) and busy * mine >= _QUARTER)


def _row(run: Run, timeline: Timeline) -> tuple[object, ...]:
    begin, end = int(timeline.steps.start.min()), int(timeline.steps.end.max())
    window = max(end - begin, 1)
    busy = _busy_by_thread(timeline, begin, end)
    on_input = sum(time for name, time in busy if name.startswith(INPUT_THREADS))
    seen, used = sum(time for _, time in busy) / window, _used_cores(run, timeline)
    total = seen if math.isnan(used) else max(used, on_input / window)
    cores = run.core_count(timeline)
    return (
        timeline.host,
        seen,
        used,
        str(cores) if cores else "",
        max(total / cores, _machine_busy(run, timeline)) if cores else float("nan"),
        on_input / len(timeline.steps),
        on_input / window / total if total else 0.0,
    )


def _used_cores(run: Run, timeline: Timeline) -> float:
    window = run.record(timeline.host).get("window") or {}
    seconds, cpu = window.get("seconds") or 0.0, window.get("cpu_seconds") or 0.0
    return cpu / seconds if seconds > 0 and cpu > 0 else math.nan


def _machine_busy(run: Run, timeline: Timeline) -> float:
    """Share of the machine's processor time that all its processes used during the capture; 0 where it was not measured."""
    window = run.record(timeline.host).get("window") or {}
    return float(window.get("machine_busy") or 0.0)


def others_cores(run: Run, timeline: Timeline) -> float:
    """How many of the machine's cores other programs used during the capture, on average; 0 where it was not measured."""
    cores, used = run.core_count(timeline), _used_cores(run, timeline)
    return max(0.0, _machine_busy(run, timeline) * cores - used) if cores and not math.isnan(used) else 0.0


def competition(run: Run, timeline: Timeline, gone: float, waits: float) -> tuple[float, float]:
    """Share of its own time (waits for input left out) that a step saves if input threads work `gone` ps less per step: at least, at most.

    Derivation: `b` threads of the input are busy on `n` cores, and `g` of them are gone. At least, the model has only the `p` threads that the
    profile shows: each gets `n / (p + b)` of a core, or a whole one if there are enough, so that its own time shrinks by
    `1 - max(p + b - g, n) / max(p + b, n)`. At most, it computes on all cores (a profile does not show the threads of the intra-op pool), and
    each op ends with its slowest part: one that shares its core takes `1 + max(min(b, 1), b / n)` times as long.
    `waits`: ps per step that the model waits, in which its threads are idle. (0, 0) on hosts with an accelerator, and where the number of
    cores is not known.
    """
    cores = run.core_count(timeline)
    if run.has_device or not cores:
        return 0.0, 0.0
    row = next(cpu_saturation(run).of("host", timeline.host).records())
    step = float(np.mean(timeline.steps.duration))
    mine = [pipeline for pipeline in pipelines(run) if pipeline.host == timeline.host]
    busy = sum(stage.work for pipeline in mine for stage in pipeline.stages) / len(timeline.steps) / step
    seen = max(row["busy_cores"] - busy, 0.0) * step / max(step - waits, 1.0)
    away = min(gone / step, busy)
    threads = min(max(seen, 1.0), cores)
    least = 1 - max(threads + busy - away, cores) / max(threads + busy, cores)
    return least, max(least, 1 - _slowest(busy - away, cores) / _slowest(busy, cores))


def _slowest(busy: float, cores: int) -> float:
    """How many times as long an op takes whose slowest part shares its core with `busy` other threads on `cores`, on average."""
    return 1 + max(min(busy, 1.0), busy / cores)


def _busy_by_thread(timeline: Timeline, begin: int, end: int) -> list[tuple[str, int]]:
    """(thread name, busy ps within [begin, end)) of every host thread."""
    trace = timeline.trace
    works = _working_names(timeline)[trace.name] & (trace.duration > 0)
    asked, ran = function_runs(trace)
    works[asked[trace.line[asked] != trace.line[ran]]] = False  # a stage whose function runs on other threads waits for them
    found = []
    for plane in timeline.host_planes:
        for line in plane.lines:
            rows = trace.lines.rows(line)
            mine = trace.duration[rows] > 0 if trace.lines.names[line].startswith(_XLA_THREADS) else works[rows]
            covered, _ = cover(trace.start[rows][mine], trace.end[rows][mine], begin, end)
            found.append((trace.lines.names[line], covered))
    return found


def _working_names(timeline: Timeline) -> Mask:
    """Names of events during which a thread works; input ops that wait for the pipeline do not count."""
    is_op = timeline.is_kind(OpKind.TENSORFLOW, OpKind.JAX, OpKind.COPY)
    return np.asarray((is_op | timeline.names.are(Is.WORKS)) & ~timeline.names.are(Is.AWAITS_OTHERS))
