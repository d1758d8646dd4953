# SPDX-License-Identifier: Apache-2.0
"""The page about inference."""

from __future__ import annotations

import numpy as np

from outpace.metrics.facts.step_breakdown import CATEGORY_COLORS, CATEGORY_COLUMNS
from outpace.model import Chart, ChartKind, Page, Section, Table, TableView, Unavailable, Unit, humanize
from outpace.model.units import format_count
from outpace.timeline import Run
from outpace.tools.inference import TOOL
from outpace.tools.inference import findings as rules
from outpace.tools.inference.compute import compute_histogram, compute_latency, compute_requests

_NONE = Unavailable(
    "no call in this capture is a prediction",
    "Capture while model.predict(...), a serving signature or a server's session runs; functions named predict..., serve... are recognised.",
)
_SLOWEST = 20  # maximum number of slowest calls shown


def analyse(run: Run) -> Page:
    """Return the page of a run."""
    table = compute_requests(run)
    if len(table) == 0:
        return TOOL.page(unavailable=_NONE)
    summary = compute_latency(table)
    slowest = _slowest(table)
    sections: tuple[Section, ...] = (
        TableView(summary, ("function", "requests", "mean_ps", "p50_ps", "p90_ps", "p99_ps", "max_ps", "rate", "host")),
        Chart("Calls by latency", ChartKind.BARS, compute_histogram(table), "latency", ("requests",)),
        Chart(
            f"The {format_count(len(slowest), 'slowest call')}",
            ChartKind.STACK_SERIES,
            slowest,
            "request",
            CATEGORY_COLUMNS,
            CATEGORY_COLORS,
        ),
        TableView(slowest, ("request", "function", "latency_ps", "before_ps", "longest_op", "longest_op_ps")),
    )
    return TOOL.page(_headline(summary), sections, rules.iter_findings(table), (table,))


def _slowest(table: Table) -> Table:
    """Return the slowest requests as a table, slowest first."""
    order = np.argsort(-table["latency_ps"], kind="stable")[:_SLOWEST]
    rows = table.take(order)
    return Table("slowest_requests", "Slowest calls", rows.fields, rows.columns)


def _headline(summary: Table) -> str:
    """Return the sentence at the top of the page: the latency of the function with the most
    calls.
    """
    row = next(summary.records())
    return (
        f"Latency of '{row['function']}': median {humanize(row['p50_ps'], Unit.PS)}, p99 {humanize(row['p99_ps'], Unit.PS)}, over "
        f"{row['requests']} calls."
    )
