"""The page of Python's share of the step."""

from __future__ import annotations

from outpace.metrics.program import program
from outpace.metrics.python_time import OUTPACE, YOURS, python_lines
from outpace.metrics.step_breakdown import step_breakdown
from outpace.model import Page, Rows, Table, Unavailable, Unit, humanize
from outpace.timeline import Run
from outpace.tools.python_time import findings as rules

_ID, _TITLE = "python_time", "Python"
_QUESTION = "Which lines of Python take the time of the training thread, and what do they wait for?"
_NONE = Unavailable(
    "no Python was sampled beside this profile",
    "Capture with 'outpace profile train.py', which samples the lines of the training thread about a hundred times a second.",
)
_COLUMNS = ("file", "line", "function", "self_ps", "untraced_ps", "waiting_ps", "share", "low", "high", "below")


def analyse(run: Run) -> Page:
    """Build the page of a run."""
    lines = python_lines(run)
    if len(lines) == 0:
        return Page(_ID, _TITLE, _QUESTION, unavailable=_NONE)
    found = tuple(rules.find(run, step_breakdown(run), program(run)))
    shown = Rows(
        lines, _COLUMNS, limit=15, remark="Time of a line holds what libraries did below it; shares have 95 % intervals."
    )
    return Page(_ID, _TITLE, _QUESTION, headline=_headline(lines), sections=(shown,), findings=found)


def _headline(lines: Table) -> str:
    rows = [row for row in lines.records() if row["who"] == YOURS]
    if not rows:
        return "No line of your own code was seen on the training thread: a library's loop runs it."
    top = max(rows, key=lambda row: row["untraced_ps"])
    own = sum(row["untraced_share"] for row in lines.records() if row["who"] != OUTPACE)
    where = f"{rules.short(top['file'])}:{top['line']} ({top['function']})"
    time = humanize(top["untraced_ps"], Unit.PS)
    return f"{own:.0%} of the step is Python without a recorded event; most of your own at {where}: {time} per step."
