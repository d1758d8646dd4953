"""Ratios of rates from several processes (instances) of each text: an interval for the text, not
for the processes that happened to run.

Processes of one text differ: where memory lies, which threads share a core. Rounds of one process
say nothing of that, however many they are (Kalibera and Jones 2013, *Rigorous benchmarking in
reasonable time*). The model, with rates as logs, for instance i of text t in round r:

    y = text_t + round_r + instance_i + noise_ir,   instance ~ N(0, tau^2),
    noise: first-order autocorrelation rho, variance s^2

`round` is what all feel at once, and cancels in differences. The place of an instance, x, is the
mean over the others of the trimmed mean of their log ratio, so that a block that a neighbour has
hit does not decide. It has the variance tau^2 + v, where v = s^2 / R * g(rho, R) is what R rounds
explain; so a ratio of texts with m and n instances has (tau^2 + v) (1/m + 1/n), and the squares of
instances about their text's mean, each text with its own mean, are (tau^2 + v) times chi-squared
with m - 1 degrees of freedom. Those of *all* texts of a tuning speak for one tau and one rho: with
two instances a side alone, Student's quantile were 4.3.

tau, rho and v are not known, and setting tau to 0 where the squares do not exclude that gives
intervals that are too narrow. So they are integrated over: the random-effects model of few studies
(Higgins, Thompson and Spiegelhalter 2009; Friede, Röver, Wandel and Neuenschwander 2017, with two
studies). tau has a half-Cauchy prior (Gelman 2006), rho a falling one on 0 to 0.8 (its likelihood:
rank autocorrelations, corrected for their bias of -(1 + 4 rho) / R, Kendall 1954), v is lognormal
about its estimate. The ratio is then a mixture of normals, and the interval its two quantiles.
Where squares show no more than rounds explain, tau's weight falls to 0 and the interval to that of
the rounds; where many texts speak, it goes to Student's t with their pooled degrees of freedom.

Processes that cannot live at once run in turns, one of each text in each. Then the turn is what
texts have in common: the differences within turns take the place of x, and drift between a turn's
processes is part of their tau (whose prior is wider).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import NormalDist, fmean

from outpace._dataclass import dataclass
from outpace.tune.trial.statistics import LEVEL, Estimate, autocorrelation, log_ratios, trimmed

Rates = Mapping[int, float]  # of one instance, by round

TYPICAL = 0.02  # half of all texts have processes that differ by less (sd): prior of tau; with it intervals hold up to 2% (bench/coverage.py)
IN_TURNS = 0.05  # the same for processes that did not run at the same time: a machine drifts between them
FALLING = 0.4  # scale of the prior of rho, exponential: blocks are long enough that neighbours are rarely alike
POWER = 0.8  # at which a gain "could have been shown"
_RHOS = tuple(0.1 * at for at in range(9))
_TAUS = tuple(0.0005 * 1.3**at for at in range(26))  # to 0.35
_NODES = ((0.0, 2 / 3), (math.sqrt(3), 1 / 6), (-math.sqrt(3), 1 / 6))  # Gauss-Hermite: v's lognormal


@dataclass(frozen=True)
class Spread:
    """How far instances of one text, or the differences of two texts in turns, were apart: what one
    race says of tau and rho.

    squares: variance of their places, with `freedom` degrees. noise: how much of it as many
    independent rounds explain; `rounds` and `alike`, the mean rank autocorrelation of neighbouring
    rounds, say how independent they were. in_turns: they did not live at once.
    """

    squares: float
    freedom: int
    noise: float
    rounds: int
    alike: float
    in_turns: bool = False


def spread_of(instances: Sequence[Rates]) -> Spread | None:
    """What instances of one text that ran at the same time say of how processes differ; None for
    fewer than two, or three rounds.
    """
    series = _common(instances)
    return _spread(_Field(series), [range(len(series))]) if series else None


def compare_instances(
    base: Sequence[Rates], other: Sequence[Rates], known: Sequence[Spread] = (), level: float = LEVEL
) -> Estimate | None:
    """The ratio of two texts' rates, `other` to `base`, each with at least two instances; None with
    fewer, or fewer than three common rounds.

    Instances that share no rounds ran in turns: those of one place in both sequences are a turn.
    known: what *other* texts of the same tuning say of the spread; the same processes must not be
    given twice. Example: `compare_instances([{0: 9.9, 1: 10.1, 2: 10.0}, ...], [{0: 11.2, ...},
    ...], known=[spread_of(third)])`.
    """
    if min(len(base), len(other)) < 2:
        return None
    if _common(base) or _common(other):
        series, count = _common([*base, *other]), len(base)
        if not series:
            return None
        field = _Field(series)
        sides = (range(count), range(count, len(series)))
        mine = _spread(field, sides)
        first, second = (fmean(field.places[at] for at in side) for side in sides)
        middle, share = second - first, sum(1 / len(side) for side in sides)
        pairs = len(series) - 1
    else:
        turns = [_Field([*pair]) for pair in zip(base, other, strict=False) if len(pair[0].keys() & pair[1].keys()) > 2]
        if len(turns) < 2:
            return None
        mine = _spread_in_turns(turns)
        middle, share, pairs = fmean(_gap(turn) for turn in turns), 2 / len(turns), len(turns)
    half, error = _half(_variances(mine, pairs, known), share, level)
    rounds = mine.rounds * (len(turns) if mine.in_turns else 1)
    return Estimate(math.exp(middle), math.exp(middle - half), math.exp(middle + half), rounds, error * math.sqrt(rounds))


def smallest_shown(found: Estimate, power: float = POWER) -> float:
    """The smallest gain, as a fraction, that data like these show to be one with the wanted power:
    where there is one of that size, the interval excludes 1 so often (the minimal detectable effect
    of Bloom 1995: half the interval, and the power's quantile of errors).
    """
    return math.expm1(found.half + NormalDist().inv_cdf(power) * found.spread / math.sqrt(found.rounds))


class _Field:
    """Places of instances that ran in the same rounds, about their mean; what independent rounds
    explain of one's variance; their likeness.
    """

    def __init__(self, instances: Sequence[Rates]) -> None:
        count = len(instances)
        self.places, errors, alike = [0.0] * count, [], []
        for one, two in combinations(range(count), 2):
            logs = log_ratios(instances[one], instances[two])
            middle, error, kept = trimmed(logs)
            self.places[one] -= middle / count
            self.places[two] += middle / count
            errors.append(error**2)
            alike.append(autocorrelation(logs))
        self.noise, self.alike, self.rounds = fmean(errors) / 2, fmean(alike), len(logs)
        self.freedom = kept - 1


def _gap(turn: _Field) -> float:
    return turn.places[1] - turn.places[0]


def _common(instances: Sequence[Rates]) -> list[dict[int, float]]:
    """The instances in the rounds that all have; empty for fewer than two instances, or three
    rounds.
    """
    rounds = set.intersection(*(set(each) for each in instances)) if len(instances) > 1 else set()
    return [{at: each[at] for at in sorted(rounds)} for each in instances] if len(rounds) > 2 else []


def _spread(field: _Field, sides: Sequence[range]) -> Spread:
    """Squares of instances about their own text's mean."""
    means = [fmean(field.places[at] for at in side) for side in sides]
    squares = math.fsum((field.places[at] - mean) ** 2 for side, mean in zip(sides, means, strict=True) for at in side)
    freedom = sum(len(side) - 1 for side in sides)
    return Spread(squares / freedom, freedom, field.noise, field.rounds, field.alike)


def _spread_in_turns(turns: Sequence[_Field]) -> Spread:
    """Squares of the turns' differences about their mean, which have twice the variance
    of a place.
    """
    gaps, freedom = [_gap(turn) for turn in turns], len(turns) - 1
    squares = math.fsum((gap - fmean(gaps)) ** 2 for gap in gaps) / 2 / freedom
    rounds = round(fmean(turn.rounds for turn in turns))
    return Spread(squares, freedom, fmean(turn.noise for turn in turns), rounds, fmean(turn.alike for turn in turns), True)


def inflated(noise: float, rho: float, rounds: int) -> float:
    """The variance of a mean of `rounds` values with first-order autocorrelation, where independent
    ones would have `noise`.

    The mean's is g = 1 + 2 sum (1 - k/R) rho^k times as large (Bartlett 1946), and the values' own
    about it, which `noise` was estimated from, (R - g) / (R - 1) times.
    """
    g = 1 + 2 * math.fsum((1 - k / rounds) * rho**k for k in range(1, rounds))
    return noise * g * (rounds - 1) / (rounds - g)


def _variances(mine: Spread, pairs: int, known: Sequence[Spread]) -> list[tuple[float, float]]:
    """Variances that an instance's place may have in this race, with their weights: posterior of
    tau, rho and v on a grid.
    """
    spreads = [mine, *(each for each in known if each.in_turns is mine.in_turns)]
    typical = IN_TURNS if mine.in_turns else TYPICAL
    deviation = math.sqrt(2 / max(pairs * (_kept(mine.rounds) - 1), 1))
    logs, variances = [], []
    for rho in _RHOS:
        explained = [inflated(each.noise, rho, each.rounds) for each in spreads]
        of_rho = -rho / FALLING + math.fsum(_alike(each, rho, pairs if each is mine else each.freedom) for each in spreads)
        for tau in _TAUS:
            prior = of_rho + math.log(tau / (1 + (tau / typical) ** 2))  # times tau: the grid is one of its logs
            prior += math.fsum(_squares(each, tau**2 + v) for each, v in zip(spreads[1:], explained[1:], strict=True))
            for node, weight in _NODES:
                variance = tau**2 + explained[0] * math.exp(node * deviation)
                variances.append(variance)
                logs.append(prior + math.log(weight) + _squares(mine, variance))
    most = max(logs)
    return [(variance, math.exp(log - most)) for variance, log in zip(variances, logs, strict=True)]


def _kept(rounds: int) -> int:
    return rounds - 2 * int(0.2 * rounds)


def _squares(spread: Spread, variance: float) -> float:
    """Log likelihood of a variance, of chi-squared squares."""
    return -spread.freedom / 2 * (math.log(variance) + spread.squares / variance) if variance > 0 else 0.0


def _alike(spread: Spread, rho: float, pairs: int) -> float:
    """Log likelihood of rho, of the mean autocorrelation of so many independent pairs
    of instances.
    """
    expected = rho - (1 + 4 * rho) / spread.rounds
    variance = (1 - rho**2) / (spread.rounds * pairs)
    return -math.log(variance) / 2 - (spread.alike - expected) ** 2 / (2 * variance)


def _half(variances: Sequence[tuple[float, float]], share: float, level: float) -> tuple[float, float]:
    """Half of a mixture of normals' central interval, and a typical standard error: the root of the
    geometric mean of variances.
    """
    bins: dict[int, float] = {}
    for variance, weight in variances:
        at = round(8 * math.log(variance * share + 1e-18))
        bins[at] = bins.get(at, 0.0) + weight
    total = math.fsum(bins.values())
    parts = [(math.exp(at / 16), weight / total) for at, weight in bins.items() if weight > 1e-9 * total]
    low, high = 0.0, 100 * max(error for error, _ in parts)
    for _ in range(40):
        middle = (low + high) / 2
        beyond = math.fsum(weight * math.erfc(middle / error / math.sqrt(2)) for error, weight in parts)
        low, high = (middle, high) if beyond > 1 - level else (low, middle)
    return high, math.exp(math.fsum(weight * math.log(error) for error, weight in parts))
