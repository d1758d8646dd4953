"""A key names one finding of a report, and ranking loses no finding that a tool stated."""

from __future__ import annotations

import pytest

from outpace.advice import rank_findings
from outpace.metrics.savings.budget import budgets
from tests.support import PROFILES, opened


@pytest.mark.parametrize("name", PROFILES)
def test_each_key_names_one_finding(name: str) -> None:
    profile = opened(name)
    ranking = rank_findings(profile.pages(), budgets(profile.run))
    ranked = [finding.key for finding in ranking.findings]
    stated = [finding.key for page in ranking.stated for finding in page.findings]
    struck = {finding.key for finding in ranking.struck}
    merged = [key for keys in ranking.merged.values() for key in keys]
    assert set(ranking.merged) == set(ranked)
    assert len({*ranked, *merged, *struck}) == len(ranked) + len(merged) + len(struck), "one key, two findings"
    assert {*ranked, *merged, *struck} <= set(stated), "ranking changes no key"
    causes = " ".join(finding.symptom for finding in ranking.findings)
    for finding in (finding for page in ranking.pages() for finding in page.findings):
        assert finding.key in {*ranked, *merged} or finding.sentence in causes, f"{finding.id} has neither a place nor a cause"
