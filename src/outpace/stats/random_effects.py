# SPDX-License-Identifier: Apache-2.0
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
from collections.abc import Sequence

from outpace._dataclass import dataclass
from outpace.stats.autocorrelation import inflated_variance
from outpace.stats.intervals import trimmed_size

TYPICAL = 0.02  # half of all texts have processes that differ by less (sd): prior of tau; with it intervals hold up to 2% (bench/coverage.py)
IN_TURNS = 0.05  # the same for processes that did not run at the same time: a machine drifts between them
FALLING = 0.4  # scale of the prior of rho, exponential: blocks are long enough that neighbours are rarely alike
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


def place_variances(mine: Spread, pairs: int, known: Sequence[Spread]) -> list[tuple[float, float]]:
    """Return the variances that an instance's place may have in this race, with their weights: the
    posterior of tau, rho and v on a grid.
    """
    spreads = [mine, *(spread for spread in known if spread.in_turns is mine.in_turns)]
    typical = IN_TURNS if mine.in_turns else TYPICAL
    deviation = math.sqrt(2 / max(pairs * (trimmed_size(mine.rounds) - 1), 1))
    logs, variances = [], []
    for rho in _RHOS:
        explained = [inflated_variance(spread.noise, rho, spread.rounds) for spread in spreads]
        of_rho = -rho / FALLING + math.fsum(
            _rho_likelihood(spread, rho, pairs if spread is mine else spread.freedom) for spread in spreads
        )
        for tau in _TAUS:
            prior = of_rho + math.log(tau / (1 + (tau / typical) ** 2))  # times tau: the grid is one of its logs
            prior += math.fsum(_squares(spread, tau**2 + v) for spread, v in zip(spreads[1:], explained[1:], strict=True))
            for node, weight in _NODES:
                variance = tau**2 + explained[0] * math.exp(node * deviation)
                variances.append(variance)
                logs.append(prior + math.log(weight) + _squares(mine, variance))
    most = max(logs)
    return [(variance, math.exp(log - most)) for variance, log in zip(variances, logs, strict=True)]


def _squares(spread: Spread, variance: float) -> float:
    """Return the log likelihood of a variance, of chi-squared squares."""
    return -spread.freedom / 2 * (math.log(variance) + spread.squares / variance) if variance > 0 else 0.0


def _rho_likelihood(spread: Spread, rho: float, pairs: int) -> float:
    """Return the log likelihood of rho, of the mean autocorrelation of so many independent pairs of
    instances.
    """
    expected = rho - (1 + 4 * rho) / spread.rounds
    variance = (1 - rho**2) / (spread.rounds * pairs)
    return -math.log(variance) / 2 - (spread.alike - expected) ** 2 / (2 * variance)


def mixture_interval(variances: Sequence[tuple[float, float]], share: float, level: float) -> tuple[float, float]:
    """Return half of a mixture of normals' central interval, and a typical standard error: the root
    of the geometric mean of variances.
    """
    bins: dict[int, float] = {}
    for variance, weight in variances:
        bin_number = round(8 * math.log(variance * share + 1e-18))
        bins[bin_number] = bins.get(bin_number, 0.0) + weight
    total = math.fsum(bins.values())
    parts = [(math.exp(bin_number / 16), weight / total) for bin_number, weight in bins.items() if weight > 1e-9 * total]
    low, high = 0.0, 100 * max(error for error, _ in parts)
    for _ in range(40):
        middle = (low + high) / 2
        beyond = math.fsum(weight * math.erfc(middle / error / math.sqrt(2)) for error, weight in parts)
        low, high = (middle, high) if beyond > 1 - level else (low, middle)
    return high, math.exp(math.fsum(weight * math.log(error) for error, weight in parts))
