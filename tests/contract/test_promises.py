"""What no report of any profile may do, whatever its program: promise more than there is, or
contradict the steps that it shows.
"""

from __future__ import annotations

import pytest

from outpace.metrics.facts.input_pipelines import pipelines
from outpace.metrics.facts.partial_steps import partial_step_reason
from outpace.metrics.savings.budget import ALL_HOSTS, budgets
from outpace.model import OUTSIDE_STEPS, Finding, Severity
from tests.support import PROFILES, opened

_ROUNDING = 1e-6


def base_of(name: str, finding: Finding) -> dict[str, float]:
    """Shares of the step that a finding's saving is of."""
    known = budgets(opened(name).run)
    return known[finding.host if finding.host in known else ALL_HOSTS].category_shares


@pytest.mark.parametrize("name", PROFILES)
def test_no_bound_is_above_what_it_is_taken_from(name: str) -> None:
    for finding in opened(name).report().findings:
        if finding.saving is not None:
            shares = base_of(name, finding)
            held = sum(shares.get(key, 0.0) for key in finding.saving.takes_from)
            assert finding.saving.high <= held + _ROUNDING, finding.sentence
            assert 0 <= finding.saving.low <= finding.saving.high <= 1


@pytest.mark.parametrize("name", PROFILES)
def test_the_savings_of_a_report_are_no_more_than_the_step(name: str) -> None:
    run = opened(name).run
    known = budgets(run)
    for host in known:
        mine = [
            f.saving.high
            for f in opened(name).report().findings
            if f.saving is not None and f.saving.takes_from != (OUTSIDE_STEPS,) and (f.host or ALL_HOSTS) in (host, ALL_HOSTS)
        ]
        single = len(known) <= 2
        if host != ALL_HOSTS or single:
            assert sum(mine) <= 1 + _ROUNDING


@pytest.mark.parametrize("name", PROFILES)
def test_one_place_is_one_finding(name: str) -> None:
    places = [(f.host, f.location) for f in opened(name).report().findings if f.location and f.severity is not Severity.INFO]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("name", PROFILES)
def test_a_pipeline_delivers_as_fast_as_the_steps_that_it_feeds(name: str) -> None:
    """A batch that takes longer than a step cannot have fed it: costs of batches and the step's
    time are of the same steps.
    """
    for pipeline in pipelines(opened(name).run):
        if pipeline.segments and pipeline.steps:
            steps = opened(name).run.by_host[pipeline.host].steps
            span = int(steps.end.max() - steps.start.min()) - int(steps.duration.sum()) + pipeline.steps_ps
            assert pipeline.segments[0].busy_ps * pipeline.root_calls <= span * (1 + _ROUNDING), pipeline.segments[0]


@pytest.mark.parametrize("name", PROFILES)
def test_steps_that_are_none_promise_nothing(name: str) -> None:
    if partial_step_reason(opened(name).run):
        assert all(f.saving is None for f in opened(name).report().findings)
