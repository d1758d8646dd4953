"""How often 95% intervals of ratios hold the truth, and how wide they are, on simulated processes
whose truth is known.

    PYTHONPATH=src:. python bench/coverage.py [--races 2000] [--instances 2 3 4] [--texts 4]

`before` is the interval of rounds of one process against the mean of two of the baseline
(`statistics.compare`), `after` that of all processes (`instances.compare_instances`), with what
`texts` - 2 other texts of the tuning say of processes. Widths are medians in percent of the ratio;
`oracle` is told the standard deviations and the autocorrelation, so that nothing can be narrower
and right.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
from statistics import median

from outpace.stats.instances import compare_instances, spread_of
from outpace.stats.random_effects import Spread
from outpace.stats.ratios import compare_rounds
from tests.unit.tune.simulated import NOISE, exact, processes


def tuning(
    source: random.Random, texts: int, count: int, rounds: int, tau: float, rho: float, hits: float = 0.0
) -> list[list[dict[int, float]]]:
    """Instances of every text of a tuning, which all ran in the same rounds, on a machine that
    drifts.
    """
    drift = list(itertools.accumulate(source.gauss(0, NOISE) for _ in range(rounds)))
    return [processes(source, drift, count, tau, rho, hits) for _ in range(texts)]


def cell(
    races: int, texts: int, count: int, rounds: int, tau: float, rho: float, hits: float = 0.0
) -> tuple[float, float, float, float]:
    """Share of intervals that hold 1, before and after, and the median widths in percent."""
    source = random.Random(f"{texts} {count} {rounds} {tau} {rho} {hits}")
    held, widths = [0, 0], ([], [])  # type: tuple[list[float], list[float]]
    for _ in range(races):
        base, other, *more = tuning(source, texts, count, rounds, tau, rho, hits)
        known: list[Spread] = [each for each in map(spread_of, more) if each is not None]
        reference = {at: math.sqrt(base[0][at] * base[1][at]) for at in base[0]}
        for at, found in enumerate((compare_rounds(reference, other[0]), compare_instances(base, other, known))):
            assert found is not None
            held[at] += found.contains(1.0)
            widths[at].append(200 * found.half)
    return held[0] / races, held[1] / races, median(widths[0]), median(widths[1])


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--races", type=int, default=2000)
    asked.add_argument("--instances", type=int, nargs="+", default=[2, 3, 4])
    asked.add_argument("--rounds", type=int, nargs="+", default=[8, 15, 30])
    asked.add_argument("--texts", type=int, nargs="+", default=[2, 5])
    asked.add_argument("--hits", type=float, default=0.0, help="share of blocks that a neighbour hits")
    options = asked.parse_args()
    print(
        "| texts | instances | rounds | sd of instances | autocorrelation | held before | after | width before | after | oracle |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for texts, count, rounds, tau, rho in itertools.product(
        options.texts, options.instances, options.rounds, (0.0, 0.01, 0.02), (0.0, 0.3, 0.5)
    ):
        before, after, wide, width = cell(options.races, texts, count, rounds, tau, rho, options.hits)
        said = f"{before:.1%} | {after:.1%} | {wide:.1f} | {width:.1f} | {200 * exact(count, rounds, tau, rho):.1f}"
        print(f"| {texts} | {count}+{count} | {rounds} | {tau:.0%} | {rho} | {said} |", flush=True)


if __name__ == "__main__":
    main()
