# SPDX-License-Identifier: Apache-2.0
"""The tf.data page."""

from __future__ import annotations

from typing import Any

from outpace.metrics.facts.step_breakdown import step_breakdown
from outpace.metrics.stage_labels import format_stage
from outpace.model import (
    Chart,
    ChartKind,
    GraphColumns,
    Page,
    Paragraph,
    Section,
    TableView,
    Unavailable,
    Unit,
    humanize,
    select_nonempty,
)
from outpace.timeline import Run
from outpace.tools.tf_data import TOOL
from outpace.tools.tf_data import findings as rules
from outpace.tools.tf_data.compute import PipelineTables, compute_tables

_NONE = Unavailable(
    "no tf.data activity was recorded",
    "If the program uses tf.data, capture for longer, or with host tracer level 2; for other input libraries see the overview's input time.",
)


def analyse(run: Run) -> Page:
    """Build the page of a run."""
    analysis = compute_tables(run)
    if len(analysis.pipelines) == 0:
        return TOOL.page(unavailable=_NONE)
    columns = (
        "stage",
        "source",
        "calls",
        "busy_per_batch_ps",
        "work_per_batch_ps",
        "work_ps",
        "self_ps",
        "total_ps",
        "asynchronous",
        "role",
    )
    sections: list[Section] = [Paragraph("Verdict", _verdict(analysis))] if analysis.pipelines_by_name else []
    sections += [
        *select_nonempty(
            Chart("Graph", ChartKind.GRAPH, analysis.graph, "node", _NODE.series, remark=_GRAPH, select="host", then=_CHOICES)
        ),
        TableView(analysis.stages, columns, limit=20, folded=True, pick=_PLACES),
        TableView(
            analysis.segments,
            ("segment", "kind", "busy_per_batch_ps", "threads", "dominant", "stages"),
            remark=_SEGMENTS,
            pick=_PLACES,
        ),
        TableView(
            analysis.pipelines,
            (*(("host",) if len(set(analysis.pipelines["host"])) > 1 else ()), *_OF_PIPELINES),
            pick=("host",),
        ),
    ]
    findings = rules.iter_findings(run, analysis, step_breakdown(run))
    return TOOL.page(_headline(analysis), sections, findings, (analysis.executions,))


_NODE = GraphColumns("parent", "stage", "role", ("source", "asynchronous", "busy_per_batch_ps", "self_ps", "total_ps", "calls"))
_OF_PIPELINES = ("pipeline", "calls", "slow_calls", "mean_ps", "max_ps", "guide_bottleneck", "bottleneck")
_OFTEN = 0.5  # minimum number of calls of a pipeline, as a share of those of the host's busiest one, for it to be judged
_CHOICES = ("pipeline", "call")
_GRAPH = (
    "Elements come out of the Root, which the training loop calls. Bottleneck of all calls: most work in the slowest segment; of a single "
    "call, by the guide's rule: longest self time on its critical path. In the browser, under the pointer: its start, and its long name, the "
    "way from the Root."
)
_PLACES = ("host", "pipeline")
_SEGMENTS = "A segment is the stages between two asynchronous ones: they run in turn. Segments overlap, so the slowest one is the limit."


def _headline(analysis: PipelineTables) -> str:
    worst = _slowest(analysis)
    if worst is None:
        return "Only pipelines that feed a device were recorded."
    row, segment = worst
    busy = humanize(float(segment["busy_per_batch_ps"]), Unit.PS)
    several = len(set(analysis.pipelines["host"].tolist())) > 1
    which = f"The slowest pipeline, of {row['host']}," if several else "The pipeline"
    return f"{which} can deliver a batch every {busy}; {format_stage(row['stage'], row['source'])} limits it."


def _slowest(analysis: PipelineTables) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return (record of the bottleneck stage, record of the segment) of the slowest pipeline; None
    where no pipeline ran on a host.

    Only pipelines that are called often count: each epoch creates its own, and one with few calls
    consists of little but its start.
    """
    calls = {(row["host"], row["pipeline"]): row["calls"] for row in analysis.pipelines.records()}
    most: dict[str, int] = {}
    for (host, _), count in calls.items():
        most[host] = max(most.get(host, 0), count)
    often = {key for key, count in calls.items() if count >= _OFTEN * most[key[0]]}
    segments = [s for s in analysis.segments.records() if s["segment"] == 0 and (s["host"], s["pipeline"]) in often]
    if not segments:
        return None
    segment = max(segments, key=lambda s: s["busy_per_batch_ps"])
    stages = analysis.stages.records()
    key = (segment["host"], segment["pipeline"], "bottleneck")
    return next(((s, segment) for s in stages if (s["host"], s["pipeline"], s["role"]) == key), None)


def _verdict(analysis: PipelineTables) -> str:
    """Return a line for each pipeline: its bottleneck by the work of its threads, and by the
    guide's rule.
    """
    lines = []
    for row in analysis.pipelines.records():
        if not row["bottleneck"]:
            continue
        same = row["bottleneck"] == row["guide_bottleneck"]
        text = f"{row['pipeline']} of {row['host']}: by the work of its threads, the bottleneck is {row['bottleneck']}."
        if same:
            text = f"{text[:-1]}, and by the guide's rule, too."
        else:
            text += f" The guide's rule (longest self time on the critical path) names {row['guide_bottleneck']}, whose time may be waiting."
        lines.append(text)
    return "\n".join(lines)
