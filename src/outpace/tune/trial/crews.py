# SPDX-License-Identifier: Apache-2.0
"""A race whose processes cannot all live at once: whole processes run in turns, in crews of as many
as fit.

A turn starts one new process of each treatment, in an order drawn anew, lets it run its rounds, and
ends it. The same rounds of a turn are compared, and turns are the sample: what a machine does
between two processes of a turn shows as their differences' spread (`instances.compare_instances`).
How many turns there are follows from what the first one took, never from what it showed.
"""

from __future__ import annotations

from outpace.tune.trial.arm import Lane, fill
from outpace.tune.trial.record import Phase
from outpace.tune.trial.state import Race

LEAST_TURNS = 3
MOST_TURNS = 12
_SHARE = 1.0  # of a process' start: its rounds take about as long, at least as many as tell anything


def take_turns(race: Race) -> None:
    """Run all turns; every process that was started is ended with its turn."""
    turns, turn, rounds = LEAST_TURNS, 0, 0
    while turn < turns and race.base.failure is None:
        crew = _instances(race, turn)
        if len(crew) < 2:
            return
        race.random.shuffle(crew)
        began = race.clock()
        for at in range(0, len(crew), race.protocol.alive):
            rounds = _run(race, crew[at : at + race.protocol.alive], turn, rounds)
        if turn == 0:
            turns = min(max(LEAST_TURNS, int(race.budget / max(race.clock() - began, 1e-9))), MOST_TURNS)
            race.plan = {
                lane.name: turns * rounds for lane in race.lanes if lane.treatment == lane.name and lane is not race.base
            }
        turn += 1
        race.watch.round(race.known(), Phase.CONFIRM, turn * rounds, turns * rounds, race.left())


def _instances(race: Race, turn: int) -> list[Lane]:
    """One process of each treatment that is still in the race, the baseline's among them."""
    leads = [lane for lane in race.lanes if lane.treatment == lane.name and lane.failure is None]
    found = [race.instance(lead, turn) for lead in leads]
    crew = [lane for lane in found if lane is not None]
    return crew if any(lane.treatment == race.base.name for lane in crew) else []


def _run(race: Race, crew: list[Lane], turn: int, rounds: int) -> int:
    """Start a crew, run its rounds, end it; gives the number of rounds, which the first crew's
    start decides.
    """
    try:
        race.prepare_those(crew)
        ready = [lane for lane in crew if lane.racing]
        for lane in ready:
            fill(lane, race.protocol)
        if not rounds:
            start = max((lane.first_seconds or 0.0) + lane.warmup_seconds for lane in crew)
            cost = max((lane.cost for lane in ready), default=1.0)
            rounds = min(max(race.protocol.least_rounds, int(_SHARE * start / cost)), race.protocol.fresh_rounds)
        for number in range(rounds):
            race.round(Phase.CONFIRM, turn * rounds + number, [lane for lane in ready if lane.racing])
    finally:
        with race.interrupts.shield():
            race.undo(crew)
    return rounds
