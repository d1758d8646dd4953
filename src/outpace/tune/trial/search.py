# SPDX-License-Identifier: Apache-2.0
"""The search: paired rounds until it is settled which arms differ, and which are too slow to go on.
It looks again and again, so that what it finds is a suspicion.
"""

from __future__ import annotations

from outpace.tune.trial.arm import Lane
from outpace.tune.trial.record import Phase
from outpace.tune.trial.state import Race
from outpace.tune.trial.verdict import STRICT, SUSPECT, claimed


def search(race: Race) -> None:
    """Rounds until all is settled or the search's share is used; half of the rest too, when there
    is nothing to confirm by then.
    """
    share = race.protocol.search_share if race.protocol.confirm else 1.0
    settled = _search_until(race, share)
    if not settled and not any(suspected(race, lane) for lane in race.leads()):
        _search_until(race, (1 + share) / 2)


def _search_until(race: Race, share: float) -> bool:
    """Whether all was settled before that share of the budget was used."""
    protocol = race.protocol
    while race.can_race() and _may_go_on(race, share) and race.rounds < protocol.search_rounds:
        race.round(Phase.SEARCH, race.rounds, race.racing())
        race.rounds += 1
        race.watch.round(race.known(), Phase.SEARCH, race.rounds, None, race.left())
        if race.rounds not in protocol.looks:
            continue
        _drop(race, race.rounds)
        if all(_settled(race, lane) for lane in race.others()) or race.enough(race.known()):
            return True
    return not race.can_race()


def _may_go_on(race: Race, share: float) -> bool:
    """Whether time is left; where the race only screens, also until its rounds tell anything, at
    most for as long again.
    """
    left = race.left(share)
    more = 0.0 if race.rounds < race.protocol.few_rounds else race.cost(race.racing())  # of another round
    few = not race.protocol.confirm and race.rounds < race.protocol.least_rounds
    return left > 0 or (few and left > more - race.budget)


def _drop(race: Race, done: int) -> None:
    if done < race.protocol.drop_after:
        return
    for lane in race.others():
        found = race.estimate(lane)
        if found is not None and found.rounds >= done and found.high < race.protocol.drop_below:
            lane.dropped = done
            for each in race.of(lane):
                each.racing = False


def _settled(race: Race, lane: Lane) -> bool:
    """Whether more rounds would hardly change what the search says of an arm."""
    effect, found = race.protocol.effect, race.estimate(lane)
    same = found is not None and 1 / (1 + effect) < found.low and found.high < 1 + effect
    told = claimed(race.estimate(lane, STRICT), race.protocol) is not None
    return told or (same and race.rounds >= race.protocol.least_rounds)


def suspected(race: Race, lane: Lane) -> bool:
    """Whether the search shows an arm to differ, or let it go as too slow."""
    if lane is race.base or lane.failure is not None or not (lane.racing or lane.dropped):
        return False
    return lane.dropped is not None or claimed(race.estimate(lane, SUSPECT), race.protocol) is not None
