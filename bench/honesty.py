"""How honest races are on this machine: python bench/honesty.py [--processes] [--races 40] [--power
6] [--more 5 10 30] [--budget 10].

Real races of a NumPy step of about 2 ms in one process. Equals first: how many races suspect a
difference (the search), and how many call one (after confirmation on fresh rounds). Then variants
that do 5, 10 and 30 % more of the same work, as the baseline, so that the other is faster by
exactly that: how often it is found, and how often the published interval holds the truth. Unequal
counts of equal parts of work differ by what they say only as far as the parts cost the same; the
parts here run on one small matrix that stays in the cache. `--processes`: each variant, and the
baseline's second self, is prepared independently, in a process of its own. Run it with
OPENBLAS_NUM_THREADS=1 and PYTHONPATH=src, on a machine that does nothing else. Targets of 40 races
of equals: at most 5 and 2.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from results import Figure, add_record, record

from outpace.tune.race import RaceResult, race, race_scripts
from outpace.tune.trial import Decision, Experiment

PARTS = 100  # of a step; a part more is 1 % more work
CALLED = (Decision.FASTER, Decision.SLOWER)


def step_of(parts: int) -> Callable[[], object]:
    """A step of so many equal parts, each a small matrix product."""
    left = np.random.default_rng(0).random((48, 48), np.float32)
    out = np.empty_like(left)

    def step() -> object:
        for _ in range(parts):
            np.matmul(left, left, out=out)
        return out

    return step


def calibrated() -> int:
    """Parts of a step of about 2 ms, a multiple of 100."""
    step = step_of(PARTS)
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < 0.5:
        step()
        count += 1
    return PARTS * max(1, round(0.002 / (0.5 / count)))


def outpace_race() -> Callable[[], object]:
    """The step of a process: `honesty.py PARTS`."""
    return step_of(int(sys.argv[1]))


def raced(more: float, parts: int, budget: float, seed: int, processes: bool) -> Experiment:
    """One race; the baseline does `more` (a fraction) more work."""
    counts = {"baseline": round(parts * (1 + more)), "other": parts}
    result: RaceResult
    if processes:
        scripts = {name: f"{__file__} {count}" for name, count in counts.items()}
        result = race_scripts(scripts, budget=budget, seed=seed, progress=False)
    else:
        result = race({name: step_of(count) for name, count in counts.items()}, budget=budget, seed=seed, progress=False)
    return result.experiment


def report(name: str, truth: float, experiments: list[Experiment]) -> dict[str, object]:
    """Print one row, and return it."""
    verdicts = [experiment.verdicts[0] for experiment in experiments]
    estimates = [verdict.estimate for verdict in verdicts if verdict.estimate is not None]
    seconds = sorted(experiment.seconds for experiment in experiments)
    spreads = sorted(estimate.spread for estimate in estimates)
    widths = sorted(estimate.high / estimate.low - 1 for estimate in estimates)
    middle = len(estimates) // 2
    row: dict[str, object] = {
        "races": name,
        "truth": truth,
        "number": len(experiments),
        "suspected": sum(bool(experiment.plan) for experiment in experiments),
        "called": sum(verdict.decision in CALLED for verdict in verdicts),
        "decisions": dict(Counter(verdict.decision.value for verdict in verdicts)),
        "covered": sum(estimate.contains(truth) for estimate in estimates),
        "median width": round(widths[middle], 3) if estimates else None,
        "median spread of a round": round(spreads[middle], 3) if estimates else None,
        "median seconds": round(seconds[len(seconds) // 2], 1),
        "load": experiments[-1].environment.load,
    }
    print(json.dumps(row), flush=True)
    return row


def main() -> int:
    """Run all races and print one JSON object per kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--races", type=int, default=40, help="races of equals")
    parser.add_argument("--power", type=int, default=6, help="races of each known difference")
    parser.add_argument("--more", type=float, nargs="*", default=[5, 10, 30], help="the known differences, in percent")
    parser.add_argument("--processes", action="store_true", help="prepare each variant in a process of its own")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of each race")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    add_record(parser)
    options = parser.parse_args()
    parts = calibrated()
    rows = []
    for percent, races in ((0.0, options.races), *((percent, options.power) for percent in options.more)):
        more = percent / 100
        truth = round(parts * (1 + more)) / parts
        raced_now = [raced(more, parts, options.budget, seed, options.processes) for seed in range(races)]
        if raced_now:
            rows.append(report(f"{percent:g} % more" if percent else "equals", truth, raced_now))
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    for row in rows:
        called = f"{row['called']} of {row['number']}"
        record(options, "honesty", [Figure(f"races of {row['races']}: called a difference", called)])
    if options.races:
        print(f"equals: {rows[0]['suspected']} of {options.races} suspected, {rows[0]['called']} called a difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
