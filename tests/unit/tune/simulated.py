"""A simulated machine, whose clock moves when an arm works: no race depends on real timing."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from outpace.tune.trial import Arm, Experiment, run_experiment

STEP = 0.002  # seconds of a step of the baseline on the idle machine


class Machine:
    """Noise like that measured on a shared machine: the log ratio of two neighbouring blocks of
    0.15 s has a standard deviation of 0.13.

    A slow drift takes up to 26% off or on, a neighbour comes every two seconds and halves the speed
    for 0.3 s in the mean (both exponential), and every block has a lognormal factor of its own.
    """

    def __init__(self, seed: int, noise: float = 0.08, drift: float = 0.3, bursts: bool = True) -> None:
        self.now = 0.0
        self._random = random.Random(seed)
        self._noise, self._drift = noise, drift
        self._phase = self._random.random() * 2 * math.pi
        self._until = -1.0
        self._next = self._random.expovariate(0.5) if bursts else math.inf

    def clock(self) -> float:
        return self.now

    def work(self, seconds: float) -> None:
        """Do what takes so many seconds on the idle machine."""
        left = seconds * math.exp(self._drift * math.sin(self.now / 17 + self._phase) + self._random.gauss(0, self._noise))
        while left > 0:
            if self.now >= self._next:
                self._until = self.now + self._random.expovariate(1 / 0.3)
                self._next = self._until + self._random.expovariate(0.5)
            busy = self.now < self._until
            speed = 0.5 if busy else 1.0
            spent = min((self._until if busy else self._next) - self.now, left / speed)
            self.now += spent + 1e-9
            left -= spent * speed

    def step(self, rate: float = 1.0) -> Callable[[int], None]:
        """`run` of an arm that is `rate` times as fast as the baseline."""
        return lambda steps: self.work(STEP / rate * steps)

    def arm(self, name: str, rate: float = 1.0, **more: Any) -> Arm:
        return Arm(name, self.step(rate), **more)

    def text(self, name: str, rate: float = 1.0, apart: float = 0.0, start: float = 0.0, **more: Any) -> Arm:
        """An arm of which more processes start in `start` s each; `apart`: sd of log rates."""

        def another(name: str) -> Arm:
            return self.text(name, rate, apart, start, **more)

        own = rate * math.exp(self._random.gauss(0, apart))
        prepare = (lambda: self.work(start)) if start else None
        return Arm(name, self.step(own), prepare=prepare, another=another, **more)


def simulate(seed: int, *rates: float, budget: float = 60.0, **noise: Any) -> Experiment:
    """A race of a baseline and arms of known rates: the first is called v0."""
    machine = Machine(seed, **noise)
    arms = [machine.arm("base"), *(machine.arm(f"v{at}", rate) for at, rate in enumerate(rates))]
    return run_experiment(arms, budget=budget, seed=seed, clock=machine.clock)


NOISE = 0.03  # of a block, beside what all processes feel in a round
_HIT = 0.47  # a neighbour takes the processor: the block lasts 1.6 times as long


def processes(
    source: random.Random, drift: Sequence[float], count: int, apart: float, alike: float, hits: float = 0.0
) -> list[dict[int, float]]:
    """Rates by round of processes of one text: a place of each (sd `apart`), noise like its
    neighbour, and hits in a share of blocks.
    """
    made = []
    for _ in range(count):
        place, noise, rates = source.gauss(0, apart), source.gauss(0, 1), {}
        for at, common in enumerate(drift):
            rates[at] = math.exp(place + common + NOISE * noise - _HIT * (source.random() < hits))
            noise = alike * noise + math.sqrt(1 - alike**2) * source.gauss(0, 1)
        made.append(rates)
    return made


def exact(count: int, rounds: int, apart: float, alike: float) -> float:
    """Half the interval of a log ratio where all variances are known."""
    g = 1 + 2 * sum((1 - k / rounds) * alike**k for k in range(1, rounds))
    return 1.96 * math.sqrt(2 / count * (apart**2 + NOISE**2 * g / rounds))
