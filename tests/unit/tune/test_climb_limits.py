"""What bounds a program: the model, the input, or shared cores. Time is simulated."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from outpace.tune.climb.limits import INPUT, MODEL, TODAY, Limits, limits_of
from outpace.tune.trial import Arm, Phase, Protocol, Work, run_experiment
from tests.unit.tune.simulated import Machine


def limits(model: tuple[float, float], reading: tuple[float, float], cores: int) -> Limits:
    """Of 10 steps a second; seconds and processor seconds per step of either part."""
    machine = Machine(2, noise=0.02, drift=0.0, bursts=False)

    def arm(name: str, seconds: float, cpu: float) -> Arm:
        def run(steps: int) -> Work:
            before = machine.now
            machine.work(steps * seconds)
            return Work(steps, machine.now - before, steps * cpu)

        return Arm(name, run)

    arms = [arm(TODAY, 0.1, 0.1), arm(MODEL, *model), arm(INPUT, *reading)]
    experiment = run_experiment(arms, budget=60.0, clock=machine.clock, protocol=Protocol(search=False))
    experiment = replace(experiment, environment=replace(experiment.environment, cores=cores))
    return limits_of(experiment, experiment.reference(Phase.CONFIRM))


@pytest.mark.parametrize(
    ("model", "reading", "cores", "decided", "bound"),
    [
        ((0.02, 0.02), (0.05, 0.05), 8, "input", 20),
        ((0.05, 0.05), (0.02, 0.02), 8, "model", 20),
        ((0.05, 0.1), (0.05, 0.05), 2, "cores", 2 / 0.15),  # the model fills both cores, the input wants one more
        ((0.05, 0.05), (0.05, 0.05), 2, "", 20),  # each fills a core of its own: nothing is lost
    ],
)
def test_the_bound_is_the_slowest_part_or_what_the_cores_can_do(
    model: tuple[float, float], reading: tuple[float, float], cores: int, decided: str, bound: float
) -> None:
    found = limits(model, reading, cores)
    assert found.bound == pytest.approx(bound, rel=0.04)
    assert found.decided == decided or not decided
    assert found.reached is not None and found.reached.contains(10 / bound)
    assert found.bound_ratio is not None and found.bound_ratio.ratio == pytest.approx(bound / 10, rel=0.04)


def test_a_rate_that_no_round_told_gives_no_step_time() -> None:
    found = limits((0.05, 0.05), (0.02, 0.02), 8)
    assert found.step_seconds == pytest.approx(0.1, rel=0.05)
    assert replace(found, rate=math.nan).step_seconds is None
