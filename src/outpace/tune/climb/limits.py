"""How fast a program could be: the model alone, the input alone, and both together."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

from outpace._dataclass import dataclass
from outpace.tune.climb.variant import Running, Variant
from outpace.tune.program.isolated import isolated
from outpace.tune.program.program import Program
from outpace.tune.program.stepper import SETTLE, buffered
from outpace.tune.trial.arm import Arm
from outpace.tune.trial.engine import Watch, run_experiment
from outpace.tune.trial.record import Experiment, Phase
from outpace.tune.trial.statistics import Estimate, compare

TODAY, MODEL, INPUT = "as it is", "model alone", "input alone"
LEAST = 4.0  # seconds; a race that is given less proves nothing


@dataclass(frozen=True)
class Limits:
    """Rates in steps per second, and ratios to today's with their 95 % intervals.

    today: the program as it is. model: the same steps on a batch that is held in memory. input: the pipeline, read without training.
    together: what both could reach: on a CPU they share the cores, so that their times add up; with an accelerator the slower one
    decides. experiment: the race that they come from.
    """

    today: float
    model: float
    input: float
    together: float
    model_ratio: Estimate | None
    input_ratio: Estimate | None
    together_ratio: Estimate | None
    shared: bool
    experiment: Experiment

    @property
    def bottleneck(self) -> str:
        """`input` or `step`: whichever alone is slower."""
        return "input" if self.input < self.model else "step"


def in_memory(program: Program) -> Any:
    """A data set of the first batch, over and over."""
    return sys.modules["tensorflow"].data.Dataset.from_tensors(program.spare)


def limits(program: Program, variant: Variant, budget: float, watch: Watch | None = None) -> Limits:
    """Measure the limits of a variant in one race of `budget` seconds."""
    today = Running(program, variant, TODAY)
    model = Running(program, Variant(MODEL, in_memory(program), tuple(c for c in variant.changes if c.knob is not None)), MODEL)
    arms = [today.arm(), unproven(model.arm()), _reading(variant.dataset)]
    return _limits(raced(arms, TODAY, budget, watch), shared=not _accelerated())


def raced(arms: list[Arm], baseline: str, budget: float, watch: Watch | None) -> Experiment:
    """A race of a climb: Ctrl-C ends the climb with it."""
    experiment = run_experiment(arms, baseline=baseline, budget=max(LEAST, budget), watch=watch)
    if experiment.interrupted:
        raise KeyboardInterrupt
    return experiment


def _limits(experiment: Experiment, shared: bool) -> Limits:
    rates = {name: _rates(experiment, name) for name in (TODAY, MODEL, INPUT)}
    common = rates[MODEL].keys() & rates[INPUT].keys()
    pairs = {at: (rates[MODEL][at], rates[INPUT][at]) for at in common}
    together = {at: 1 / (1 / m + 1 / i) if shared else min(m, i) for at, (m, i) in pairs.items()}
    base = experiment.reference(Phase.SEARCH)
    return Limits(
        _middle(rates[TODAY]),
        _middle(rates[MODEL]),
        _middle(rates[INPUT]),
        _middle(together),
        compare(base, rates[MODEL]),
        compare(base, rates[INPUT]),
        compare(base, together),
        shared,
        experiment,
    )


def _rates(experiment: Experiment, name: str) -> dict[int, float]:
    """Rates by round of the search, in which all arms ran side by side."""
    return experiment.rates(name, Phase.SEARCH)


def _middle(rates: dict[int, float]) -> float:
    """Geometric mean; NaN for none."""
    return math.exp(math.fsum(map(math.log, rates.values())) / len(rates)) if rates else math.nan


def unproven(arm: Arm) -> Arm:
    """The arm of something that is no change of the program, or whose changes were proven in a race before."""
    return replace(arm, proof=None)


def _reading(dataset: Any) -> Arm:
    """The input alone: a step reads one batch."""
    state: dict[str, Any] = {}

    def prepare() -> None:
        state["iterator"] = iter(isolated(dataset).repeat())

    def run(steps: int) -> None:
        iterator = state["iterator"]
        for _ in range(steps):
            next(iterator)

    def drain() -> None:
        run(buffered(state["iterator"]) + SETTLE)

    return Arm(INPUT, run, what="the pipeline without training", prepare=prepare, undo=state.clear, drain=drain)


def _accelerated() -> bool:
    return any(device.device_type in ("GPU", "TPU") for device in sys.modules["tensorflow"].config.list_logical_devices())
