"""Does a mended program save what was promised? python bench/advice/race.py SET MENDED --rows FILE [--rounds 3] [--json FILE]

MENDED holds programs of SET that somebody changed from the text of the report's first finding alone. Both run as whole processes, interleaved,
in random order; the time of a step is the mean by the program's own clock (what comes round every few steps is in it). FILE is what
`run.py --json` wrote: the promises. A bound holds when no more was saved, and counts when at least a third of it was; a prediction holds when
it contains what was saved. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

MARK = "OWN_CLOCK "
SECONDS = 240
THIRD = 1 / 3
NOISE = 0.05  # of the step: what two runs of one program differ by


@dataclass(frozen=True)
class Result:
    """What a mend saved of the mean step: the median of the rounds, and their range; and what the finding promised."""

    program: str
    rule: str
    low: float
    saved: float
    high: float
    promised_low: float
    promised_high: float

    @property
    def holds(self) -> bool:
        """Whether what was saved lies inside the promise, but for noise."""
        return self.promised_low - NOISE <= self.saved <= self.promised_high + NOISE

    @property
    def counts(self) -> bool:
        """Whether the promise was worth making: a third of a bound was saved."""
        return self.holds and (self.promised_low > 0 or self.saved >= THIRD * self.promised_high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", type=Path)
    parser.add_argument("mended", type=Path)
    parser.add_argument("--rows", type=Path, required=True, help="what run.py --json wrote")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    promises = {row["program"]: row for row in json.loads(options.rows.read_text()) if row["set"] == options.set.name}
    results = []
    for mended in sorted(options.mended.glob("*.py")):
        row = promises[mended.name]
        shares = race(options.set / mended.name, mended, options.rounds)
        promise = (row.get("promise_low", 0.0), row["promise"])
        results.append(Result(mended.name, row["first"], min(shares), statistics.median(shares), max(shares), *promise))
        print(line(results[-1]), flush=True)
    promised = [r for r in results if r.promised_high > 0]
    held = sum(r.counts for r in promised)
    print(f"{held} of {len(promised)} promises held and counted; {len(results) - len(promised)} findings promised nothing")
    if options.json:
        options.json.write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n")


def race(before: Path, after: Path, rounds: int) -> list[float]:
    """Share of the mean step that each round saved."""
    shares = []
    for _ in range(rounds):
        times = {}
        for program in random.sample([before, after], 2):
            times[program] = step_ms(program)
        shares.append(1 - times[after] / times[before])
    return shares


def step_ms(program: Path) -> float:
    """Mean step by the program's own clock, ms."""
    done = subprocess.run(
        [sys.executable, str(program.resolve())], capture_output=True, text=True, timeout=SECONDS, check=True, cwd=program.parent
    )
    text = next(text for text in reversed(done.stdout.splitlines()) if text.startswith(MARK))
    return float(json.loads(text.removeprefix(MARK))["mean_step_ms"])


def line(result: Result) -> str:
    """One program in a line."""
    saved = f"saved {result.saved:4.0%} [{result.low:.0%}, {result.high:.0%}]"
    promise = (
        f"{result.promised_low:.0%} to {result.promised_high:.0%}"
        if result.promised_low
        else f"at most {result.promised_high:.0%}"
    )
    mark = "holds" if result.counts else "small" if result.holds else "WRONG" if result.promised_high else "     "
    return f"{mark} {result.program:26} {result.rule:22} promised {promise:14} {saved}"


if __name__ == "__main__":
    main()
