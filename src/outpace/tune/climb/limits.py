# SPDX-License-Identifier: Apache-2.0
"""How fast a program could be: the model alone, the input alone, and both together."""

from __future__ import annotations

import math

from outpace._dataclass import dataclass
from outpace.stats.ratios import Estimate, compare_rounds
from outpace.tune.trial.record import Experiment, Phase, Protocol

TODAY, MODEL, INPUT = "as it is", "model alone", "input alone"
BOUND = 1.5  # times as fast alone as today, at most: then the model takes most of the step
SCREEN, FRESH = Protocol(confirm=False, search_rounds=12), Protocol(search=False)


@dataclass(frozen=True)
class Limits:
    """Rates in steps per second, and ratios to the variant's own rate with their 95% CIs.

    rate: the variant as it trains. model: the same steps on a batch that is held in memory. input:
    the pipeline, read without training. turns: both one after the other, as where each alone fills
    the cores that they share. bound: the most that both together can reach, with perfect overlap:
    neither is faster than alone, and the processor seconds of both must fit into the cores.
    decided: which of the three sets the bound, `model`, `input` or `cores`. Ratios are None where
    an arm failed.
    """

    rate: float
    model: float
    input: float
    turns: float
    bound: float
    decided: str
    model_ratio: Estimate | None
    input_ratio: Estimate | None
    turns_ratio: Estimate | None
    bound_ratio: Estimate | None

    @property
    def step_seconds(self) -> float | None:
        """Of a step as it trains; None where no round told."""
        return 1 / self.rate if self.rate > 0 else None

    @property
    def reached(self) -> Estimate | None:
        """Rate as a share of the bound, with its interval."""
        return _inverse(self.bound_ratio)


def _inverse(found: Estimate | None) -> Estimate | None:
    return None if found is None else Estimate(1 / found.ratio, 1 / found.high, 1 / found.low, found.rounds, found.spread)


def limits_of(experiment: Experiment, rate: dict[int, float], alone: tuple[str, str] = (MODEL, INPUT)) -> Limits:
    """The limits that a race on fresh rounds shows for a variant with these rates by round. alone:
    the arms of its model and of its input.
    """
    model, reading = (experiment.rates(name, Phase.CONFIRM) for name in alone)
    turns = {at: 1 / (1 / model[at] + 1 / reading[at]) for at in model.keys() & reading.keys()}
    bounds = _bounds(experiment, alone)
    decided = min((name for name in bounds if bounds[name]), key=lambda name: middle(bounds[name]), default="")
    bound = bounds.get(decided, {})
    return Limits(
        middle(rate),
        middle(model),
        middle(reading),
        middle(turns),
        middle(bound),
        decided,
        compare_rounds(rate, model),
        compare_rounds(rate, reading),
        compare_rounds(rate, turns),
        compare_rounds(rate, bound),
    )


def _bounds(experiment: Experiment, alone: tuple[str, str]) -> dict[str, dict[int, float]]:
    """What bounds the rate, by name and round."""
    cores = experiment.environment.cores
    model, reading = (experiment.rates(name, Phase.CONFIRM) for name in alone)
    training, waiting = (experiment.cpu(name, Phase.CONFIRM) for name in alone)
    seconds = {at: training[at] + waiting[at] for at in training.keys() & waiting.keys()}
    return {"model": model, "input": reading, "cores": {at: cores / each for at, each in seconds.items() if each > 0}}


def middle(rates: dict[int, float]) -> float:
    """Geometric mean; NaN for none."""
    return math.exp(math.fsum(map(math.log, rates.values())) / len(rates)) if rates else math.nan
