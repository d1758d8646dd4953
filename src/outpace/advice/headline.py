# SPDX-License-Identifier: Apache-2.0
"""The headline of a report: one sentence on what bounds the program, in agreement with the first
finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from outpace.metrics.cluster.program_groups import main_program_hosts
from outpace.metrics.facts.workload import find_workload
from outpace.metrics.savings.budget import ALL_HOSTS, Budget, budgets
from outpace.metrics.views.host_time import mean_host_time
from outpace.model import Category, Finding, Page, Severity, Unit, humanize
from outpace.model.text import first_sentence, is_majority
from outpace.timeline import Run

_HOST, _UNTRACED = (c.value for c in (Category.HOST_COMPUTE, Category.ALL_OTHERS))


class Headline(NamedTuple):
    """What a report says first.

    sentence: what bounds the program.
    verdict: the same in two words and a share ("Input-bound 82%"); "" where no step tells.
    """

    sentence: str
    verdict: str


def build_headline(run: Run, pages: Sequence[Page], findings: Sequence[Finding]) -> Headline:
    """Return the headline of a report.

    It is the headline of the first page that has one, else the reason why the first page is
    unavailable. Three cases change it:

    - The first finding delays all workers: its first sentence comes before the headline.
    - The first finding is on a host that runs another program than the one shown: a sentence on
      that host comes before the headline.
    - The host's computation is the largest category of the mean step, but the first finding saves
      time around the ops (Python, calls, logging), at least as much as the input takes, and ops do
      not fill most of the step: the headline says that the program is host-bound, with the first
      finding.
    """
    headline = next((Headline(page.headline, page.verdict) for page in pages if page.headline), None)
    if headline is None:
        why = next((page.unavailable for page in pages if page.unavailable), None)
        text = f"{why.reason[:1].upper()}{why.reason[1:]}." if why else "No tool could say anything of this profile."
        return Headline(text, "")
    first = next((f for f in findings if f.severity is not Severity.INFO), None)
    budget = budgets(run).get(ALL_HOSTS)
    if first is not None and first.delays:
        return headline._replace(sentence=f"{first_sentence(first.sentence)} {headline.sentence}")
    if first is None or first.saving is None or budget is None:
        return headline
    if first.host and first.host in budgets(run) and first.host not in main_program_hosts(run):
        other = _host_sentence(first.host, budgets(run)[first.host])
        return headline._replace(sentence=f"{other} {headline.sentence}")
    shares = {c.value: budget.category_shares[c.value] for c in Category}
    takes = first.saving.takes_from
    around = _UNTRACED in takes and first.saving.high >= shares[Category.INPUT.value]
    if not around or max(shares, key=shares.__getitem__) != _HOST or is_op_bound(run):
        return headline
    step = f"{humanize(budget.step_ps, Unit.PS)} per {'prediction' if find_workload(run).is_inference else 'step'}"
    without = (
        " without the profiler"
        if humanize(budget.step_ps / (1 - budget.profiling_share), Unit.PS) != humanize(budget.step_ps, Unit.PS)
        else ""
    )
    # The finding's shares refer to the step without the profiler, so the headline names that step
    # time.
    sentence = f"Host-bound, {step}{without}: {first_sentence(first.sentence)}"
    ops = 0.0 if run.has_device else mean_host_time(run, *main_program_hosts(run)).op_share
    return Headline(sentence, f"Host-bound {max(0.0, shares[_HOST] + shares[_UNTRACED] - ops):.0%}")


def is_op_bound(run: Run) -> bool:
    """Whether ops run in most of the mean step of a run without devices. Then nothing else bounds
    the program, whatever is changed first.
    """
    return not run.has_device and is_majority(mean_host_time(run, *main_program_hosts(run)).op_share, 1.0)


def _host_sentence(host: str, budget: Budget) -> str:
    """Return a sentence that names the largest category of one host's step."""
    most = max(Category, key=lambda c: budget.category_shares[c.value])
    step = humanize(budget.step_ps, Unit.PS)
    return f"{host} has most to gain: {budget.category_shares[most.value]:.0%} of its {step} step is {most.label.lower()}."
