# SPDX-License-Identifier: Apache-2.0
"""Ratios of rates from several processes (instances) of each text: places of instances, how far
they were apart, and the ratio's interval by the model of `random_effects`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean

from outpace.stats.autocorrelation import autocorrelation
from outpace.stats.intervals import LEVEL, trimmed_mean
from outpace.stats.random_effects import Spread, mixture_interval, place_variances
from outpace.stats.ratios import Estimate, log_ratios

Rates = Mapping[int, float]  # of one instance, by round


def spread_of(instances: Sequence[Rates]) -> Spread | None:
    """Return what instances of one text that ran at the same time say of how processes differ; None
    for fewer than two, or three rounds.
    """
    series = _common(instances)
    return _spread(_Field(series), [range(len(series))]) if series else None


def compare_instances(
    base: Sequence[Rates], other: Sequence[Rates], known: Sequence[Spread] = (), level: float = LEVEL
) -> Estimate | None:
    """Return the ratio of two texts' rates, `other` to `base`; None where one of them has no
    instance, or where there are fewer than three common rounds.

    One instance of each says nothing of how processes differ: the interval is that of the prior,
    about 0.83 to 1.2 times the ratio at 95 %, 0.64 to 1.57 at 99 %. Instances that share no rounds
    ran in turns: those of one place in both sequences are a turn.
    known: what *other* texts of the same tuning say of the spread; the same processes must not be
    given twice. Example: `compare_instances([{0: 9.9, 1: 10.1, 2: 10.0}, ...], [{0: 11.2, ...},
    ...], known=[spread_of(third)])`.
    """
    if not (base and other):
        return None
    if len(base) == len(other) == 1 or _common(base) or _common(other):
        series, count = _common([*base, *other]), len(base)
        if not series:
            return None
        field = _Field(series)
        sides = (range(count), range(count, len(series)))
        spread = _spread(field, sides)
        first, second = (fmean(field.places[at] for at in side) for side in sides)
        middle, share = second - first, sum(1 / len(side) for side in sides)
        pairs = len(series) - 1
    else:
        turns = [_Field([*pair]) for pair in zip(base, other, strict=False) if len(pair[0].keys() & pair[1].keys()) > 2]
        if len(turns) < 2:
            return None
        spread = _spread_in_turns(turns)
        middle, share, pairs = fmean(_gap(turn) for turn in turns), 2 / len(turns), len(turns)
    half, error = mixture_interval(place_variances(spread, pairs, known), share, level)
    return Estimate.of_logs(middle, half, spread.rounds * (len(turns) if spread.in_turns else 1), error)


class _Field:
    """Places of instances that ran in the same rounds, about their mean; what independent rounds
    explain of one's variance; their likeness.
    """

    def __init__(self, instances: Sequence[Rates]) -> None:
        count = len(instances)
        self.places, errors, alike = [0.0] * count, [], []
        for one, two in combinations(range(count), 2):
            logs = log_ratios(instances[one], instances[two])
            middle, error, _ = trimmed_mean(logs)
            self.places[one] -= middle / count
            self.places[two] += middle / count
            errors.append(error**2)
            alike.append(autocorrelation(logs))
        self.noise, self.alike, self.rounds = fmean(errors) / 2, fmean(alike), len(logs)


def _gap(turn: _Field) -> float:
    return turn.places[1] - turn.places[0]


def _common(instances: Sequence[Rates]) -> list[dict[int, float]]:
    """Return the instances in the rounds that all have; empty for fewer than two instances, or
    three rounds.
    """
    rounds = set.intersection(*(set(instance) for instance in instances)) if len(instances) > 1 else set()
    return [{number: instance[number] for number in sorted(rounds)} for instance in instances] if len(rounds) > 2 else []


def _spread(field: _Field, sides: Sequence[range]) -> Spread:
    """Squares of instances about their own text's mean."""
    means = [fmean(field.places[at] for at in side) for side in sides]
    squares = math.fsum((field.places[at] - mean) ** 2 for side, mean in zip(sides, means, strict=True) for at in side)
    freedom = sum(len(side) - 1 for side in sides)
    return Spread(squares / max(freedom, 1), freedom, field.noise, field.rounds, field.alike)


def _spread_in_turns(turns: Sequence[_Field]) -> Spread:
    """Squares of the turns' differences about their mean, which have twice the variance
    of a place.
    """
    gaps, freedom = [_gap(turn) for turn in turns], len(turns) - 1
    squares = math.fsum((gap - fmean(gaps)) ** 2 for gap in gaps) / 2 / freedom
    rounds = round(fmean(turn.rounds for turn in turns))
    return Spread(squares, freedom, fmean(turn.noise for turn in turns), rounds, fmean(turn.alike for turn in turns), True)
