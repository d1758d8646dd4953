# SPDX-License-Identifier: Apache-2.0
"""The commands to run after a report: one that looks closer at the first finding, and one that
measures the changes.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from outpace.metrics.facts.workload import find_workload
from outpace.model import CAPTURE_PREFIX, Command, Finding, Page, Severity
from outpace.timeline import Run


def suggest_commands(run: Run, pages: Sequence[Page], findings: Sequence[Finding]) -> tuple[Command, ...]:
    """Return at most two commands. Where the capture itself is the problem, the only one captures
    again. Otherwise the first opens what the first finding points at, and the second tries the
    changes (training scripts only).
    """
    script = run.script
    # A profile in memory has no path until it is written to a file.
    source = shlex.quote(run.source) if run.is_reopenable else "FILE"
    source += _window_option(run)
    first = next((f for f in findings if f.severity is not Severity.INFO), None)
    if first is not None and first.id.startswith(CAPTURE_PREFIX):
        damaged = first.id == f"{CAPTURE_PREFIX}damaged"
        what = "capture again, if no whole copy is left" if damaged else "capture again, while the program trains"
        return (Command(f"outpace profile {script or 'SCRIPT'}", what),)
    return tuple(filter(None, (_detail_command(source, pages, first), _trial_command(run, script))))


def _window_option(run: Run) -> str:
    """Return the `--window` option for the part of the time that the run covers; "" for a whole
    profile.
    """
    window = next((t.trace.window for t in run.hosts if t.trace.window is not None), None)
    return "" if window is None else f" --window {window}"


def _detail_command(source: str, pages: Sequence[Page], first: Finding | None) -> Command:
    if first is None:
        return Command(f"outpace trace {source}", "the timeline, in a browser")
    first_tool = pages[0].id  # the first page, which the report has just shown
    tool = next((tool for evidence in first.evidence if (tool := evidence.table.partition(".")[0]) != first_tool), "")
    if not tool:
        return Command(f"outpace explain {source}", "the slowest step, event by event")
    return Command(f"outpace report {source} --tool {tool}", "the numbers behind the first change", tool)


def _trial_command(run: Run, script: str) -> Command | None:
    if not script or find_workload(run).is_inference:
        return None
    return Command(f"outpace tune {script}", "try the changes, measure what each gains")
