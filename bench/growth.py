"""How the cost of an analysis grows: python bench/growth.py [--rounds N] [--only NAME ...], from
the project's root.

What grows, one thing at a time, stands in `tests/growing.py`. Each is doubled four times; a round
measures the five sizes in an order drawn anew. What a doubling costs more is free of what every
report costs; the exponent is the slope of its log2 over the doublings (medians over rounds), with
the 95 % interval of rounds drawn anew. Seconds are CPU time of all threads, in a process with the
settings of a command's.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from results import Figure, add_record, record

from outpace.cli.process import configure_process

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.growing import GROWN

DOUBLINGS = 4
LIMIT = 1.1


def seconds(work: Callable[[], object]) -> float:
    """CPU time of all threads, without garbage collection, which commands do without, too."""
    gc.collect()
    gc.disable()
    began = time.process_time()
    work()
    taken = time.process_time() - began
    gc.enable()
    return taken


def measure(works: list[Callable[[], object]], rounds: int) -> np.ndarray:
    """CPU seconds, rounds x sizes; a first round is thrown away."""
    random = np.random.default_rng(0)
    taken = np.zeros((rounds + 1, len(works)))
    for row in taken:
        for at in random.permutation(len(works)).tolist():
            row[at] = seconds(works[at])
    return taken[1:]


def exponent(taken: np.ndarray) -> float:
    """Slope of log2(cost) over the doublings, where the cost of a size is what it takes more than
    the one before; from medians over rounds.
    """
    more = np.diff(np.median(taken, axis=0))
    return float(np.polyfit(np.arange(len(more)), np.log2(np.maximum(more, 1e-6)), 1)[0])


def interval(taken: np.ndarray, draws: int = 2_000) -> tuple[float, float]:
    """95 % of the exponents of rounds drawn anew."""
    random = np.random.default_rng(1)
    found = [exponent(taken[random.integers(0, len(taken), len(taken))]) for _ in range(draws)]
    return float(np.quantile(found, 0.025)), float(np.quantile(found, 0.975))


def main() -> int:
    """Print a row per thing that grows; 1 where the upper end of an exponent is above the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", nargs="*", default=list(GROWN), choices=list(GROWN))
    parser.add_argument("--part", type=float, default=1.0, help="of the largest size of each, on a machine that has less time")
    add_record(parser)
    options = parser.parse_args()
    configure_process()
    print("| what grows | sizes | CPU s at each | exponent [95 %] |\n|---|---|---|---|")
    worst = 0.0
    for name in options.only:
        make, _, most = GROWN[name]
        sizes = [int(most * options.part) >> at for at in range(DOUBLINGS, -1, -1)]
        with tempfile.TemporaryDirectory() as folder:
            works = []
            for size in sizes:
                place = Path(folder) / str(size)
                place.mkdir()
                works.append(make(place, size))
            taken = measure(works, options.rounds)
        low, high = interval(taken)
        worst = max(worst, high)
        cost = ", ".join(f"{s:.3f}" for s in np.median(taken, axis=0))
        grown = f"exponent of cost: {name}, {sizes[0]:,} to {sizes[-1]:,}"
        record(options, "growth", [Figure(grown, f"{exponent(taken):.2f}", f"{low:.2f} to {high:.2f}")])
        print(
            f"| {name} | {sizes[0]:,} to {sizes[-1]:,} | {cost} | {exponent(taken):.2f} [{low:.2f}, {high:.2f}] |", flush=True
        )
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
