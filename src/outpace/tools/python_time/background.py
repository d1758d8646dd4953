"""Advice about threads of the program that take cores from the training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from outpace.metrics.machine import cpu_saturation
from outpace.metrics.program.budget import Budget, at_most
from outpace.metrics.python.threads import NATIVE, thread_lines
from outpace.model import Category, Certainty, Evidence, Finding, Severity, Table, Threshold, Unit
from outpace.timeline import Run

_TAKES = Threshold("cores of one background function", 0.20, Unit.CORES, "our choice: less cannot slow the model noticeably")
_MUCH = 0.25  # of all cores


def find(run: Run, budgets: Mapping[str, Budget], saturation: Table) -> Iterator[Finding]:
    """A finding for each function in which the program's own threads compute while most cores are busy."""
    for row in saturation.records():
        cores = run.record(row["host"]).get("cpu_count")
        if run.has_device or not cores or not cpu_saturation.mostly_busy(row):
            continue
        functions: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for line in thread_lines(run).of("host", row["host"]).records():
            if line["thread"] != NATIVE:
                functions.setdefault((line["file"], line["function"]), []).append(line)
        for lines in functions.values():
            if sum(line["cores"] for line in lines) >= _TAKES.value:
                yield _taker(row, lines, float(cores), budgets[row["host"]])


def _taker(row: dict[str, Any], lines: list[dict[str, Any]], cores: float, budget: Budget) -> Finding:
    top, taken = lines[0], sum(line["cores"] for line in lines)
    share = min(1.0, taken / cores) * budget.shares[Category.HOST_COMPUTE.value]
    return Finding(
        id="background_threads",
        severity=Severity.HIGH if taken >= _MUCH * cores else Severity.MODERATE,
        sentence=f"{top['function']}() at {top['source']} runs in another thread and takes {taken:.1f} of {cores:.0f} cores, which are "
        f"{min(row['saturation'], 1.0):.0%} busy: the model's ops wait for cores.",
        action=f"Do less at {top['source']} while the program trains, move it to another process or machine, or run it before or after.",
        evidence=(
            Evidence("processor time per second of that function", taken, Unit.CORES, "thread_lines"),
            Evidence("cores that the process may use", cores, Unit.CORES, "overview.hosts"),
        ),
        threshold=_TAKES,
        saving=at_most(share, Category.HOST_COMPUTE, assumes="if the model's ops had these cores as well"),
        location=top["source"],
        host=row["host"],
        certainty=Certainty.LIKELY,
    )
