"""Races in which a text has several processes: who is started when, how many, what a failing one
does, turns. Time is simulated.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from outpace.model import UsageError
from outpace.stats.planning import Costs, Noise, plan_comparison
from outpace.stats.random_effects import Spread
from outpace.tune.trial import (
    Arm,
    Decision,
    Experiment,
    Phase,
    Protocol,
    judge,
    run_experiment,
)
from outpace.tune.trial.record import Trial
from outpace.tune.trial.verdict import spreads
from tests.unit.tune.simulated import STEP, Machine

FRESH = Protocol(search=False)


def quiet(seed: int = 0) -> Machine:
    return Machine(seed, noise=0.02, drift=0.1, bursts=False)


def race(machine: Machine, *arms: Arm, **options: Any) -> Experiment:
    return run_experiment(arms, clock=machine.clock, **{"budget": 20.0, "protocol": FRESH, **options})


def test_two_processes_of_each_are_started_in_turns_and_run_in_every_round() -> None:
    machine = quiet()
    experiment = race(
        machine, machine.text("a", start=1.0), machine.text("b", 1.5, start=1.0), protocol=Protocol(confirm=False)
    )
    assert [(trial.arm, trial.treatment) for trial in experiment.trials] == [
        ("a", "a"), ("b", "b"), ("a (2)", "a"), ("b (2)", "b"),
    ]  # fmt: skip
    rounds: dict[int, list[str]] = {}
    for sample in experiment.samples:
        rounds.setdefault(sample.round, []).append(sample.arm)
    assert all(Counter(order) == Counter(["a", "b", "a (2)", "b (2)"]) for order in rounds.values())
    assert experiment.instances("b") == ("b", "b (2)")
    assert [verdict.arm for verdict in experiment.verdicts] == ["b"]
    assert experiment.verdict("b").decision is Decision.SEEMS_FASTER and experiment.verdict("b").control is None


def test_processes_that_differ_make_the_interval_wider_and_no_difference_is_found_in_them() -> None:
    """One of each is 4% faster than the other: rounds of single processes had called that a
    difference.
    """
    machine = quiet()
    arms = [machine.arm(text, rate, another=lambda name: machine.arm(name, 1.04)) for text, rate in (("a", 1.0), ("b", 1.04))]
    experiment = race(machine, *arms, protocol=Protocol(search=False, power=0.0))  # two processes show 4%, if it is there
    verdict = experiment.verdict("b")
    assert verdict.estimate is not None and verdict.estimate.contains(1.0)
    assert verdict.decision is Decision.SAME
    assert "could have been shown (with a power of 80%)" in verdict.reason
    spread, _ = spreads(experiment, Phase.CONFIRM)
    assert spread.squares == pytest.approx(0.04**2 / 2, rel=0.3) and spread.noise < spread.squares / 5


def test_more_processes_are_started_before_the_first_fresh_round_where_that_decides() -> None:
    machine = quiet()
    cheap = race(machine, machine.text("a", apart=0.01), machine.text("b", 1.06, apart=0.01), budget=60.0)
    assert 2 < len(cheap.instances("a")) == len(cheap.instances("b")) <= 4
    (rounds,) = {len(cheap.rates(trial.arm, Phase.CONFIRM)) for trial in cheap.trials}
    assert 20 <= rounds <= cheap.plan["b"]
    machine = quiet()
    dear = race(machine, machine.text("a", start=40.0), machine.text("b", 1.06, start=40.0), budget=60.0)
    assert len(dear.instances("a")) == 2
    machine = quiet()
    clear = race(machine, machine.text("a"), machine.text("b", 2.0), budget=60.0, protocol=Protocol())
    assert len(clear.instances("b")) == 2 and clear.verdict("b").decision is Decision.FASTER


def test_the_cheapest_numbers_that_would_show_an_effect_are_planned() -> None:
    calm, wild = Noise(1e-6, 9e-4), Noise(4e-4, 9e-4)
    costs = Costs(start=5.0, round=0.3)
    assert plan_comparison(calm, costs, 100.0, 0.10, 1.28, 8, 60) == (2, 8)
    few, many = (plan_comparison(noise, costs, 100.0, 0.05, 1.28, 8, 60)[0] for noise in (calm, wild))
    assert few == 2 < many
    assert plan_comparison(wild, costs, 3.0, 0.03, 1.28, 8, 60) == (2, 8)  # nothing is paid for: the least
    assert Noise.of([Spread(9e-4, 6, 1e-4, 9, 0.0)]).between == pytest.approx(8e-4, rel=0.1)


def test_a_text_of_which_one_process_fails_has_failed() -> None:
    machine, started = quiet(), Counter[str]()

    def make(name: str) -> Arm:
        def run(steps: int) -> None:
            if name == "b (2)":
                raise MemoryError("no memory")
            machine.work(STEP * steps)

        def prepare() -> None:
            started[name] += 1

        return Arm(name, run, prepare=prepare, another=make)

    experiment = race(machine, machine.text("a"), make("b"), machine.text("c", 1.5))
    assert experiment.verdict("b").decision is Decision.FAILED and experiment.verdict("b").reason == "MemoryError: no memory"
    assert experiment.verdict("c").decision is Decision.FASTER
    assert started == {"b": 1, "b (2)": 1} and not any(sample.arm.startswith("b") for sample in experiment.samples)


@pytest.mark.parametrize("alive", [1, 2, 3])
def test_processes_that_do_not_fit_run_in_turns(alive: int) -> None:
    machine, running, most = quiet(), set[str](), [0]

    def text(name: str, rate: float) -> Arm:
        def prepare() -> None:
            machine.work(1.0)
            running.add(name)
            most[0] = max(most[0], len(running))

        return Arm(
            name, machine.step(rate), prepare=prepare, undo=lambda: running.discard(name), another=lambda new: text(new, rate)
        )

    experiment = race(machine, text("a", 1.0), text("b", 1.5), protocol=Protocol(alive=alive), budget=60.0)
    assert most == [min(alive, 2)] and not running
    turns = len(experiment.instances("a"))
    assert turns == len(experiment.instances("b")) >= 3
    rounds = [set(experiment.rates(name, Phase.CONFIRM)) for name in experiment.instances("a")]
    assert set.union(*rounds) == set(range(experiment.plan["b"])) and sum(map(len, rounds)) == experiment.plan["b"]
    verdict = experiment.verdict("b")
    assert verdict.decision is Decision.FASTER and verdict.estimate is not None and verdict.estimate.contains(1.5)
    assert experiment.seconds == pytest.approx(60.0, rel=0.3)
    assert judge(experiment) == experiment.verdicts


def test_turns_need_variants_that_can_be_started_again() -> None:
    machine = quiet()
    for alive, first in ((-1, machine.text("a")), (1, machine.arm("a"))):
        with pytest.raises(UsageError, match="in turns"):
            race(machine, first, machine.text("b"), protocol=Protocol(alive=alive))


def test_records_from_before_instances_are_read() -> None:
    assert Trial("a").treatment == ""
    machine = quiet()
    single = race(machine, machine.arm("a"), machine.arm("b", 1.5))
    assert single.processes("a") == ("a",) and [trial.arm for trial in single.compared] == ["a", "b"]
    assert single.verdict("b").control is not None


APART = Protocol(search=False, processes=True)


@pytest.mark.parametrize(("rate", "decision"), [(1.1, Decision.REFUSED), (1.25, Decision.REFUSED), (2.0, Decision.FASTER)])
def test_of_one_process_of_each_only_a_large_gain_is_told(rate: float, decision: Decision) -> None:
    machine = quiet()
    experiment = race(machine, machine.arm("a"), machine.arm("b", rate), protocol=APART)
    verdict = experiment.verdict("b")
    assert verdict.decision is decision, verdict.reason
    assert verdict.estimate is not None and verdict.estimate.high / verdict.estimate.ratio > 1.15
    assert decision is Decision.FASTER or verdict.reason.startswith(
        "One process of each ran, and processes of one program differ"
    )
    rounds = judge(replace(experiment, protocol=FRESH))[0]
    assert rounds.decision is Decision.FASTER  # where both are one process, its rounds are enough


@pytest.mark.parametrize("count", [1, 2])
def test_processes_of_one_text_are_not_called_different(count: int) -> None:
    """They differ by 5 % (sd). By the rounds of one of each every second race would say so; by the
    interval of 99 % it is one of a hundred.
    """
    found = Counter[Decision]()
    for seed in range(60):
        machine = quiet(seed)
        arms = [machine.text(name, apart=0.05) for name in "ab"]
        arms = arms if count > 1 else [replace(arm, another=None) for arm in arms]
        found[race(machine, *arms, budget=12.0, seed=seed, protocol=APART).verdict("b").decision] += 1
    assert found[Decision.FASTER] + found[Decision.SLOWER] <= 1, found
