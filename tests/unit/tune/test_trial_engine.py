"""What the engine calls and when; arms that fail or prove nothing. Time is simulated."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from outpace.model import UsageError
from outpace.tune.trial import Arm, Decision, Experiment, Facts, Per, Phase, Protocol, Watch, Work, run_experiment
from outpace.tune.trial.record import AGAIN
from outpace.tune.trial.verdict import outrun
from tests.unit.tune.simulated import STEP, Machine, simulate


def quiet() -> Machine:
    return Machine(0, noise=0.02, drift=0.0, bursts=False)


def race(machine: Machine, *arms: Arm, **options: Any) -> Experiment:
    return run_experiment(arms, clock=machine.clock, **{"budget": 20.0, **options})


def test_every_round_runs_every_arm_once_in_an_order_drawn_anew() -> None:
    machine = quiet()
    experiment = race(machine, machine.arm("a"), machine.arm("b"), machine.arm("c"))
    rounds: dict[int, list[str]] = {}
    for sample in experiment.samples:
        if sample.phase is Phase.SEARCH:
            assert sample.order == len(rounds.setdefault(sample.round, []))
            rounds[sample.round].append(sample.arm)
    assert len(rounds) >= 8
    assert all(Counter(order) == Counter(["a", AGAIN, "b", "c"]) for order in rounds.values())
    assert len({tuple(order) for order in rounds.values()}) > len(rounds) / 3
    again = race(machine, *(machine.arm(name) for name in "abc"), seed=1)
    orders = [[s.arm for s in e.samples][:24] for e in (experiment, again)]
    assert orders[0] != orders[1]


def test_the_second_process_of_a_baseline_that_failed_is_not_started() -> None:
    def fails() -> None:
        raise RuntimeError("no data")

    machine, prepared = quiet(), []

    def another(name: str) -> Arm:
        return Arm(name, lambda steps: machine.work(0.01 * steps), prepare=lambda: prepared.append(name))

    broken = Arm("a", lambda steps: machine.work(0.01 * steps), prepare=fails, another=another)
    race(machine, broken, machine.arm("b"), baseline="a")
    assert not prepared


def test_blocks_are_about_as_long_as_asked_and_never_too_few_steps() -> None:
    machine = quiet()
    slow = Arm("slow", lambda steps: machine.work(0.15 * steps))
    slower = Arm("slower", lambda steps: machine.work(1.0 * steps))  # of which three would be a block of 3 s
    experiment = race(machine, machine.arm("a"), slow, slower)
    lengths = {sample.arm: sample for sample in experiment.samples}
    assert lengths["a"].seconds == pytest.approx(0.15, rel=0.2)
    assert lengths["slow"].steps == 3
    assert lengths["slower"].steps == 1


def test_calls_around_a_block_are_not_timed_and_come_in_order() -> None:
    machine = quiet()
    calls: list[str] = []

    def noted(name: str, seconds: float = 0.0) -> Any:
        def call(*_: int) -> None:
            calls.append(name)
            machine.work(seconds)

        return call

    run = machine.step()

    def noted_run(steps: int) -> Any:
        calls.append("run")
        return run(steps)

    arm = Arm("b", noted_run, prepare=noted("prepare", 3.0), undo=noted("undo"), end=noted("end", 0.3))
    experiment = race(machine, machine.arm("a"), arm)
    assert calls[:3] == ["prepare", "run", "end"]
    assert calls.count("undo") == 1 and calls[-1] == "undo"
    assert calls.count("run") == calls.count("end")
    assert experiment.verdict("b").decision is Decision.SAME
    first = experiment.trial("b").first_seconds
    assert first is not None and first > 3


def test_an_arm_may_measure_itself() -> None:
    machine = quiet()
    run = machine.step(0.5)  # a slow machine, but the arm knows that its device was idle half of the time

    def measured(steps: int) -> Work:
        run(steps)
        return Work(2 * steps, STEP * steps)

    verdict = race(machine, machine.arm("a"), Arm("b", measured)).verdict("b")
    assert verdict.decision is Decision.FASTER
    assert verdict.estimate is not None and verdict.estimate.ratio == pytest.approx(2, rel=0.03)


def test_a_longer_first_call_is_weighed_against_the_gain() -> None:
    machine = quiet()
    compiled = machine.arm("compiled", 2.0, prepare=lambda: machine.work(10.0))
    verdict = race(machine, machine.arm("a"), compiled).verdict("compiled")
    assert verdict.break_even_steps == pytest.approx(10.0 / (STEP / 2), rel=0.1)


@pytest.mark.parametrize("fails", ["prepare", "first", "later"])
def test_a_failing_arm_leaves_and_the_others_go_on(fails: str) -> None:
    machine, undone = quiet(), []
    steps_done = 0

    def run(steps: int) -> None:
        nonlocal steps_done
        steps_done += steps
        if fails == "first" or (fails == "later" and steps_done > 900):
            raise MemoryError("no memory for 3 GB\nmore lines")
        machine.work(STEP * steps)

    def prepare() -> None:
        if fails == "prepare":
            raise ValueError("unknown option")

    broken = Arm("broken", run, prepare=prepare, undo=lambda: undone.append("broken"))
    experiment = race(machine, machine.arm("a"), broken, machine.arm("b", 1.5))
    assert experiment.verdict("broken").decision is Decision.FAILED
    said = "ValueError: unknown option" if fails == "prepare" else "MemoryError: no memory for 3 GB"
    assert experiment.verdict("broken").reason == said
    assert experiment.verdict("b").decision is Decision.FASTER
    assert undone == ["broken"]


def test_another_variant_is_the_baseline_when_the_first_fails_unless_one_was_named() -> None:
    def broken(steps: int) -> None:
        raise ValueError("broken")

    machine = quiet()
    arms = (Arm("a", broken), machine.arm("b"), machine.arm("c", 1.5))
    experiment = race(machine, *arms)
    assert experiment.baseline == "b"
    assert experiment.winner == "c"
    assert experiment.verdict("a").decision is Decision.FAILED
    named = race(machine, *arms, baseline="a")
    assert not named.samples
    assert {v.decision for v in named.verdicts} == {Decision.REFUSED}


@pytest.mark.parametrize("seed", range(6))
def test_a_baseline_that_fails_in_the_race_is_said(seed: int) -> None:
    """Its first process misses a round that its second one and another arm may have run already."""
    machine, done = quiet(), 0

    def run(steps: int) -> None:
        nonlocal done
        done += steps
        if done > 900:
            raise MemoryError("no memory")
        machine.work(STEP * steps)

    broken = Arm("a", run, another=lambda name: machine.arm(name))
    experiment = race(machine, broken, machine.arm("b", 1.5), baseline="a", seed=seed, protocol=Protocol(search=False))
    assert experiment.trial("a").failure == "MemoryError: no memory"
    assert experiment.verdict("b").arm == "b"


class StopAfter(Watch):
    """Ctrl-C after some rounds of a phase."""

    def __init__(self, phase: Phase, rounds: int) -> None:
        self.phase, self.rounds = phase, rounds

    def round(self, experiment: Experiment, phase: Phase, done: int, of: int | None, left: float) -> None:
        if phase is self.phase and done == self.rounds:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("phase", "rounds", "said"), [
    (Phase.SEARCH, 3, "The race was stopped after 3 rounds"),
    (Phase.CONFIRM, 2, "The race was stopped after 2 fresh rounds"),
])  # fmt: skip
def test_an_interrupt_undoes_and_returns_what_is_known(phase: Phase, rounds: int, said: str) -> None:
    machine, undone = quiet(), []
    arms = [machine.arm(name, rate, undo=lambda name=name: undone.append(name)) for name, rate in (("a", 1.0), ("b", 2.0))]
    experiment = race(machine, *arms, watch=StopAfter(phase, rounds))
    assert experiment.interrupted
    assert undone == ["b", "a"]
    assert experiment.verdict("b").decision is Decision.REFUSED
    assert experiment.verdict("b").reason.startswith(said)
    assert experiment.verdict("b").estimate is not None
    assert experiment.winner == "a"


def test_an_interrupt_inside_a_block_ends_the_block_and_undoes() -> None:
    machine, calls = quiet(), []

    def run(steps: int) -> None:
        machine.work(STEP * steps)
        if machine.now > 5:
            raise KeyboardInterrupt

    arm = Arm("b", run, end=lambda: calls.append("end"), undo=lambda: calls.append("undo"))
    experiment = race(machine, machine.arm("a"), arm)
    assert experiment.interrupted
    assert calls[-2:] == ["end", "undo"]


def test_a_difference_that_was_not_confirmed_is_not_called_one() -> None:
    """The search ends with a strong suspicion, and the interrupt comes before any fresh round."""
    machine = quiet()

    class StopBeforeConfirmation(Watch):
        def round(self, experiment: Experiment, phase: Phase, done: int, of: int | None, left: float) -> None:
            if done == 10 or phase is Phase.CONFIRM:
                raise KeyboardInterrupt

    slowly = Protocol(looks=(1000,))
    experiment = race(machine, machine.arm("a"), machine.arm("b", 2.0), watch=StopBeforeConfirmation(), protocol=slowly)
    verdict = experiment.verdict("b")
    assert verdict.decision is Decision.REFUSED and not verdict.confirmed
    assert verdict.reason.startswith("Speed-up 2.0") and "before fresh rounds could confirm it" in verdict.reason


def test_a_baseline_that_differs_from_itself_refuses_the_verdict() -> None:
    """Its second process is 10% slower: of a single process, nothing close to that is believed."""
    machine = quiet()
    base = machine.arm("a", another=lambda name: machine.arm(name, 0.9))
    experiment = race(machine, base, machine.arm("b", 1.2), machine.arm("c", 6.0), budget=60.0)
    assert experiment.verdict("b").decision is Decision.REFUSED
    assert "differs from itself" in experiment.verdict("b").reason
    assert experiment.verdict("c").decision is Decision.FASTER  # what is six times as fast is not explained by 10%


def test_too_small_a_budget_is_said() -> None:
    experiment = simulate(0, 1.5, budget=1.0)
    assert experiment.verdict("v0").decision is Decision.REFUSED
    reason = experiment.verdict("v0").reason
    assert "fitted into the budget" in reason and "times as large would decide" in reason


def test_rates_per_example_compare_batches_of_different_size() -> None:
    machine = quiet()
    large = machine.arm("large", 0.6, facts=lambda: Facts("batch of 64", 64))
    small = machine.arm("small", facts=lambda: Facts("batch of 32", 32))
    steps, examples = (race(machine, small, large, protocol=Protocol(per=per)) for per in (Per.STEP, Per.EXAMPLE))
    assert steps.verdict("large").decision is Decision.SLOWER
    assert examples.verdict("large").decision is Decision.FASTER
    rate = examples.verdict("large").rate
    assert rate == pytest.approx(64 * 0.6 / STEP, rel=0.1)
    unknown = race(machine, small, machine.arm("b"), protocol=Protocol(per=Per.EXAMPLE))
    assert unknown.verdict("b").decision is Decision.FAILED


def test_races_that_make_no_sense_are_refused() -> None:
    machine = quiet()
    a, b = machine.arm("a"), machine.arm("b")
    for arms, options in (([a], {}), ([a, a], {}), ([a, b], {"baseline": "c"}), ([a, b], {"budget": 0.0})):
        with pytest.raises(UsageError):
            run_experiment(arms, **options)


def test_a_race_of_fresh_rounds_has_no_search_and_judges_every_arm() -> None:
    machine = quiet()
    experiment = race(
        machine, machine.arm("a"), machine.arm("same"), machine.arm("faster", 1.5), protocol=Protocol(search=False)
    )
    assert {sample.phase for sample in experiment.samples} == {Phase.CONFIRM}
    assert experiment.verdict("faster").decision is Decision.FASTER and experiment.verdict("faster").confirmed
    assert experiment.verdict("same").decision is Decision.SAME
    assert len(set(experiment.plan.values())) == 1 and set(experiment.plan) == {"same", "faster"}
    assert experiment.seconds == pytest.approx(20.0, rel=0.2) or experiment.plan["same"] == experiment.protocol.fresh_rounds


def test_what_is_not_timed_counts_against_the_budget() -> None:
    machine = quiet()
    arms = [machine.arm(name, rate, end=lambda: machine.work(1.0)) for name, rate in (("a", 1.0), ("b", 1.3))]
    began = machine.now
    experiment = race(machine, *arms, budget=120.0)
    assert experiment.seconds < 150 < machine.now - began + 150
    assert experiment.plan["b"] < 40


def test_a_preparation_that_happened_before_is_stated_as_it_was() -> None:
    machine = quiet()
    known = machine.arm("b", facts=lambda: Facts(first_seconds=7.5))
    assert race(machine, machine.arm("a"), known).trial("b").first_seconds == 7.5


def test_processor_time_is_kept_with_each_block() -> None:
    machine = quiet()

    def run(steps: int) -> Work:
        machine.work(0.002 * steps)
        return Work(steps, 0.002 * steps, 0.004 * steps)

    told = Arm("told", run)
    experiment = race(machine, machine.arm("a"), told)
    assert set(experiment.cpu("told", Phase.SEARCH).values()) == {0.004}
    assert all(cpu >= 0 for cpu in experiment.cpu("a", Phase.SEARCH).values())


def test_a_race_that_only_screens_calls_nothing_proven() -> None:
    machine = quiet()
    arms = [machine.arm("a"), machine.arm("same"), machine.arm("faster", 1.5), machine.arm("slower", 0.6)]
    experiment = race(machine, *arms, protocol=Protocol(confirm=False))
    decisions = {verdict.arm: verdict.decision for verdict in experiment.verdicts}
    assert decisions == {"same": Decision.SAME, "faster": Decision.SEEMS_FASTER, "slower": Decision.SEEMS_SLOWER}
    assert {sample.phase for sample in experiment.samples} == {Phase.SEARCH}
    assert experiment.winner == "a" and not any(verdict.confirmed for verdict in experiment.verdicts)


def test_a_race_that_pays_for_no_round_more_has_no_rehearsal() -> None:
    machine = quiet()
    ran: list[int] = []

    def run(steps: int) -> None:
        ran.append(steps)
        machine.work(2.0 * steps)

    arms = [Arm("a", run), machine.arm("b")]
    protocol = Protocol(search=False, least_rounds=4)
    run_experiment(arms, budget=5.0, protocol=protocol, clock=machine.clock)
    warm = 3  # the first call, and what is timed before the race
    assert len(ran) <= warm + 2 * protocol.least_rounds  # with its second self


def test_a_search_ends_where_an_arm_has_outrun_the_others() -> None:
    """What the others are worth is asked on top of it."""
    machine = quiet()
    arms = [machine.arm("a"), machine.arm("little", 1.05), machine.arm("faster", 3.0)]

    def enough(known: Experiment) -> bool:
        return any(outrun(known, name, 1.5) for name in ("little", "faster"))

    experiment = race(machine, *arms, protocol=Protocol(confirm=False), enough=enough)
    assert len(experiment.rates("a", Phase.SEARCH)) == experiment.protocol.few_rounds
    assert outrun(experiment, "faster", 1.5) and not outrun(experiment, "faster", 4.0) and not outrun(experiment, "little", 1.0)
    assert experiment.verdict("faster").decision is Decision.SEEMS_FASTER
    assert experiment.verdict("little").decision is Decision.REFUSED


def test_a_whole_run_has_its_first_call_too() -> None:
    """Twice as fast in the step, with a first call that takes as long as 300 steps: a long run
    gains what the step does, a short one loses.
    """
    machine = quiet()
    slow = machine.arm("a", facts=lambda: Facts(first_seconds=STEP))
    compiled = machine.arm("b", 2.0, facts=lambda: Facts(first_seconds=300 * STEP))
    experiment = race(machine, slow, compiled)
    short, even, long = (experiment.of_run("b", steps) for steps in (100, 600, 1_000_000))
    assert short is not None and even is not None and long is not None
    assert short < 0.5 and even == pytest.approx(1.0, rel=0.1) and long == pytest.approx(2.0, rel=0.03)


def test_steps_before_the_race_are_a_part_of_the_run() -> None:
    """Of an arm that waits for the end of an epoch of 100 steps: these are not made again."""
    machine = quiet()
    slow = machine.arm("a", facts=lambda: Facts(first_seconds=STEP))
    cached = machine.arm("b", 4.0, facts=lambda: Facts(first_seconds=100 * STEP, first_steps=100))
    experiment = race(machine, slow, cached)
    assert experiment.of_run("b", 99) is None
    assert experiment.of_run("b", 100) == pytest.approx(1.0, rel=0.1)
    assert experiment.of_run("b", 1000) == pytest.approx(1000 / 325, rel=0.1)


def test_a_whole_run_has_what_lies_between_its_steps() -> None:
    """Ends of epochs take as long as the steps themselves, of both arms: four times as fast in the
    step are 1.6 times of a run.
    """
    machine = quiet()

    def arm(name: str, rate: float) -> Arm:
        def run(steps: int) -> Work:
            machine.work(STEP * steps * (1 + 1 / rate))
            return Work(steps, STEP / rate * steps, None, STEP * steps, ends)

        return Arm(name, run, facts=lambda: Facts(first_seconds=STEP))

    ends = 0
    assert race(machine, arm("a", 1.0), arm("b", 4.0)).of_run("b", 1_000_000) is None, "none was seen"
    ends = 1
    experiment = race(machine, arm("a", 1.0), arm("b", 4.0))
    found = experiment.verdict("b").estimate
    assert found is not None and found.ratio == pytest.approx(4.0, rel=0.1)
    assert experiment.of_run("b", 1_000_000) == pytest.approx(2 / 1.25, rel=0.05)
