# SPDX-License-Identifier: Apache-2.0
"""The table of the pipelines' graph: every stage of every pipeline, averaged over all calls, and in
the slowest, the median and the fastest call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from outpace.metrics.facts.input_iterators import IteratorGraph
from outpace.metrics.facts.input_pipelines import Pipeline
from outpace.model import Row, Table, Unit, humanize
from outpace.model.arrays import Codes, Indices
from outpace.tools.tf_data.schema import GRAPH
from outpace.trace.algorithms import isin

_NOT_CALLED: Row = {"start_ps": None, "total_ps": 0.0, "self_ps": 0.0, "calls": 0.0, "role": "other"}
CallsByPipeline = Mapping[tuple[str, str], tuple[int, list[tuple[str, int, list[Row | None]]]]]
"""By (host, pipeline): (number of calls, [(name of a call, its rank, the row of each stage in
it)]).
"""


def select_calls(
    pipeline: Pipeline, graph: IteratorGraph, ranked_calls: Indices, guide_bottlenecks: Codes
) -> list[tuple[str, int, list[Row | None]]]:
    """Return the calls that a reader may inspect one by one: (name, rank, the row of each stage in
    it).

    `ranked_calls` are the calls of the pipeline, slowest first; `guide_bottlenecks` are their
    bottlenecks by the guide's rule.
    """
    duration = graph.trace.duration[graph.rows[graph.roots[ranked_calls]]]
    names: dict[int, str] = {}
    for place, name in ((0, "slowest"), (len(ranked_calls) - 1, "fastest"), (len(ranked_calls) // 2, "median")):
        names.setdefault(place, name)
    return [
        (
            f"rank {place + 1}, {names[place]}: {humanize(int(duration[place]), Unit.PS)}",
            place + 1,
            _call_rows(pipeline, graph, int(ranked_calls[place]), int(guide_bottlenecks[place])),
        )
        for place in sorted(names)
    ]


def _call_rows(pipeline: Pipeline, graph: IteratorGraph, call: int, guide: int) -> list[Row | None]:
    """Return (start, total, self time, executions, role) of every stage in one call; None for a
    stage that the call did not execute.
    """
    calls = graph.calls
    call_slice = slice(*np.searchsorted(calls.call, [call, call + 1]).tolist())
    rows: list[Row | None] = []
    for stage in pipeline.stages:
        at = np.flatnonzero(isin(calls.iterator[call_slice], stage.iterators)) + call_slice.start
        if not len(at):
            rows.append(None)
            continue
        role = "bottleneck" if guide in stage.iterators else "critical" if calls.blocking[at].any() else "other"
        total, self_ps, count = (int(values.sum()) for values in (calls.total_ps[at], calls.self_ps[at], calls.count[at]))
        rows.append(
            {"start_ps": int(calls.start[at].min()), "total_ps": total, "self_ps": self_ps, "calls": count, "role": role}
        )
    return rows


def compute_graph(stages: Table, segments: Table, ranked_calls: CallsByPipeline) -> Table:
    """Return table `GRAPH`: the slowest pipeline first, and for each pipeline the mean of all calls
    before single calls.
    """
    busy = {(s["host"], s["pipeline"]): -float(s["busy_per_batch_ps"]) for s in segments.records() if s["segment"] == 0}
    rows: list[Row] = []
    by_pipeline: dict[tuple[str, str], list[Row]] = {}
    for stage in stages.records():
        by_pipeline.setdefault((stage["host"], stage["pipeline"]), []).append(stage)
    for key in sorted(ranked_calls, key=lambda key: busy.get(key, 0.0)):
        count, calls = ranked_calls[key]
        stage_rows = by_pipeline.get(key, [])
        rows += _rows(stage_rows, f"all {count:,} calls: mean", None, _means(stage_rows, count))
        for name, rank, numbers in calls:
            rows += _rows(stage_rows, name, rank, numbers)
    return GRAPH.build(rows)


def _means(stages: Iterable[Row], count: int) -> Iterator[Row]:
    for stage in stages:
        means = {name: stage[name] / max(count, 1) for name in ("total_ps", "self_ps", "calls")}
        yield {**means, **{name: stage[name] for name in ("start_ps", "role", "busy_per_batch_ps")}}


def _rows(stages: Iterable[Row], name: str, rank: int | None, numbers: Iterable[Row | None]) -> Iterator[Row]:
    for stage, values in zip(stages, numbers, strict=True):
        yield GRAPH.row(stage, **{"busy_per_batch_ps": None, **(values or _NOT_CALLED)}, call=name, rank=rank)
