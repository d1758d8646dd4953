# SPDX-License-Identifier: Apache-2.0
"""The page of Python's share of the step."""

from __future__ import annotations

from outpace.metrics.facts.cpu_saturation import cpu_saturation
from outpace.metrics.facts.python_lines import python_lines
from outpace.metrics.facts.python_samples import OUTPACE, YOURS
from outpace.metrics.facts.workload import find_workload
from outpace.metrics.savings.budget import budgets
from outpace.metrics.source_line import format_source_line
from outpace.metrics.views.python_stacks import python_stacks
from outpace.metrics.views.thread_lines import thread_lines
from outpace.model import Chart, ChartKind, IcicleColumns, Page, Table, TableView, Unit, humanize, select_nonempty
from outpace.model.text import format_largest_part
from outpace.timeline import Run
from outpace.tools.python_time import TOOL, background_threads
from outpace.tools.python_time import findings as rules

_BY = ("file", "function", "who", "library")
_STACKS = "Samples of the training thread, from your own code down: your lines with their file, functions of libraries with their package."
_COLUMNS = (
    "file",
    "line",
    "function",
    "self_ps",
    "untraced_ps",
    "waiting_ps",
    "building_ps",
    "share",
    "low",
    "high",
    "below",
    "caller",
)


def analyse(run: Run) -> Page:
    """Build the page of a run."""
    lines = python_lines(run)
    kind, budget_by_host = find_workload(run), budgets(run)
    findings = (
        *rules.iter_findings(run, kind),
        *background_threads.iter_findings(run, budget_by_host, cpu_saturation(run)),
        *background_threads.iter_lock_findings(run, kind, budget_by_host),
    )
    threads, tree = thread_lines(run), python_stacks(run)
    remark = "A line's time includes the libraries that it calls; From and To are the 95% CI of its share."
    sections = (
        Chart(tree.title, ChartKind.ICICLE, tree, "id", IcicleColumns("parent", "name", "total_ps").series, remark=_STACKS),
        TableView(lines, _COLUMNS, limit=15, remark=remark, pick=("host",), by=_BY),
        *select_nonempty(TableView(threads, ("thread", "source", "function", "cores", "looks"))),
    )
    return TOOL.page(_headline(lines, run.has_device), sections, findings)


_LITTLE = 0.01  # minimum share of the step in untraced Python for the headline to name it


def _headline(lines: Table, has_device: bool = False) -> str:
    """Return a headline: the share of untraced Python in the step, and the user's line with most of
    it. Beside a device, Python may wait for it there.
    """
    rows = [row for row in lines.records() if row["who"] == YOURS]
    if not rows:
        return "No line of your own code was seen on the training thread: a library's loop runs it."
    untraced_share = sum(row["untraced_share"] for row in lines.records() if row["who"] != OUTPACE)
    counts = "untraced_ps" if untraced_share >= _LITTLE else "self_ps"
    top = max(rows, key=lambda row: row[counts])
    where = f"{format_source_line(top['file'], top['line'])} ({top['function']})"
    if untraced_share < _LITTLE or not top["untraced_ps"]:
        compiles = ", which traces and compiles" if top["building_ps"] > top["self_ps"] / 2 else ""
        place = format_largest_part(f"at {where}", top[counts], sum(row[counts] for row in rows), total_name="its time")
        return f"Hardly any of the step is untraced Python. Your own code spends {place}{compiles}."
    time = humanize(top["untraced_ps"], Unit.PS)
    place = format_largest_part(f"at {where}", top[counts], sum(row[counts] for row in rows))
    meanwhile = ", in which devices may compute" if has_device else ""
    return f"{untraced_share:.0%} of the step is untraced Python{meanwhile}; your own code spends {place}: {time} per step."
