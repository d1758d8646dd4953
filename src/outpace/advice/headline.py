"""The one sentence a reader takes away: what bounds the program, in agreement with what to change first."""

from __future__ import annotations

from collections.abc import Sequence

from outpace.metrics.program.budget import ALL_HOSTS, Budget, budgets
from outpace.metrics.program.host_time import of_hosts
from outpace.metrics.program.program import program
from outpace.metrics.program.same_program import main_program
from outpace.model import Category, Finding, Page, Severity, Unit, humanize
from outpace.model.text import first_sentence, is_most
from outpace.timeline import Run

_HOST, _UNTRACED = (c.value for c in (Category.HOST_COMPUTE, Category.ALL_OTHERS))


def headline(run: Run, pages: Sequence[Page], findings: Sequence[Finding]) -> str:
    """What the first page says that says anything, else why the first one cannot. Where it would say that the host computes, and what to
    change first is none of the model's computation but Python, calls or logging, that is what bounds the program. Where that is on a host of
    another program than the one shown, the host comes first."""
    said = next((p.headline for p in pages if p.headline), "")
    if not said:
        why = next((p.unavailable for p in pages if p.unavailable), None)
        return f"{why.reason[:1].upper()}{why.reason[1:]}." if why else "No tool could say anything of this profile."
    first = next((f for f in findings if f.severity is not Severity.INFO), None)
    known = budgets(run).get(ALL_HOSTS)
    if first is not None and first.delays:
        return f"{first_sentence(first.sentence)} {said}"
    if first is None or first.saving is None or known is None:
        return said
    if first.host and first.host in budgets(run) and first.host not in main_program(run):
        return f"{_of_host(first.host, budgets(run)[first.host])} {said}"
    shares = {c.value: known.shares[c.value] for c in Category}
    takes = first.saving.takes_from
    around = _UNTRACED in takes and first.saving.high >= shares[Category.INPUT.value]
    if not around or max(shares, key=shares.__getitem__) != _HOST or mostly_runs(run):
        return said
    step = f"{humanize(known.step, Unit.PS)} per {'prediction' if program(run).predicts else 'step'}"
    without = (
        " without the profiler"
        if humanize(known.step / (1 - known.profiling), Unit.PS) != humanize(known.step, Unit.PS)
        else ""
    )
    return f"Host-bound, {step}{without}: {first_sentence(first.sentence)}"  # the shares of the sentence are of that


def mostly_runs(run: Run) -> bool:
    """Whether ops run in most of the mean step, on a host that computes by itself: then nothing else bounds it, whatever is changed first."""
    return not run.has_device and is_most(of_hosts(run, *main_program(run)).running, 1.0)


def _of_host(host: str, budget: Budget) -> str:
    """What takes most of one host's step."""
    most = max(Category, key=lambda c: budget.shares[c.value])
    step = humanize(budget.step, Unit.PS)
    return f"{host} has most to gain: {budget.shares[most.value]:.0%} of its {step} step is {most.label.lower()}."
