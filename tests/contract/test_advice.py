"""What the advice of a whole report promises, on every capture: never more than there is, in the
program's own words, with proof.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outpace import api
from outpace.metrics.facts.partial_steps import partial_step_reason
from outpace.metrics.facts.workload import find_workload
from outpace.metrics.savings.budget import ALL_HOSTS, budgets
from outpace.model import OUTSIDE_STEPS, Figures, Finding, Report, Saving, Severity, Unit, humanize
from outpace.testing import training_run
from outpace.tools import discover_tools
from tests.architecture.source import FILES, literals, place
from tests.contract.inputs import MS
from tests.support import PROFILES, SOME, opened

SLACK = 1e-6
NOT_JAX = ("keras", "tf.function", "model.fit", "steps_per_execution", "TF_GPU_THREAD_MODE", "jit_compile", "tf.data.AUTOTUNE")
NOT_TENSORFLOW = ("jax.", "jnp.", "PjitFunction", "XLA_PYTHON")
ONE_STEP = ("derived_v100_bert", "tf_gpu_v100_bert")


@pytest.fixture(scope="module", params=SOME)
def profile(request: pytest.FixtureRequest) -> api.Profile:
    return opened(request.param)


@pytest.fixture(scope="module")
def report(profile: api.Profile) -> Report:
    return profile.report()


def savings(report: Report, *hosts: str) -> Iterator[Saving]:
    return (f.saving for f in report.findings if f.saving is not None and f.host in hosts)


def words(report: Report) -> Iterator[tuple[Finding, str]]:
    for finding in (*report.findings, *(f for page in report.pages for f in page.findings)):
        yield finding, " ".join((finding.sentence, finding.action, finding.symptom, *finding.counter_evidence))


def within(found: list[Saving], shares: dict[str, float], weight: float = 1.0) -> None:
    """Whatever categories are looked at together, what is taken from them alone is not more than
    they are.
    """
    sources = {saving.takes_from for saving in found}
    for count in range(1, len(sources) + 1):
        for some in combinations(sources, count):
            keys = {key for takes in some for key in takes}
            taken = sum(saving.high * weight for saving in found if keys.issuperset(saving.takes_from))
            assert taken <= sum(shares[key] for key in keys) + SLACK, (sorted(keys), taken)


def test_no_report_promises_more_than_there_is(profile: api.Profile, report: Report) -> None:
    """Per host and category; and no more than the step, on which all shares are."""
    known = budgets(profile.run)
    hosts = [host for host in known if host != ALL_HOSTS]
    for host in hosts:
        mine = list(savings(report, host, *([""] if len(hosts) == 1 else [])))
        within(mine, known[host].category_shares)
        assert sum(saving.high for saving in mine if saving.takes_from != (OUTSIDE_STEPS,)) <= 1 + SLACK
    assert not hosts or all(saving.step > 0 and saving.base for saving in savings(report, "", *hosts))
    assert hosts or not list(savings(report, "", *(t.host for t in profile.run.hosts))), (
        "without a step there is nothing to save"
    )


def test_hosts_and_all_of_them_promise_no_more_than_the_mean_step(profile: api.Profile, report: Report) -> None:
    known = budgets(profile.run)
    if ALL_HOSTS not in known:
        return
    together = known[ALL_HOSTS]
    total = sum(saving.high for saving in savings(report, "") if saving.takes_from != (OUTSIDE_STEPS,))
    for host, weight in together.host_weights.items():
        total += weight * sum(saving.high for saving in savings(report, host) if saving.takes_from != (OUTSIDE_STEPS,))
    assert total <= 1 + SLACK


def test_a_saving_is_told_on_one_base(profile: api.Profile, report: Report) -> None:
    """Every finding of a host, and of all, speaks of the same step; the pages say the same numbers
    as the report.
    """
    known = budgets(profile.run)
    hosts = [host for host in known if host != ALL_HOSTS]
    for finding in report.findings:
        if finding.saving is not None:
            budget = known[finding.host if finding.host in hosts else hosts[0] if len(hosts) == 1 else ALL_HOSTS]
            assert finding.saving.step == pytest.approx(budget.step_ps)
    paid = {(f.id, f.location, f.host, f.sentence): f for f in report.findings}
    for page in report.pages:
        for finding in page.findings:
            assert paid.get((finding.id, finding.location, finding.host, finding.sentence), finding) is finding


def test_a_part_saves_no_more_than_its_whole(report: Report) -> None:
    """Where a finding explains another one, and takes from no other categories, what it saves is a
    part of what the other bounds.
    """
    all_of = [f for page in report.pages for f in page.findings if f.saving is not None]
    for part, whole in permutations(all_of, 2):
        assert part.saving is not None
        assert whole.saving is not None
        explains = whole.id in part.explains and part.host == whole.host
        if explains and set(part.saving.takes_from) <= set(whole.saving.takes_from):
            assert part.saving.high <= whole.saving.high + SLACK, (part.id, whole.id)


def test_the_words_are_the_programs_own(profile: api.Profile, report: Report) -> None:
    strange = NOT_JAX if find_workload(profile.run).is_jax else NOT_TENSORFLOW
    if find_workload(profile.run).framework.value == "unknown":
        return
    for finding, text in words(report):
        found = [word for word in strange if word.lower() in text.lower()]
        assert not found, f"{finding.id}: {text}"


def test_no_finding_cites_a_table_that_no_page_has(report: Report) -> None:
    tables = report.references()
    for finding in (*report.findings, *report.struck):
        assert {evidence.table for evidence in finding.evidence} <= tables, finding.id


def test_findings_are_in_the_order_of_what_they_save(report: Report) -> None:
    """What only informs is last; what says that the capture must be made anew is first; nothing
    that is struck is advice.
    """
    informs = [finding.severity is Severity.INFO for finding in report.findings]
    assert informs == sorted(informs)
    capture = [finding.id.startswith("capture.") for finding in report.findings]
    assert capture == sorted(capture, reverse=True)
    assert not any(finding.struck for finding in report.findings)
    assert all(finding.struck for finding in report.struck)
    assert len({(f.id, f.location, f.host, f.sentence) for f in report.findings}) == len(report.findings)


def test_every_report_says_something_to_act_on_or_the_limits(profile: api.Profile, report: Report) -> None:
    if profile.run.events:
        assert any(finding.severity is not Severity.INFO for finding in report.findings), report.headline


@pytest.mark.parametrize("name", [*ONE_STEP, "built", "built, waiting"])
def test_one_step_carries_no_interval(name: str, tmp_path: Path) -> None:
    """Of one step nothing says how far it varies: bounds, and no prediction from ... to ..., no
    spread, no +-.
    """
    if name in ONE_STEP:
        report = opened(name).report()
    else:
        options: dict[str, Any] = {"work_ps": {"ParallelMapV2": 9 * MS}, "input_ps": 9 * MS} if "waiting" in name else {}
        report = api.open(training_run(steps=1, **options).write(tmp_path)).report()
    assert not re.search(r"±|interval|\d to \d", report.headline)
    for finding in report.findings:
        assert finding.saving is None or not finding.saving.is_predicted, f"{finding.id} predicts from one step"
        assert not re.search(r"±|95 ?%", finding.sentence)
    overview = report.page("overview")
    figures = [item for section in overview.sections if isinstance(section, Figures) for item in section.items]
    assert "no interval" in next(item.remark for item in figures if "step time" in item.label.lower())
    assert any("only 1 step" in line for line in overview.evidence)


def test_the_headline_is_of_the_steady_state(profile: api.Profile, report: Report) -> None:
    """The mean that it speaks of is that of the steps that were not left out; of what is no whole
    step it gives none.
    """
    timelines = [t for t in profile.run.hosts if len(t.steps)]
    if len(profile.run.hosts) == len(timelines) == 1 and not partial_step_reason(profile.run):
        steps = timelines[0].steps
        steady = [
            d
            for d, aside, whole in zip(steps.duration, steps.exclusions, steps.complete, strict=True)
            if whole and not aside.value
        ]
        assert humanize(float(np.mean(steady)), Unit.PS) in report.headline


@pytest.mark.slow
def test_what_a_tool_says_of_another_ones_tables_is_true() -> None:
    """Every reference in the tools' sources leads to a table that some profile has."""
    tools = "|".join(tool.id for tool in discover_tools())
    written = {
        text
        for path in FILES
        if place(path).startswith("tools/")
        for text in literals(path)
        if re.fullmatch(rf"({tools})\.[a-z_]+", text)
    }
    known = set().union(*(opened(name).report().references() for name in PROFILES))
    assert len(written) > 10
    assert written <= known
