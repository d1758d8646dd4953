# SPDX-License-Identifier: Apache-2.0
"""The page of the model's own time."""

from __future__ import annotations

from outpace.metrics.facts.hlo_instructions import hlo_source_lines
from outpace.metrics.facts.missing_steps import explain_missing_steps
from outpace.metrics.facts.roofs import Bound
from outpace.metrics.facts.workload import find_workload
from outpace.metrics.savings.best_case import best_case_ops
from outpace.metrics.savings.budget import ALL_HOSTS, budgets
from outpace.metrics.slices import top_slices
from outpace.metrics.views.core_use import core_use, lone_ops
from outpace.metrics.views.float64_ops import emulated_half_ops, float64_ops
from outpace.metrics.views.misplaced_ops import misplaced_ops
from outpace.metrics.views.model_parts import model_parts
from outpace.metrics.views.model_work import model_work
from outpace.metrics.views.small_ops import small_ops
from outpace.model import Chart, ChartKind, Page, Table, TableView, select_nonempty
from outpace.timeline import Run
from outpace.tools.model_time import TOOL, work_summary
from outpace.tools.model_time import findings as rules
from outpace.tools.model_time.parts import ModelPart, find_parts
from outpace.tools.model_time.schema import MODEL_SHARES

_BY = ("layer_type", "top_op", "source", "kind")
_WAYS = {"together": "self_ps", "forward": "forward_ps", "backward": "backward_ps"}
_ROOF_COLUMNS = ("bound", "of_roof", "above_ps")
_PARTS = ("part", "source", "share", "forward_ps", "backward_ps", "self_ps", "top_op", "count")


def _rows(table: Table) -> TableView:
    if table.name == "model_parts":
        return TableView(table, _PARTS, limit=12, pick=("side", "host"), by=_BY, sums=("self_ps",))
    if table.name == "model_work":
        return TableView(table, limit=12, pick=("side", "host"), by=("work", "top_op"))
    unknown = table.name == "hlo_lines" and set(table["bound"].tolist()) == {Bound.UNKNOWN.value}
    columns = tuple(field.name for field in table.fields if not (unknown and field.name in _ROOF_COLUMNS))
    return TableView(table, columns, limit=12, pick=tuple(name for name in ("host",) if name in table))


def _shares(parts: Table) -> Table:
    """Return table `MODEL_SHARES`: the time of the parts on each side, forward and backward
    together and each alone; the largest parts, with the rest as one row.
    """
    sides = {side: parts.filter_by("side", side) for side in dict.fromkeys(parts["side"].tolist())}
    return MODEL_SHARES.build(
        {"side": side, "way": way, "part": name, "time_ps": size}
        for side, side_parts in sides.items()
        for way, column in _WAYS.items()
        for name, size in top_slices(side_parts["part"].tolist(), side_parts[column].tolist())
    )


def _headline(largest: ModelPart) -> str:
    """Return a headline on the largest part, where it is large; else that no part is: one that
    takes a hundredth of the step is no headline.
    """
    if largest.share < work_summary.LARGE_SHARE:
        return f"No part of the model takes {work_summary.LARGE_SHARE:.0%} of the step; the largest is {largest} with {largest.share:.0%}."
    return f"{largest} {largest.takes} {largest.share:.0%} of the step, {largest.top_op_text}."


def analyse(run: Run) -> Page:
    """Build the page of a run."""
    budget_by_host, kind = budgets(run), find_workload(run)
    if ALL_HOSTS not in budget_by_host:
        return TOOL.page(unavailable=explain_missing_steps(run))
    model = (model_parts(run), model_work(run), hlo_source_lines(run), misplaced_ops(run), small_ops(run))
    tables = (*model, float64_ops(run), emulated_half_ops(run), best_case_ops(run), core_use(run), lone_ops(run))
    shares = _shares(model[0])
    picture = Chart(shares.title, ChartKind.PIE, shares, "part", ("time_ps",), select="side", then=("way",))
    sections = (*select_nonempty(picture), *(_rows(table) for table in tables if len(table)))
    hidden = (table for table in tables if not len(table))
    largest = [part for t in run.hosts if t.host in budget_by_host for part in find_parts(run, t.host, kind)[:1]]
    headline = _headline(largest[0]) if largest else "The profile does not say which parts of the model take its time."
    return TOOL.page(headline, sections, rules.iter_findings(run, budget_by_host, kind), hidden)
