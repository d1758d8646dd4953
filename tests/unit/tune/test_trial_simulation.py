"""The protocol on a simulated machine: how often it finds what is not there, what is, and how far
off its intervals are.

No time is measured. The numbers of races are chosen so that a protocol without pairing, without
confirmation or with intervals that are too narrow fails: each was tried.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from outpace.tune.trial import Decision, Experiment, Phase, run_experiment
from outpace.tune.trial.record import Protocol, Verdict
from tests.unit.tune.simulated import Machine, simulate

pytestmark = pytest.mark.slow


@cache
def races(number: int, *rates: float) -> tuple[Experiment, ...]:
    return tuple(simulate(seed, *rates) for seed in range(number))


def decisions(experiments: tuple[Experiment, ...]) -> Counter[str]:
    return Counter(verdict.decision.value for experiment in experiments for verdict in experiment.verdicts)


def test_equal_arms_are_not_called_different() -> None:
    """Of 40 races of equals, 5 may look different to the search and 2 after confirmation."""
    experiments = races(200, 1.0)
    called = [e for e in experiments if e.verdicts[0].decision in (Decision.FASTER, Decision.SLOWER)]
    assert sum(bool(e.plan) for e in experiments) <= 25
    assert len(called) <= 3
    assert decisions(experiments)["no difference"] >= 180


def test_the_confirmation_rejects_what_the_search_suspects() -> None:
    suspected = [e for e in races(200, 1.0) if e.plan]
    assert len(suspected) >= 5
    assert sum(e.verdicts[0].decision in (Decision.FASTER, Decision.SLOWER) for e in suspected) <= len(suspected) / 3


@pytest.mark.parametrize(("rate", "number", "least"), [(1.1, 60, 48), (1.3, 60, 54), (0.8, 60, 54), (3.0, 40, 38)])
def test_real_differences_are_found(rate: float, number: int, least: int) -> None:
    found = decisions(races(number, rate))
    assert found["faster" if rate > 1 else "slower"] >= least
    assert found["slower" if rate > 1 else "faster"] == 0


def test_published_intervals_hold_the_truth() -> None:
    """95% should; fewer than 91% of 240 happens in 1 of 300 runs of a protocol that is right."""
    confirmed = [
        verdict.estimate.contains(rate)
        for rate, number in ((1.05, 60), (1.1, 60), (1.3, 60), (0.8, 60))
        for experiment in races(number, rate)
        for verdict in experiment.verdicts
        if verdict.estimate is not None and experiment.plan
    ]
    assert len(confirmed) > 200
    assert sum(confirmed) / len(confirmed) >= 0.91


def test_what_is_published_was_not_seen_by_the_search() -> None:
    for experiment in races(60, 1.1):
        for verdict in experiment.verdicts:
            if verdict.decision is Decision.FASTER:
                assert verdict.confirmed
                assert verdict.estimate is not None
                fresh = experiment.rates(verdict.arm, Phase.CONFIRM)
                assert experiment.protocol.least_rounds <= verdict.estimate.rounds == len(fresh) <= experiment.plan[verdict.arm]


def test_large_differences_are_found_soon() -> None:
    seconds = sorted(experiment.seconds for experiment in races(40, 3.0))
    assert seconds[20] < 16
    assert all(experiment.seconds < 66 for experiment in races(200, 1.0))  # the budget, and the round that was running


def test_few_rounds_tell_of_large_differences_alone() -> None:
    """With a budget for four rounds, there are four, whatever they show: of 200 races of equals
    none claims, of twice as fast 138.
    """
    equal, twice = ([_in_haste(seed, rate) for seed in range(200)] for rate in (1.0, 2.0))
    wrong = [found.estimate for found in equal if found.decision in (Decision.FASTER, Decision.SLOWER)]
    assert len(wrong) <= 1
    claims = [found.estimate for found in twice if found.decision is Decision.FASTER]
    assert len(claims) >= 120 and all(each is not None and each.rounds == 4 for each in claims)
    assert sum(each is not None and each.contains(2.0) for each in claims) / len(claims) >= 0.91


def _in_haste(seed: int, rate: float) -> Verdict:
    machine = Machine(seed)
    arms = [machine.arm("base"), machine.arm("v0", rate)]
    return run_experiment(arms, budget=2.0, seed=seed, clock=machine.clock, protocol=Protocol(search=False)).verdict("v0")


def test_several_arms_in_one_race() -> None:
    experiments = tuple(simulate(seed, 1.3, 1.0, 0.5, 2.0) for seed in range(15))
    assert sum(e.winner == "v3" for e in experiments) >= 14
    found = Counter((v.arm, v.decision) for e in experiments for v in e.verdicts)
    assert found["v0", Decision.FASTER] >= 12
    assert found["v2", Decision.SLOWER] >= 12
    assert found["v1", Decision.FASTER] + found["v1", Decision.SLOWER] <= 1
    assert all(e.trial("v2").dropped is not None for e in experiments)
