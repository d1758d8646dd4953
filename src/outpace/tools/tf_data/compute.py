# SPDX-License-Identifier: Apache-2.0
"""The tf.data tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outpace._dataclass import dataclass
from outpace.metrics.facts.input_iterators import IteratorGraph, iterator_graphs
from outpace.metrics.facts.input_pipelines import FUNCTION, Pipeline, pipelines
from outpace.metrics.stage_labels import stage_source
from outpace.model import Row, Table
from outpace.model.arrays import Codes, Column, Indices
from outpace.timeline import Run
from outpace.tools.tf_data.graph import compute_graph, select_calls
from outpace.tools.tf_data.schema import EXECUTIONS, PIPELINES, SEGMENTS, STAGES
from outpace.trace.algorithms import distinct

SLOW_CALL_PS = 50_000_000  # length from which the guide counts a call as slow, ps: 50 µs


@dataclass(frozen=True)
class PipelineTables:
    """All tf.data tables.

    pipelines: table `PIPELINES`.
    stages: table `STAGES`.
    segments: table `SEGMENTS`.
    executions: table `EXECUTIONS`.
    graph: table `GRAPH`.
    pipelines_by_name: the pipelines that the tables describe, by host and name.
    """

    pipelines: Table
    stages: Table
    segments: Table
    executions: Table
    graph: Table
    pipelines_by_name: dict[tuple[str, str], Pipeline]


def compute_tables(run: Run) -> PipelineTables:
    """Return the tables of every pipeline of every host."""
    graphs = iterator_graphs(run)
    named = _names(run)
    rows: dict[str, list[Row]] = {"pipelines": [], "stages": [], "segments": []}
    executions, ranked = [], {}
    guides = {host: find_guide_bottlenecks(graph) for host, graph in graphs.items()}
    for (host, name), pipeline in named.items():
        graph = graphs[host]
        slowest = _rank_calls(graph, pipeline.root)
        verdicts = guides[host][slowest]
        guide = int(verdicts[0])
        rows["pipelines"].append(_pipeline_row(name, pipeline, graph, slowest, guide))
        rows["stages"] += _stage_rows(name, pipeline, graph, run, guide)
        rows["segments"] += _segment_rows(name, pipeline)
        executions.append(_executions(host, name, graph, slowest, verdicts))
        ranked[host, name] = (len(slowest), select_calls(pipeline, graph, slowest, verdicts))
    for host, graph in graphs.items():
        for i, root in enumerate(_device_roots(graph)):
            slowest = _rank_calls(graph, root)
            latency = _latency(host, f"Device:{i}", graph, root, slowest, len(slowest))
            rows["pipelines"].append({**latency, "guide_bottleneck": "", "bottleneck": ""})
            executions.append(_executions(host, f"Device:{i}", graph, slowest, guides[host][slowest]))
    stages = STAGES.build(rows["stages"])
    segments = SEGMENTS.build(rows["segments"])
    return PipelineTables(
        PIPELINES.build(rows["pipelines"]),
        stages,
        segments,
        EXECUTIONS.from_columns(*executions),
        compute_graph(stages, segments, ranked),
        named,
    )


def _names(run: Run) -> dict[tuple[str, str], Pipeline]:
    names: dict[tuple[str, str], Pipeline] = {}
    count: dict[str, int] = {}
    for pipeline in pipelines(run):
        index = count.get(pipeline.host, 0)
        count[pipeline.host] = index + 1
        names[pipeline.host, f"Host:{index}"] = pipeline
    return names


def _rank_calls(graph: IteratorGraph, root: int) -> Indices:
    """Return the root calls of one pipeline as indices into `graph.roots`, slowest first."""
    calls = np.flatnonzero(graph.iterator[graph.roots] == root)
    duration = graph.trace.duration[graph.rows[graph.roots[calls]]]
    return calls[np.argsort(-duration, kind="stable")]


def find_guide_bottlenecks(graph: IteratorGraph) -> Codes:
    """Return the guide's bottleneck of every root call: the index of the iterator with the longest
    self time on the critical path, of shape (root calls,); -1 where there is none.
    """
    calls = graph.calls
    bottlenecks = np.full(len(graph.roots), -1, np.int64)
    critical = np.flatnonzero(calls.blocking)
    # Of iterators with equal self time, the first one is sorted last and wins.
    shortest_first = critical[np.lexsort((-critical, calls.self_ps[critical]))]
    bottlenecks[calls.call[shortest_first]] = calls.iterator[shortest_first]
    return bottlenecks


def _pipeline_row(name: str, pipeline: Pipeline, graph: IteratorGraph, ranked: Indices, guide: int) -> Row:
    bottleneck = pipeline.bottleneck
    latency = _latency(pipeline.host, name, graph, pipeline.root, ranked, pipeline.root_calls)
    return {**latency, "guide_bottleneck": graph.types[guide], "bottleneck": bottleneck.type if bottleneck else ""}


def _latency(host: str, name: str, graph: IteratorGraph, root: int, ranked: Indices, steady: int) -> Row:
    """Return the columns of `PIPELINES` up to the longest call, for one pipeline. `ranked` are its
    root calls, `steady` is the number of those in steady steps.
    """
    duration = graph.trace.duration[graph.rows[graph.roots[ranked]]]
    slow = int((duration > SLOW_CALL_PS).sum())
    return {
        "host": host,
        "pipeline": name,
        "id": str(graph.ids[root]),
        "calls": len(ranked),
        "steady_calls": steady,
        "slow_calls": slow,
        "mean_ps": float(duration.mean()),
        "min_ps": int(duration.min()),
        "max_ps": int(duration.max()),
    }


def _device_roots(graph: IteratorGraph) -> list[int]:
    """Return the roots of pipelines that fetch from a host pipeline for a device. They only wait,
    so that no bottleneck is named for them.
    """
    return [r for r in distinct(graph.iterator[graph.roots]).tolist() if int(graph.ids[r]) in graph.device_ids]


def _stage_rows(name: str, pipeline: Pipeline, graph: IteratorGraph, run: Run, guide: int) -> Iterator[Row]:
    """Yield the rows of `STAGES` for one pipeline. `guide` is the iterator that the guide's rule
    names.
    """
    every = graph.executions
    record = run.record(pipeline.host)
    for at, stage in enumerate(pipeline.stages):
        iterators = list(stage.iterators)
        critical = bool(graph.is_critical[iterators].any())
        segment, busy, threads = _busy(pipeline, at)
        is_bottleneck = pipeline.bottleneck is stage
        yield STAGES.row(
            stage=stage.type,
            source=stage_source(stage.label, record),
            depth=_depth(pipeline, at),
            calls=int(every.count[iterators].sum()),
            busy_per_batch_ps=busy,
            work_ps=stage.work_ps,
            work_per_batch_ps=stage.work_ps / max(pipeline.root_calls, 1),
            threads=threads,
            total_ps=int(every.total_ps[iterators].sum()),
            self_ps=int(every.self_ps[iterators].sum()),
            start_ps=int(every.start[iterators].min()),
            asynchronous=stage.is_async,
            critical=critical,
            segment=segment,
            role="bottleneck" if is_bottleneck else "critical" if critical else "other",
            guide_bottleneck=guide in stage.iterators,
            python=stage.runs_python,
            top_op=stage.top_op,
            node=f"{pipeline.host}/{name}/{at}",
            parent=f"{pipeline.host}/{name}/{stage.parent}" if stage.parent >= 0 else "",
            host=pipeline.host,
            pipeline=name,
            long_name=stage.position,
        )


def _busy(pipeline: Pipeline, at: int) -> tuple[int, float, int]:
    """Return (segment in which a stage keeps a thread busy for longest, busy time per root call in
    ps, number of the segment's threads).
    """
    stage, best = pipeline.stages[at], (0, 0.0, 1)
    for rank, segment in enumerate(pipeline.segments):
        if at not in segment.stages:
            continue
        stage_ps = (
            stage.function_ps if segment.kind == FUNCTION else stage.handoff_ps if segment.boundary == at else stage.self_ps
        )
        busy = stage_ps / segment.threads / max(pipeline.root_calls, 1)
        if busy >= best[1]:
            best = (rank, busy, segment.threads)
    return best


def _depth(pipeline: Pipeline, at: int) -> int:
    depth = 0
    while (at := pipeline.stages[at].parent) >= 0:
        depth += 1
    return depth


def _segment_rows(name: str, pipeline: Pipeline) -> Iterator[Row]:
    for rank, segment in enumerate(pipeline.segments):
        members = ", ".join(pipeline.stages[at].type for at in segment.stages)
        dominant = pipeline.stages[segment.dominant].type
        yield SEGMENTS.row(
            segment,
            host=pipeline.host,
            pipeline=name,
            segment=rank,
            stages=members,
            busy_per_batch_ps=segment.busy_ps,
            dominant=dominant,
        )


def _executions(host: str, name: str, graph: IteratorGraph, ranked: Indices, guides: Codes) -> dict[str, Column]:
    """Return the columns of `EXECUTIONS`: every stage of every call of one pipeline, slowest calls
    first.
    """
    calls = graph.calls
    low, high = np.searchsorted(calls.call, ranked, "left"), np.searchsorted(calls.call, ranked, "right")
    count = high - low
    rank = np.repeat(np.arange(len(ranked)), count)
    at = np.arange(len(rank)) - (np.cumsum(count) - count)[rank] + low[rank]
    iterator = calls.iterator[at]
    stage, identity = graph.text_columns
    return {
        "host": np.full(len(at), host, object),
        "pipeline": np.full(len(at), name, object),
        "stage": stage[iterator],
        "id": identity[iterator],
        "rank": rank + 1,
        "start_ps": calls.start[at],
        "total_ps": calls.total_ps[at],
        "self_ps": calls.self_ps[at],
        "calls": calls.count[at],
        "critical": calls.blocking[at],
        "bottleneck": iterator == guides[rank],
    }
