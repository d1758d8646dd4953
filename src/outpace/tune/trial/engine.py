# SPDX-License-Identifier: Apache-2.0
"""`run_experiment`: search in paired rounds, then confirmation on fresh ones.

Every round runs each arm once, in an order drawn anew, and the baseline twice (A/A). The search
finds arms that differ and lets go of those that are clearly slower; because it looks repeatedly,
what it finds is a suspicion. The number of fresh rounds that each suspicion needs is fixed before
the first of them, and only these rounds are published. `verdict.judge` decides, from the samples
alone.

A treatment has several instances where its arm can make `another`. Two of each are started in
turns, and more for a confirmation, before its first round, where they show more than rounds for the
same time. With fewer processes `alive` at once than that, whole processes run in turns (`crews`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from outpace.model.errors import UsageError
from outpace.tune.trial.arm import Arm, Clock
from outpace.tune.trial.confirm import confirm
from outpace.tune.trial.crews import take_turns
from outpace.tune.trial.record import AGAIN, Experiment, Phase, Protocol, load
from outpace.tune.trial.search import search, suspected
from outpace.tune.trial.state import Race
from outpace.tune.trial.verdict import judge
from outpace.tune.trial.watch import Watch as Watch


def run_experiment(
    arms: Sequence[Arm],
    *,
    baseline: str | None = None,
    budget: float = 60.0,
    protocol: Protocol | None = None,
    seed: int = 0,
    sources: Mapping[str, str] | None = None,
    clock: Clock = time.perf_counter,
    watch: Watch | None = None,
    enough: Callable[[Experiment], bool] | None = None,
) -> Experiment:
    """Race arms against the baseline (the first by default); `budget` is in seconds and begins
    after all warm-ups.

    `enough`: asked at the looks of the search, which ends where it says so. An exception in an arm
    ends that arm, and its treatment's other instances. Ctrl-C ends the race with what is known;
    every prepared arm is undone in any case. Raises UsageError for fewer than two treatments, names
    that are not unique, or an unknown baseline.
    """
    names = [arm.name for arm in arms]
    if len(arms) < 2:
        raise UsageError("A race needs at least two variants.")
    if len({*names, AGAIN}) <= len(names):
        raise UsageError(f"Every variant needs a name of its own; these are given: {', '.join(names)}.")
    if baseline is not None and baseline not in names:
        raise UsageError(f"There is no variant {baseline!r} to be the baseline; there are: {', '.join(names)}.")
    if budget <= 0:
        raise UsageError("The budget must be more than 0 seconds.")
    protocol = protocol or Protocol()
    if protocol.alive < 0 or (protocol.alive and any(arm.another is None for arm in arms)):
        raise UsageError(
            "Processes run in turns where one at least may live, and another instance of each variant can be made."
        )
    race = Race(arms, baseline, budget, protocol, seed, sources or {}, clock, watch or Watch(), enough or (lambda known: False))
    return _run(race)


def _run(race: Race) -> Experiment:
    """The whole race."""
    with race.interrupts:
        try:
            race.make_seconds()
            if 0 < race.protocol.alive < len(race.lanes):
                race.protocol = replace(race.protocol, search=False, confirm=True)
                race.started = race.clock()
                take_turns(race)
            else:
                race.prepare_all()
                race.started = race.clock()
                if race.can_race():
                    _measure(race)
        except KeyboardInterrupt:
            race.interrupted = True
        finally:
            with race.interrupts.shield():
                race.undo(race.lanes)
    race.interrupted = race.interrupted or race.interrupts.seen
    ended = replace(race.environment, load=(*race.environment.load, *load()), versions=race.versions())
    experiment = replace(race.known(), environment=ended)
    return replace(experiment, verdicts=judge(experiment))


def _measure(race: Race) -> None:
    if not race.protocol.search:
        if race.protocol.least_rounds * race.cost(race.racing()) < race.left():  # else there is nothing to plan
            _rehearse(race)
        confirm(race, race.others())
        return
    search(race)
    if race.protocol.confirm:
        confirm(race, [lane for lane in race.leads() if suspected(race, lane)])


def _rehearse(race: Race) -> None:
    """A round that does not count: it tells what a block costs when others ran in between."""
    race.round(Phase.CONFIRM, 0, race.racing())
    race.samples.clear()
