# SPDX-License-Identifier: Apache-2.0
"""The page of op statistics."""

from __future__ import annotations

from outpace.metrics.facts.op_metrics import op_metrics
from outpace.metrics.facts.python_lines import find_framework_line, framework_python_share
from outpace.metrics.facts.workload import find_workload
from outpace.metrics.savings.budget import category_share
from outpace.metrics.views.eager_ops import FUNCTION_ROW, compute_eager_share, eager_ops
from outpace.model import Category, Chart, ChartKind, Page, Table, TableView, Unavailable, select_nonempty
from outpace.timeline import Run
from outpace.tools.op_stats import TOOL
from outpace.tools.op_stats import findings as rules
from outpace.tools.op_stats.compute import SIDES, compute_ops, compute_shares, compute_types

_COLUMNS = ("rank", "side", "self_ps", "busy_fraction", "occurrences", "total_ps", "type", "name")
_BY = ("type", "layer", "side", "host")
_NONE = Unavailable(
    "no op was recorded",
    "Capture with host tracer level 2 (the default of 'outpace profile'); on a GPU check that CUPTI is on the library path.",
)


def analyse(run: Run) -> Page:
    """Build the page of a run."""
    metrics, eager = op_metrics(run), eager_ops(run)
    one_by_one = any(op != FUNCTION_ROW for op in eager["op"])
    if len(metrics) == 0 and not one_by_one:
        return TOOL.page(unavailable=_NONE)
    table = compute_ops(metrics)
    by_type, parts = compute_types(table), compute_shares(table)
    remark = "idle time left out"
    sections = select_nonempty(
        Chart("Self time", ChartKind.PIE, parts, "label", ("self_ps",), remark=remark, select="side", then=("by",))
    )
    if len(metrics):
        sections += [
            TableView(table, _COLUMNS, limit=20, aside="idle", pick=("side", "host"), by=_BY),
            TableView(by_type, ("side", "type", "self_ps", "busy_fraction", "occurrences", "ops"), pick=("side",)),
        ]
    if one_by_one:
        sections.append(TableView(eager, ("op", "count", "total_ps")))
    line = find_framework_line(run, run.hosts[0].host) if run.hosts else ""
    host = category_share(run, Category.HOST_COMPUTE)
    findings = rules.iter_findings(metrics, compute_eager_share(eager, run), _python_share(run), host, find_workload(run), line)
    return TOOL.page(_headline(by_type, eager["op"].tolist()), sections, findings)


def _headline(by_type: Table, eager: list[str]) -> str:
    """Return a headline: the op type with most time on each side, else what the ops that ran one by
    one show.
    """
    parts = []
    for side in SIDES:
        types = [r for r in by_type.records() if r["side"] == side]
        if types:
            parts.append(f"{types[0]['type']} takes most op time on the {side.lower()} ({types[0]['busy_fraction']:.0%})")
    if parts:
        return "; ".join(parts) + "."
    single = [op for op in eager if op != FUNCTION_ROW]
    return (
        f"All ops ran one by one, outside any tf.function; {single[0]} takes most of their time."
        if single
        else "No op took any time."
    )


def _python_share(run: Run) -> float:
    """Return the share of the step in Python between ops that run one by one: the share of the
    framework's own Python where Python was sampled, else that of untraced time.
    """
    share = framework_python_share(run, run.hosts[0].host) if run.hosts else None
    return category_share(run, Category.ALL_OTHERS) if share is None else share
