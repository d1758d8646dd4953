"""The page about inference."""

from __future__ import annotations

import numpy as np

from outpace.model import Category, Chart, ChartKind, Page, Rows, Section, Table, Unavailable, Unit, humanize
from outpace.model.units import counted
from outpace.timeline import Run
from outpace.tools.inference import TOOL
from outpace.tools.inference import findings as rules
from outpace.tools.inference.compute import CATEGORIES, histogram, latency, requests

_NONE = Unavailable(
    "no call in this capture is a prediction",
    "Capture while model.predict(...), a serving signature or a server's session runs; functions named predict..., serve... are recognised.",
)
_COLORS = {f"{c.value}_ps": c.value for c in Category}
_SLOWEST = 20


def analyse(run: Run) -> Page:
    """Build the page of a run."""
    table = requests(run)
    if len(table) == 0:
        return TOOL.page(unavailable=_NONE)
    summary = latency(table)
    slowest = _slowest(table)
    sections: tuple[Section, ...] = (
        Rows(summary, ("function", "requests", "mean_ps", "p50_ps", "p90_ps", "p99_ps", "max_ps", "rate", "host")),
        Chart("Calls by latency", ChartKind.BARS, histogram(table), "latency", ("requests",)),
        Chart(f"The {counted(len(slowest), 'slowest call')}", ChartKind.STACK_SERIES, slowest, "request", CATEGORIES, _COLORS),
        Rows(slowest, ("request", "function", "latency_ps", "before_ps", "longest_op", "longest_op_ps")),
    )
    return TOOL.page(_headline(summary), sections, tuple(rules.find(table)), (table,))


def _slowest(table: Table) -> Table:
    order = np.argsort(-table["latency_ps"], kind="stable")[:_SLOWEST]
    found = table.take(order)
    return Table("slowest_requests", "Slowest calls", found.fields, found.columns)


def _headline(summary: Table) -> str:
    row = next(summary.records())
    return (
        f"Latency of '{row['function']}': median {humanize(row['p50_ps'], Unit.PS)}, p99 {humanize(row['p99_ps'], Unit.PS)}, over "
        f"{row['requests']} calls."
    )
