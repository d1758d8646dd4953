"""What `outpace compare` costs, held against one report: python bench/two_runs.py BEFORE AFTER
[--rounds N].

Every round runs a report of each profile, and their comparison, each in a fresh process and in an
order drawn anew; a first round is thrown away. Ratios are comparison / mean of the round's two
reports, of wall seconds and of peak resident size; the table gives their median with a 95 %
bootstrap interval.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from compare import interval, timed
from results import Figure, add_record, record

BOUND = 2.2  # times one report, of time and of memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    add_record(parser)
    options = parser.parse_args()
    profiles = [str(options.before.resolve()), str(options.after.resolve())]
    work = {"before": ["report", profiles[0]], "after": ["report", profiles[1]], "compare": ["compare", *profiles]}
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in work}
    random = np.random.default_rng(0)
    for number in range(options.rounds + 1):
        for name in random.permutation(list(work)).tolist():
            with tempfile.TemporaryDirectory() as folder:
                result = timed([sys.executable, "-m", "outpace", *work[name]], {"TMPDIR": folder})
            if number:
                runs[name].append(result)
    print(f"{options.rounds} rounds\n\n| | one report | compare | ratio [95 %] | bound | met |\n|---|---|---|---|---|---|")
    for at, (what, text) in enumerate((("time", "{:.2f} s"), ("peak memory", "{:.0f} MB"))):
        reports = [statistics.mean((one[at], two[at])) for one, two in zip(runs["before"], runs["after"], strict=True)]
        compared = [each[at] for each in runs["compare"]]
        ratio, low, high = interval([ours / report for ours, report in zip(compared, reports, strict=True)])
        both = (text.format(statistics.median(each)) for each in (reports, compared))
        met = "yes" if high <= BOUND else "**no**"
        figure = Figure(f"{what} of a comparison by that of a report", f"{ratio:.2f}", f"{low:.2f} to {high:.2f}")
        record(options, "two_runs", [figure])
        print(f"| {what} | {' | '.join(both)} | {ratio:.2f} [{low:.2f}, {high:.2f}] | {BOUND}x | {met} |")


if __name__ == "__main__":
    main()
