# SPDX-License-Identifier: Apache-2.0
"""Tables of requests: calls that look like predictions, with their latency and its parts."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from outpace.metrics.facts.step_breakdown import category_times
from outpace.model import Row, Table, Unit, humanize
from outpace.model.arrays import Indices
from outpace.model.interval import quantiles
from outpace.timeline import OpKind, Run, Timeline
from outpace.timeline.event_names import EventFlag
from outpace.timeline.gradients import is_prediction
from outpace.timeline.jitted_calls import find_jitted_calls
from outpace.tools.inference.schema import HISTOGRAM, LATENCY, REQUESTS
from outpace.trace import ComputedColumn, EventColumn, dialect
from outpace.trace.algorithms import distinct, union_rows

_BUCKETS = 12  # maximum number of ranges in the histogram


def compute_requests(run: Run) -> Table:
    """Return `REQUESTS`: every call that is a prediction, in order of time on each host."""
    return REQUESTS.build(row for timeline in run.hosts for row in _rows(timeline))


def _rows(timeline: Timeline) -> Iterator[Row]:
    """Yield rows of `REQUESTS` for one host."""
    trace = timeline.trace
    calls = _calls(timeline)
    if len(calls) == 0:
        return
    start, end = trace.start[calls], trace.end[calls]
    before = np.concatenate(([0], np.maximum(start[1:] - np.maximum.accumulate(end)[:-1], 0)))
    call_of = _call_of(timeline, calls)
    parts = category_times(timeline, windows=(start, end, call_of))
    ops = _longest_ops(timeline, call_of, len(calls))
    for i, row in enumerate(calls.tolist()):
        longest_op, longest_op_ps = ops[i]
        yield REQUESTS.row(
            {column: times[i] for column, times in parts.items()},
            host=timeline.host,
            request=i,
            function=trace.names[trace.name[row]],
            start_ps=int(start[i]) - timeline.zero_ps,
            latency_ps=int(end[i] - start[i]),
            before_ps=int(before[i]),
            longest_op=longest_op,
            longest_op_ps=longest_op_ps,
        )


def _calls(timeline: Timeline) -> Indices:
    """Return the rows of the outermost calls that are predictions, in order of time."""
    trace = timeline.trace
    calls = union_rows(trace.stat(dialect.TF_FUNCTION_CALL).rows, find_jitted_calls(trace))
    predicts = np.zeros(len(trace.names), bool)
    called = distinct(trace.name[calls])
    predicts[called] = [is_prediction(trace.names[n]) for n in called.tolist()]
    rows = distinct(np.concatenate((calls[predicts[trace.name[calls]]], timeline.event_names.rows(EventFlag.INFERENCE_RUN))))
    rows = trace.find_outermost(rows)
    return np.asarray(rows[np.argsort(trace.start[rows], kind="stable")])


def _call_of(timeline: Timeline, calls: Indices) -> EventColumn:
    """Return a column with the index of the call that each event works for; -1 for none.

    An event works for a call if it begins during the call, and either belongs to the call's step or
    runs on its thread.
    """
    trace = timeline.trace
    start, end = trace.start[calls], trace.end[calls]

    def call(rows: Indices) -> Indices:
        begun = trace.start[rows]
        at = np.clip(np.searchsorted(start, begun, side="right") - 1, 0, None)
        step = timeline.step_index[rows]
        belongs = ((step >= 0) & (step == timeline.step_index[calls[at]])) | (trace.line[rows] == trace.line[calls[at]])
        return np.where(belongs & (begun >= start[at]) & (begun <= end[at]), at, -1)

    return ComputedColumn(call)


def _longest_ops(timeline: Timeline, call_of: EventColumn, count: int) -> list[tuple[str, int]]:
    """Return (name, self time in ps) of the longest op execution in each call; ("", 0) without
    one.
    """
    trace = timeline.trace
    rows = trace.find_rows_by_mask(timeline.op_kind_mask(OpKind.TENSORFLOW, OpKind.JAX))
    call = call_of[rows]
    rows, call = rows[call >= 0], call[call >= 0]
    _, self_ps = trace.compute_nesting(rows)
    order = np.lexsort((-self_ps, call))
    _, first = np.unique(call[order], return_index=True)
    best = {int(call[order[i]]): (timeline.ops[trace.name[rows[order[i]]]].name, int(self_ps[order[i]])) for i in first}
    return [best.get(i, ("", 0)) for i in range(count)]


def compute_latency(requests: Table) -> Table:
    """Return `LATENCY`: the distribution of latencies by host and function, most calls first."""
    groups: dict[tuple[str, str], list[dict[str, int]]] = {}
    for row in requests.records():
        groups.setdefault((row["host"], row["function"]), []).append(row)
    rows = []
    for (host, function), calls in groups.items():
        times = [row["latency_ps"] for row in calls]
        span = max(row["start_ps"] + row["latency_ps"] for row in calls) - min(row["start_ps"] for row in calls)
        p50, p90, p99 = quantiles(times, 0.5, 0.9, 0.99)
        row = LATENCY.row(
            host=host,
            function=function,
            requests=len(calls),
            mean_ps=float(np.mean(times)),
            p50_ps=p50,
            p90_ps=p90,
            p99_ps=p99,
            max_ps=float(max(times)),
            rate=len(calls) / (span / 1e12) if span else 0.0,
        )
        rows.append(row)
    return LATENCY.build(rows).sort_by("requests")


def compute_histogram(requests: Table) -> Table:
    """Return `HISTOGRAM`: the number of calls by range of latency.

    The ranges grow by a constant factor, since latencies spread over orders of magnitude.
    """
    times = np.maximum(requests["latency_ps"].astype(np.float64), 1.0)
    low, high = math.log(times.min()), math.log(times.max() * 1.0001)
    count = min(_BUCKETS, max(1, math.ceil(2 * len(times) ** 0.5)))
    bounds = np.exp(np.linspace(low, max(high, low + 1e-3), count + 1))
    place = np.clip(np.searchsorted(bounds, times, side="right") - 1, 0, count - 1)
    sums = np.bincount(place, minlength=count)
    names = [
        f"{humanize(a, Unit.PS)} to {humanize(b, Unit.PS)}"
        for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]
    return HISTOGRAM.from_columns({"latency": names, "requests": sums})
