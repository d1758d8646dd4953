# SPDX-License-Identifier: Apache-2.0
"""The page about the start-up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outpace.model import Chart, ChartKind, Page, TableView, Unit, humanize
from outpace.model.text import join_names
from outpace.timeline import Run
from outpace.tools.startup_time import TOOL
from outpace.tools.startup_time.compute import PS_PER_NS, build_kinds, build_parts, find_startups, own_duration_ns
from outpace.tools.startup_time.findings import iter_findings

_ENDS = {
    "steps": "The start-up ends where the first step begins that takes about as long as later ones",
    "compilation": "Steps were not seen, so that the start-up ends with the last compilation, graph or import before the capture",
}
_SHOWN_KINDS = 3


def analyse(run: Run) -> Page:
    """Return the page of a run."""
    startups = find_startups(run)
    kinds, parts = build_kinds(startups), build_parts(startups)
    sections = (
        Chart("From the command to the first steady step", ChartKind.STACK_TOTAL, kinds, "kind", ("duration_ps",)),
        TableView(
            parts,
            ("kind", "name", "source", "duration_ps", "share", "count", "cache_hits", "cause"),
            limit=15,
            by=("kind", "source"),
            remark=_describe_end(next(iter(startups.values()))),
        ),
    )
    return TOOL.page(_headline(startups), sections, iter_findings(startups, parts))


def _describe_end(startup: Mapping[str, Any]) -> str:
    """Return what the end of the start-up is, and what is no part of it."""
    return (
        f"{_ENDS[startup['end']]}. The time is that of the main thread; Outpace's own part, which a start without it does not "
        f"have, is left out of the shares."
    )


def _headline(startups: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the sentence at the top of the page: how long the longest start took, and for what."""
    host, startup = max(startups.items(), key=lambda item: own_duration_ns(item[1]))
    rows = sorted(build_kinds({host: startup}).records(), key=lambda row: -row["duration_ps"])
    largest = [f"{row['kind']} {humanize(row['duration_ps'], Unit.PS)}" for row in rows[:_SHOWN_KINDS]]
    end = "The first steady step began" if startup["end"] == "steps" else "The last compilation ended"
    return f"{end} {humanize(own_duration_ns(startup) * PS_PER_NS, Unit.PS)} after the command: {join_names(largest)}."
