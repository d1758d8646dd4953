# SPDX-License-Identifier: Apache-2.0
"""The confirmation: fresh rounds for what the search suspects. How many, and of how many instances,
is fixed before the first of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from outpace.stats.planning import MOST_INSTANCES, Costs, Noise, plan_comparison, rounds_needed
from outpace.tune.trial.arm import Lane
from outpace.tune.trial.record import Phase
from outpace.tune.trial.state import Race
from outpace.tune.trial.verdict import spreads

LATE = 0.5  # of the budget, beyond it: for rounds that a verdict needs at least


def confirm(race: Race, suspects: list[Lane]) -> None:
    """Fresh rounds for every arm that seems to differ; how many, of how many instances, is fixed
    here, before the first.
    """
    if not suspects or not race.base.racing:
        return
    for lane in suspects:
        for each in race.lanes:
            each.racing = each.racing or each.treatment == lane.name
    several = all(len(race.of(lane)) > 1 for lane in suspects)
    wanted = _more(race, suspects) if several else {lane.name: _needed(race, lane) for lane in suspects}
    suspects = [lane for lane in suspects if lane.racing]
    if suspects and race.base.racing:
        possible = _possible(race, suspects, wanted)
        race.plan = {lane.name: min(wanted[lane.name], possible) for lane in suspects}
        _confirm_planned(race, suspects)


def _more(race: Race, suspects: list[Lane]) -> dict[str, int]:
    """Start the instances that a confirmation needs beside those of the search; gives the rounds
    that it needs with them.
    """
    protocol, noise = race.protocol, Noise.of(spreads(race.known(), Phase.SEARCH))
    sides = [race.base, *suspects]
    running = min(len(race.of(lane)) for lane in sides)
    start = sum((lane.first_seconds or 0.0) + lane.warmup_seconds for lane in sides)
    costs = Costs(start, race.cost(sides), running, MOST_INSTANCES)
    least, most = protocol.confirm_rounds, max(protocol.confirm_rounds, protocol.fresh_rounds)
    plans = {
        lane.name: plan_comparison(noise, costs, race.left(), _effect(race, lane), protocol.power, least, most)
        for lane in suspects
    }
    instances = max(each for each, _ in plans.values())
    for number in range(running, instances):
        made = [
            lane for lead in sides if lead.racing and (lane := race.instance(lead, number)) is not None and not lane.prepared
        ]
        race.prepare_those(made)
    race.fill()
    return {name: rounds for name, (_, rounds) in plans.items()}


def _confirm_planned(race: Race, suspects: list[Lane]) -> None:
    most = max(race.plan.values())
    for number in range(most):
        racing = [lane for lane in suspects if lane.racing and number < race.plan[lane.name]]
        if not racing or not race.base.racing or _late(race, number):
            return
        race.round(Phase.CONFIRM, number, race.of(race.base, *racing))
        race.watch.round(race.known(), Phase.CONFIRM, number + 1, most, race.left())


def _late(race: Race, rounds: int) -> bool:
    """Whether blocks took so much longer than planned that the budget is over; what they showed is
    not asked.
    """
    enough = rounds >= race.protocol.least_rounds and race.left() < 0
    return enough or (rounds >= race.protocol.few_rounds and race.left() < -LATE * race.budget)


def _effect(race: Race, lane: Lane) -> float:
    """The log ratio to plan for. The search's flatters what it found, so that its end nearer to 1
    is planned with.
    """
    found, least = race.estimate(lane), math.log1p(race.protocol.effect)
    return max(min(abs(math.log(found.low)), abs(math.log(found.high))), least) if found is not None else least


def _needed(race: Race, lane: Lane) -> int:
    """Fresh rounds that a difference needs."""
    found = race.estimate(lane)
    if found is None:
        return race.protocol.confirm_rounds if race.protocol.search else race.protocol.fresh_rounds
    return max(race.protocol.confirm_rounds, rounds_needed(found.spread, _effect(race, lane), race.protocol.power))


def _possible(race: Race, suspects: list[Lane], wanted: Mapping[str, int]) -> int:
    """The largest cap on everybody's rounds that what is left of the budget pays for; a little more
    where that is enough to tell.
    """
    cost = {lane.name: race.cost(race.of(lane)) for lane in suspects}
    selves, longest = race.cost(race.of(race.base)), max(wanted.values())

    def fits(rounds: int, seconds: float) -> bool:
        total = sum(min(most, rounds) * cost[name] for name, most in wanted.items() if name in cost)
        return total + min(rounds, longest) * selves <= seconds

    least = race.protocol.least_rounds
    if fits(least, race.left() + LATE * race.budget):
        return next((rounds for rounds in range(longest, least, -1) if fits(rounds, race.left())), least)
    return next(
        (rounds for rounds in range(least, race.protocol.few_rounds, -1) if fits(rounds, race.left())),
        race.protocol.few_rounds,
    )
