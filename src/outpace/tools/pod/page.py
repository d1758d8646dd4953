"""The pod viewer's page."""

from __future__ import annotations

from outpace.metrics.program.digest import digests
from outpace.metrics.program.no_steps import no_steps
from outpace.metrics.program.same_program import same_of
from outpace.metrics.program.workers import CATEGORIES, Worker
from outpace.model import (
    Category,
    Chart,
    ChartKind,
    Finding,
    Page,
    Rows,
    Section,
    Table,
    Text,
    Unavailable,
    Unit,
    filled,
    humanize,
)
from outpace.timeline import Run
from outpace.tools.pod import TOOL
from outpace.tools.pod import findings as rules
from outpace.tools.pod.align import align
from outpace.tools.pod.compute import by_program, collectives, steps, summary
from outpace.tools.pod.kinds import are_a_kind

_COLORS = {f"{c.value}_ps": c.value for c in Category}
_SHOWN = ("worker", "steps", "duration_ps", "own_ps", "excess_ps", "excess_fraction", "cause", "repair_ps")
_ALONE = Unavailable(
    "the profile holds one worker, so there is nothing to compare",
    "Capture all workers at once and keep their files in one run folder (tf.profiler.experimental.client.trace with all addresses).",
)


def analyse(run: Run) -> Page:
    """Build the page of a run."""
    hosts = digests(run)
    found = tuple(worker for host in hosts for worker in host.workers)
    if not found:
        return TOOL.page(unavailable=no_steps(run))
    aligned = align(hosts)
    table = steps(found, aligned)
    if len(found) == 1:
        return TOOL.page(unavailable=_ALONE, hidden_tables=(table, aligned.clocks))
    same = same_of(hosts)
    programs = by_program(found, same)
    waits = collectives(programs)
    compared = summary(programs, aligned)
    sections: list[Section] = [
        Chart("Step time by worker", ChartKind.STACK_SERIES, table, "worker", CATEGORIES, _COLORS, select="view"),
        Rows(compared, _SHOWN if len(programs) == 1 else ("program", *_SHOWN)),
    ]
    if same.reason:
        sections.append(Text("Do these workers run the same program?", same.reason))
    sections += filled(Rows(waits, remark="A worker that comes early waits in the collective for the one that comes last."))
    hidden: tuple[Table, ...] = (aligned.clocks,)
    if len(hosts) > 1:
        sections.append(Text("Steps of different hosts", f"{aligned.how[:1].upper()}{aligned.how[1:]}."))
        sections.append(Rows(aligned.clocks))
        hidden = ()
    headline = _headline(found, compared) if len(programs) == 1 else _unrelated(programs, compared)
    return TOOL.page(headline, tuple(sections), _findings(programs, compared), hidden)


def _findings(programs: tuple[tuple[Worker, ...], ...], compared: Table) -> tuple[Finding, ...]:
    """What the rules find in each program that has several workers: there is no slow one among unrelated programs."""
    several = [(number, program) for number, program in enumerate(programs, 1) if len(program) > 1]
    return tuple(f for number, program in several for f in rules.find(program, compared.take(compared["program"] == number)))


def _unrelated(programs: tuple[tuple[Worker, ...], ...], compared: Table) -> str:
    names = " | ".join(", ".join(w.name for w in program) for program in programs)
    text = f"{len(programs)} unrelated programs were captured ({names}): their steps are not compared."
    inside = [
        _headline(program, compared.take(compared["program"] == number))
        for number, program in enumerate(programs, 1)
        if len(program) > 1
    ]
    return " ".join((text, *inside))


def _headline(found: tuple[Worker, ...], compared: Table) -> str:
    rows = list(compared.records())
    idle = [
        w.name
        for w in found
        if not any(w.times[name].any() for name in CATEGORIES if not name.startswith(Category.ALL_OTHERS.value))
    ]
    slowest = max(rows, key=lambda row: float(row["excess_ps"]))
    if idle and len(idle) < len(found):
        verb = "take" if len(idle) > 1 else "takes"
        return f"{len(idle)} of {len(rows)} workers {verb} no part in the steps: {', '.join(idle)}."
    if not rules.is_slow(slowest):
        return f"No worker is more than {rules.SLOW.value:.0%} slower than the others; {slowest['worker']} is the slowest."
    slow = sum(rules.is_slow(row) for row in rows)
    if are_a_kind(slow, len(rows)):
        return f"{slow} of {len(rows)} workers are slower than the others; {slowest['worker']} is the slowest."
    why = f"; its {slowest['cause']} alone takes {humanize(slowest['cause_ps'], Unit.PS)} more" if slowest["cause"] else ""
    return (
        f"{slowest['worker']} is the straggler: {humanize(slowest['own_ps'], Unit.PS)} of its own work per step, "
        f"{slowest['excess_fraction']:.0%} more than the others{why}."
    )
