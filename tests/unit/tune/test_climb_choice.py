"""What a climb races next, and what it may still spend."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outpace.stats.ratios import Estimate
from outpace.tune.climb.candidates import Candidate
from outpace.tune.climb.choice import MOST_AT_ONCE, ROUNDS, Budget, Choice
from outpace.tune.climb.limits import SCREEN
from outpace.tune.optimisations.optimisation import Reach
from outpace.tune.risk import Risk
from outpace.tune.trial import Arm, run_experiment
from outpace.tune.trial.record import Decision, Phase, Verdict
from tests.unit.tune.simulated import Machine


def candidate(id: str, *, knob: bool = False, minor: bool = False) -> Candidate:
    return Candidate(id, id, "", Risk.EXACT, (), (), of_input=not knob, minor=minor)


CACHE, PREFETCH, POOL = candidate("cache"), candidate("prefetch"), candidate("pool", minor=True)
XLA, BIAS = candidate("xla", knob=True), candidate("bias", knob=True, minor=True)


def said(decision: Decision, ratio: float = 1.0, rounds: int = 12) -> Verdict:
    estimate = Estimate(ratio, ratio / 1.2, ratio * 1.2, rounds, 0.1)
    return Verdict("", decision, "", estimate, None, False, None, None)


def test_what_usually_adds_little_waits_for_the_others() -> None:
    choice, fits = Choice(), [POOL, CACHE, BIAS, XLA]
    assert choice.next(fits) == [CACHE, XLA]
    choice.learn(CACHE, said(Decision.REFUSED))
    assert choice.next(fits) == [XLA, CACHE]  # what was raced before comes after what was not
    choice.learn(XLA, said(Decision.REFUSED))
    assert choice.next(fits) == [CACHE, XLA]
    for found in (CACHE, XLA):
        choice.learn(found, said(Decision.SAME))
    choice.reopen()
    assert choice.next(fits) == [CACHE, XLA, POOL, BIAS]
    assert choice.next([POOL, CACHE, PREFETCH]) == [PREFETCH, CACHE]
    assert choice.next([POOL, BIAS]) == [POOL, BIAS]


def test_a_race_has_no_more_than_its_rounds_can_tell_apart() -> None:
    assert len(Choice().next([candidate(str(at)) for at in range(20)])) == MOST_AT_ONCE


def test_what_is_decided_is_not_raced_again() -> None:
    choice = Choice()
    choice.learn(candidate("failed"), said(Decision.FAILED))
    choice.learn(CACHE, said(Decision.SAME))
    choice.reopen()
    assert choice.over("failed")
    assert not choice.over("cache")


def test_a_refusal_is_raced_once_more() -> None:
    choice = Choice()
    assert not choice.over("cache")
    choice.learn(CACHE, said(Decision.REFUSED))
    assert not choice.over("cache")
    choice.learn(CACHE, said(Decision.REFUSED))
    assert choice.over("cache")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_budget_pays_for_as_many_as_fit() -> None:
    clock = Clock()
    budget = Budget(50.0, clock, preparing=2.0, block=0.5)
    fits = [candidate(id) for id in "abcdef"]
    clock.now += 10
    price = [budget.price(n) for n in range(1, 7)]
    assert price == sorted(price) and price[5] > budget.left > price[3]
    paid = budget.affordable(fits)
    assert paid == fits[: len(paid)] and budget.price(len(paid)) <= budget.left < budget.price(len(paid) + 1)
    clock.now += 25
    assert budget.affordable(fits) == []


@pytest.mark.parametrize("seconds", [40.0, 70.0, 100.0, 140.0, 300.0, 1200.0])
@pytest.mark.parametrize("preparing", [1.0, 2.0, 5.0])
def test_a_race_that_is_paid_for_has_enough_rounds(seconds: float, preparing: float) -> None:
    budget = Budget(seconds, Clock(), preparing, block=0.35)
    number = len(budget.affordable([candidate(id) for id in "abcdef"]))
    if number:
        given, rest = budget.for_race(number, number + 1), budget.left - (number + 1) * preparing
        assert ROUNDS * (number + 2) * budget.block <= given + 1e-9 and given <= rest + 1e-9
        assert given == rest or rest - given >= budget.price(1)
    else:
        assert budget.price(1) > budget.left


def test_a_race_that_screens_goes_on_until_its_rounds_tell_anything() -> None:
    """Of a budget for five rounds seven were run once, "a verdict needs 8", and a gain of three
    times was thrown away.
    """
    machine = Machine(3)
    arms = [machine.arm("a"), machine.arm("b", 1.4)]
    each = 3 * SCREEN.block_seconds  # a round of two arms and the first one's second self
    found = run_experiment(arms, budget=5 * each, clock=machine.clock, protocol=SCREEN)
    assert found.verdict("b").decision is Decision.SEEMS_FASTER
    short = run_experiment(arms, budget=2 * each, clock=machine.clock, protocol=SCREEN)  # at most for as long again
    assert short.verdict("b").decision is Decision.REFUSED and 3 <= len(short.rates("a", Phase.SEARCH)) < SCREEN.least_rounds
    large = [machine.arm("a"), machine.arm("b", 3.0)]  # that few rounds tell of
    soon = run_experiment(large, budget=2 * each, clock=machine.clock, protocol=SCREEN)
    assert soon.verdict("b").decision is Decision.SEEMS_FASTER and len(soon.rates("b", Phase.SEARCH)) == SCREEN.few_rounds


def test_what_is_raced_on_top_of_a_winner_costs_what_the_winner_cost() -> None:
    machine = Machine(3, noise=0.0, drift=0.0, bursts=False)
    budget = Budget(100.0, machine.clock)
    slow = Arm("slow", lambda steps: machine.work(0.5 * steps))
    race = run_experiment([slow, machine.arm("b")], budget=20.0, clock=machine.clock, protocol=SCREEN)
    budget.learn(race, race.seconds, 0)
    mixed = budget.block
    budget.follow(race, "b")
    assert budget.block == pytest.approx(SCREEN.block_seconds, rel=0.1) and budget.block < mixed / 2


def test_the_budget_learns_what_races_cost_here() -> None:
    machine = Machine(3)
    budget = Budget(100.0, machine.clock)
    arms = [machine.arm("a"), machine.arm("b", 1.1)]
    race = run_experiment(arms, budget=20.0, clock=machine.clock, protocol=SCREEN)
    budget.learn(race, race.seconds + 6.0, 2)
    assert budget.preparing == pytest.approx(3.0)
    assert budget.block == pytest.approx(race.seconds / len(race.samples), rel=0.1)
    budget.learn(race, race.seconds, 0)  # nothing new: nothing about preparing
    assert budget.preparing == pytest.approx(3.0)
    budget.learn(race, race.seconds + 4.0, 3)
    assert budget.preparing == pytest.approx(2.0)
    assert budget.price(1) >= ROUNDS * 3 * budget.block


@pytest.mark.parametrize(
    ("step_seconds", "input_share", "first"),
    [(0.0005, 0.0, "several"), (0.2, 0.0, "cache"), (0.2, 0.8, "cache"), (0.002, 0.9, "cache"), (None, None, "several")],
)
def test_what_could_take_most_of_a_step_is_raced_first(
    step_seconds: float | None, input_share: float | None, first: str
) -> None:
    cache, several, xla = (
        replace(candidate(name), reach=reach)
        for name, reach in (
            ("cache", Reach(of_input=0.9)),
            ("several", Reach(of_call=0.8)),
            ("xla", Reach(of_step=0.2)),
        )
    )
    assert Choice().next([xla, several, cache], step_seconds, input_share)[0].id == first


def test_what_takes_more_of_a_step_is_raced_first() -> None:
    graph = replace(candidate("graph"), reach=Reach(of_step=0.95))
    models = replace(candidate("models"), reach=Reach(of_step=0.7))
    assert Choice().next([models, graph], 0.3, 0.0)[0].id == "graph"
    graph, models = replace(graph, share=0.3), replace(models, share=0.7)
    assert Choice().next([graph, models], 0.3, 0.0)[0].id == "models"
