# SPDX-License-Identifier: Apache-2.0
"""The pod viewer's page."""

from __future__ import annotations

from collections.abc import Iterator

from outpace.metrics.cluster.host_summary import host_summaries
from outpace.metrics.cluster.program_groups import group_hosts_by_program
from outpace.metrics.cluster.workers import Worker
from outpace.metrics.facts.missing_steps import explain_missing_steps
from outpace.metrics.facts.step_breakdown import CATEGORY_COLORS, CATEGORY_COLUMNS
from outpace.model import (
    Category,
    Chart,
    ChartKind,
    Finding,
    Page,
    Paragraph,
    Section,
    Table,
    TableView,
    Unavailable,
    Unit,
    humanize,
    select_nonempty,
)
from outpace.timeline import Run
from outpace.tools.pod import TOOL
from outpace.tools.pod import findings as rules
from outpace.tools.pod.alignment import align_steps
from outpace.tools.pod.compute import compute_collectives, compute_steps, compute_summary, group_workers

_COLUMNS = ("worker", "steps", "duration_ps", "own_ps", "excess_ps", "excess_fraction", "cause", "repair_ps")
_ONE_WORKER = Unavailable(
    "the profile holds one worker, so there is nothing to compare",
    "Capture all workers at once and keep their files in one run folder (tf.profiler.experimental.client.trace with all addresses).",
)


def analyse(run: Run) -> Page:
    """Build the page of a run."""
    hosts = host_summaries(run)
    workers = tuple(worker for host in hosts for worker in host.workers)
    if not workers:
        return TOOL.page(unavailable=explain_missing_steps(run))
    aligned = align_steps(hosts)
    table = compute_steps(workers, aligned)
    if len(workers) == 1:
        return TOOL.page(unavailable=_ONE_WORKER, hidden_tables=(table, aligned.clocks))
    same = group_hosts_by_program(hosts)
    programs = group_workers(workers, same)
    waits = compute_collectives(programs)
    compared = compute_summary(programs, aligned)
    sections: list[Section] = [
        Chart("Step time by worker", ChartKind.STACK_SERIES, table, "worker", CATEGORY_COLUMNS, CATEGORY_COLORS, select="view"),
        TableView(compared, _COLUMNS if len(programs) == 1 else ("program", *_COLUMNS)),
    ]
    if same.reason:
        sections.append(Paragraph("Do these workers run the same program?", same.reason))
    sections += select_nonempty(
        TableView(waits, remark="A worker that comes early waits in the collective for the one that comes last.")
    )
    if len(hosts) > 1:
        sections.append(Paragraph("Steps of different hosts", f"{aligned.description[:1].upper()}{aligned.description[1:]}."))
        sections.append(TableView(aligned.clocks))
    hidden = (aligned.clocks,) if len(hosts) == 1 else ()
    headline = _headline(workers, compared) if len(programs) == 1 else _unrelated_headline(programs, compared)
    return TOOL.page(headline, sections, _findings(programs, compared), hidden)


def _findings(programs: tuple[tuple[Worker, ...], ...], compared: Table) -> Iterator[Finding]:
    """Yield the findings on each program that has several workers. Workers of unrelated programs
    are not compared.
    """
    for number, program in enumerate(programs, 1):
        if len(program) > 1:
            yield from rules.iter_findings(program, compared.take(compared["program"] == number))


def _unrelated_headline(programs: tuple[tuple[Worker, ...], ...], compared: Table) -> str:
    names = " | ".join(", ".join(w.name for w in program) for program in programs)
    text = f"{len(programs)} unrelated programs were captured ({names}): their steps are not compared."
    inside = [
        _headline(program, compared.take(compared["program"] == number))
        for number, program in enumerate(programs, 1)
        if len(program) > 1
    ]
    return " ".join((text, *inside))


def _headline(workers: tuple[Worker, ...], compared: Table) -> str:
    """Return a headline on the workers of one program: workers without part in the steps, else slow
    workers, else the slowest one.
    """
    rows = list(compared.records())
    idle = [
        w.name
        for w in workers
        if not any(w.category_ps[name].any() for name in CATEGORY_COLUMNS if not name.startswith(Category.ALL_OTHERS.value))
    ]
    slowest = max(rows, key=lambda row: float(row["excess_ps"]))
    if idle and len(idle) < len(workers):
        verb = "take" if len(idle) > 1 else "takes"
        return f"{len(idle)} of {len(rows)} workers {verb} no part in the steps: {', '.join(idle)}."
    if not rules.is_slow_worker(slowest):
        return (
            f"No worker is more than {rules.SLOWER_SHARE.value:.0%} slower than the others; {slowest['worker']} is the slowest."
        )
    slow = sum(rules.is_slow_worker(row) for row in rows)
    if rules.is_slow_group(slow, len(rows)):
        return f"{slow} of {len(rows)} workers are slower than the others; {slowest['worker']} is the slowest."
    why = f"; its {slowest['cause']} alone takes {humanize(slowest['cause_ps'], Unit.PS)} more" if slowest["cause"] else ""
    return (
        f"{slowest['worker']} is the straggler: {humanize(slowest['own_ps'], Unit.PS)} of its own work per step, "
        f"{slowest['excess_fraction']:.0%} more than the others{why}."
    )
