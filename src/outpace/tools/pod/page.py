"""The pod viewer's page."""

from __future__ import annotations

from outpace.model import Category, Chart, ChartKind, Page, Rows, Section, Table, Text, Unavailable, Unit, humanize
from outpace.timeline import Run
from outpace.tools.pod import findings as rules
from outpace.tools.pod.align import align
from outpace.tools.pod.compute import CATEGORIES, Worker, collectives, steps, summary, workers

_ID, _TITLE = "pod", "Pod viewer"
_QUESTION = "Do all workers take the same time for a step, and if not, which one is slow, and why?"
_COLORS = {f"{c.value}_ps": c.value for c in Category}
_NO_STEPS = Unavailable("no worker recorded a step", "See the overview for how steps are found and marked.")
_ALONE = Unavailable(
    "the profile holds one worker, so there is nothing to compare",
    "Capture all workers at once and keep their files in one run folder (tf.profiler.experimental.client.trace with all addresses).",
)


def analyse(run: Run) -> Page:
    """Build the page of a run."""
    found = workers(run)
    if not found:
        return Page(_ID, _TITLE, _QUESTION, unavailable=_NO_STEPS)
    aligned = align(run)
    table = steps(found, aligned, run)
    if len(found) == 1:
        return Page(_ID, _TITLE, _QUESTION, unavailable=_ALONE, hidden_tables=(table, aligned.clocks))
    waits = collectives(found)
    compared = summary(found)
    sections: list[Section] = [
        Chart("Step time by worker", ChartKind.STACK_SERIES, table, "worker", CATEGORIES, _COLORS, select="view"),
        Rows(compared, ("worker", "steps", "duration_ps", "own_ps", "excess_ps", "excess_fraction", "cause")),
    ]
    if len(waits):
        sections.append(Rows(waits, remark="A worker that comes early waits in the collective for the one that comes last."))
    hidden: tuple[Table, ...] = (aligned.clocks,)
    if len(run.hosts) > 1:
        sections.append(Text("Steps of different hosts", f"{aligned.how[:1].upper()}{aligned.how[1:]}."))
        sections.append(Rows(aligned.clocks))
        hidden = ()
    found_rules = tuple(rules.find(found, compared))
    return Page(_ID, _TITLE, _QUESTION, _headline(found, compared), tuple(sections), found_rules, hidden)


def _headline(found: tuple[Worker, ...], compared: Table) -> str:
    rows = list(compared.records())
    idle = [
        w.name
        for w in found
        if not any(w.times[name].any() for name in CATEGORIES if not name.startswith(Category.ALL_OTHERS.value))
    ]
    slowest = max(rows, key=lambda row: float(row["excess_ps"]))
    if idle and len(idle) < len(found):
        return f"{len(idle)} of {len(rows)} workers take no part in the steps: {', '.join(idle)}."
    if not rules.is_slow(slowest):
        return f"No worker is more than {rules.SLOW.value:.0%} slower than the others; {slowest['worker']} is the slowest."
    why = f"; its {slowest['cause']} alone takes {humanize(slowest['cause_ps'], Unit.PS)} more" if slowest["cause"] else ""
    return (
        f"{slowest['worker']} is the slow worker: {humanize(slowest['own_ps'], Unit.PS)} of its own per step, "
        f"{slowest['excess_fraction']:.0%} more than the others{why}."
    )
