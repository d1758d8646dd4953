"""How busy the cores are during steps, and how much of that is input processing.

A thread counts as busy while an op runs on it. Python, and the tasks of the intra-op pool, cannot be seen. Threads of tf.data
(`tf_data_*`) that wait inside an iterator are not busy: only ops, and the functions that stages run, count there.
"""

from __future__ import annotations

import numpy as np

from outpace.metrics.derived import derived
from outpace.metrics.segments import function_runs
from outpace.model import Field, Table, Unit
from outpace.timeline import OpKind, Run, Timeline
from outpace.timeline.names import INPUT_THREADS
from outpace.timeline.steps import Array
from outpace.trace.algorithms import cover

_XLA_THREADS = "tf_XLA"  # XLA's workers on a CPU: they record nothing but computation
_BUSY_PREFIXES = ("ExecutorState::Process", "ThunkExecutor::Execute", "InstantiatedCapturedFunction::")

FIELDS = (
    Field("host", Unit.TEXT, "name of the host"),
    Field("busy_cores", Unit.CORES, "mean number of busy threads during the steps"),
    Field("cores", Unit.TEXT, "cores that the process could use; empty where the profile does not say"),
    Field("saturation", Unit.FRACTION, "busy threads per core; above 1 threads wait for cores"),
    Field("input_ps", Unit.PS, "background input CPU time: busy time of tf.data threads per step", "Input per step"),
    Field("input_share", Unit.FRACTION, "share of the busy time that is input processing"),
)


@derived
def cpu_saturation(run: Run) -> Table:
    """One row per host that has steps."""
    rows = [_row(run, t) for t in run.hosts if len(t.steps)]
    return Table.from_rows("saturation", "Core saturation and background input", FIELDS, rows)


def _row(run: Run, timeline: Timeline) -> tuple[object, ...]:
    begin, end = int(timeline.steps.start.min()), int(timeline.steps.end.max())
    window = max(end - begin, 1)
    busy = _busy_by_thread(timeline, begin, end)
    on_input = sum(time for name, time in busy if name.startswith(INPUT_THREADS))
    total = sum(time for _, time in busy)
    cores = run.core_count(timeline)
    return (
        timeline.host,
        total / window,
        str(cores) if cores else "",
        total / window / cores if cores else float("nan"),
        on_input / len(timeline.steps),
        on_input / total if total else 0.0,
    )


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


def _working_names(timeline: Timeline) -> Array:
    """Names of events during which a thread works; input ops that wait for the pipeline do not count."""
    is_op = timeline.is_kind(OpKind.TENSORFLOW, OpKind.JAX, OpKind.COPY)
    runs = np.fromiter((n.startswith(_BUSY_PREFIXES) for n in timeline.trace.names), bool, len(timeline.trace.names))
    waits = np.fromiter((op.type.startswith(("IteratorGetNext", "Collective")) for op in timeline.ops), bool, len(timeline.ops))
    return np.asarray((is_op | runs) & ~waits)
