"""The tf.data tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outpace.metrics.iterators import IteratorGraph, iterators
from outpace.metrics.segments import FUNCTION, Pipeline, StageWork, pipelines
from outpace.metrics.stage_labels import source
from outpace.model import Table
from outpace.timeline import Run
from outpace.timeline.steps import Array
from outpace.tools.tf_data.schema import EXECUTIONS, PIPELINES, SEGMENTS, STAGES
from outpace.trace.algorithms import distinct

Row = tuple[object, ...]
SLOW_CALL_PS = 50_000_000  # the guide counts a call as slow from 50 µs on


@dataclass(frozen=True)
class Analysis:
    """All tables, and the pipelines that they describe by name."""

    pipelines: Table
    stages: Table
    segments: Table
    executions: Table
    named: dict[tuple[str, str], Pipeline]


def compute(run: Run) -> Analysis:
    """Analyse every pipeline of every host."""
    graphs = iterators(run)
    named = _names(run)
    rows: dict[str, list[Row]] = {"pipelines": [], "stages": [], "segments": [], "executions": []}
    for (host, name), pipeline in named.items():
        graph = graphs[host]
        slowest = _ranked(graph, pipeline.root)
        guide = _guide_bottleneck(graph, slowest[0])
        rows["pipelines"].append(_pipeline_row(name, pipeline, graph, slowest, guide))
        rows["stages"] += _stage_rows(name, pipeline, graph, run, guide)
        rows["segments"] += _segment_rows(name, pipeline)
        rows["executions"] += _execution_rows(host, name, graph, slowest)
    for host, graph in graphs.items():
        for i, root in enumerate(_device_roots(graph)):
            ranked = _ranked(graph, root)
            rows["pipelines"].append((*_latency(host, f"Device:{i}", graph, root, ranked), "", ""))
            rows["executions"] += _execution_rows(host, f"Device:{i}", graph, ranked)
    return Analysis(
        Table.from_rows("pipelines", "Input pipelines", PIPELINES, rows["pipelines"]),
        Table.from_rows("stages", "Stages", STAGES, rows["stages"]),
        Table.from_rows("segments", "Segments", SEGMENTS, rows["segments"]),
        Table.from_rows("executions", "Executions", EXECUTIONS, rows["executions"]),
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


def _ranked(graph: IteratorGraph, root: int) -> Array:
    """Root calls of one pipeline, slowest first (indices into `graph.roots`)."""
    mine = np.flatnonzero(graph.iterator[graph.roots] == root)
    duration = graph.trace.duration[graph.row[graph.roots[mine]]]
    return mine[np.argsort(-duration, kind="stable")]


def _guide_bottleneck(graph: IteratorGraph, call: int) -> int:
    """The guide's verdict on one root call: the iterator with the longest self time on the critical path."""
    calls = graph.calls
    mine = np.flatnonzero((calls.call == call) & calls.blocking)
    return int(calls.iterator[mine[np.argmax(calls.self_time[mine])]])


def _pipeline_row(name: str, pipeline: Pipeline, graph: IteratorGraph, ranked: Array, guide: int) -> tuple[object, ...]:
    bottleneck = pipeline.bottleneck
    return (
        *_latency(pipeline.host, name, graph, pipeline.root, ranked),
        graph.types[guide],
        bottleneck.type if bottleneck else "",
    )


def _latency(host: str, name: str, graph: IteratorGraph, root: int, ranked: Array) -> tuple[object, ...]:
    duration = graph.trace.duration[graph.row[graph.roots[ranked]]]
    slow = int((duration > SLOW_CALL_PS).sum())
    return (
        host,
        name,
        str(graph.ids[root]),
        len(ranked),
        slow,
        float(duration.mean()),
        int(duration.min()),
        int(duration.max()),
    )


def _device_roots(graph: IteratorGraph) -> list[int]:
    """Roots of pipelines that fetch from a host pipeline for a device: they only wait, so that no bottleneck is named for them."""
    return [r for r in distinct(graph.iterator[graph.roots]).tolist() if int(graph.ids[r]) in graph.device_ids]


def _stage_rows(name: str, pipeline: Pipeline, graph: IteratorGraph, run: Run, guide: int) -> list[Row]:
    calls = graph.calls
    record = run.record(pipeline.host)
    rows: list[Row] = []
    for at, stage in enumerate(pipeline.stages):
        mine = np.flatnonzero(np.isin(calls.iterator, stage.iterators))
        critical = bool(calls.blocking[mine].any())
        segment, busy, threads = _busy(pipeline, at)
        is_bottleneck = pipeline.bottleneck is stage
        rows.append(
            (
                stage.type,
                source(stage.label, record),
                _depth(pipeline, at),
                stage.calls,
                int(calls.start[mine].min()) if len(mine) else int(graph.trace.start[graph.first_row[stage.iterators[0]]]),
                int(calls.total[mine].sum()),
                int(calls.self_time[mine].sum()),
                work(stage),
                busy,
                threads,
                stage.asynchronous,
                critical,
                segment,
                "bottleneck" if is_bottleneck else "critical" if critical else "other",
                guide in stage.iterators,
                stage.python,
                stage.top_op,
                f"{pipeline.host}/{name}/{at}",
                f"{pipeline.host}/{name}/{stage.parent}" if stage.parent >= 0 else "",
                pipeline.host,
                name,
                stage.position,
            )
        )
    return rows


def work(stage: StageWork) -> int:
    """Work of a stage in the capture, ps: a synchronous stage waits for its function itself, so that it is counted once."""
    return stage.handing + stage.function if stage.asynchronous else stage.own


def _busy(pipeline: Pipeline, at: int) -> tuple[int, float, int]:
    """Segment that most of a stage's work is in, its busy time per root call there, and the threads."""
    stage, best = pipeline.stages[at], (0, 0.0, 1)
    for rank, segment in enumerate(pipeline.segments):
        if at not in segment.stages:
            continue
        mine = stage.function if segment.kind == FUNCTION else stage.handing if segment.boundary == at else stage.own
        busy = mine / segment.threads / max(pipeline.calls, 1)
        if busy >= best[1]:
            best = (rank, busy, segment.threads)
    return best


def _depth(pipeline: Pipeline, at: int) -> int:
    depth = 0
    while (at := pipeline.stages[at].parent) >= 0:
        depth += 1
    return depth


def _segment_rows(name: str, pipeline: Pipeline) -> list[Row]:
    rows: list[Row] = []
    for rank, segment in enumerate(pipeline.segments):
        members = ", ".join(pipeline.stages[at].type for at in segment.stages)
        dominant = pipeline.stages[segment.dominant].type
        rows.append((pipeline.host, name, rank, segment.kind, members, segment.work, segment.threads, segment.busy, dominant))
    return rows


def _execution_rows(host: str, name: str, graph: IteratorGraph, ranked: Array) -> list[Row]:
    calls = graph.calls
    low, high = np.searchsorted(calls.call, ranked, "left"), np.searchsorted(calls.call, ranked, "right")
    rows: list[Row] = []
    for rank, (call, first, last) in enumerate(zip(ranked.tolist(), low.tolist(), high.tolist(), strict=True), start=1):
        guide = _guide_bottleneck(graph, call)
        for at in range(first, last):
            iterator = int(calls.iterator[at])
            numbers = (int(calls.start[at]), int(calls.total[at]), int(calls.self_time[at]), int(calls.count[at]))
            identity = str(graph.ids[iterator])
            rows.append(
                (host, name, rank, graph.types[iterator], identity, *numbers, bool(calls.blocking[at]), iterator == guide)
            )
    return rows
