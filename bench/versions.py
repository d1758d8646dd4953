"""Outpace of this checkout against Outpace of another one: python bench/versions.py OTHER_CHECKOUT
PROFILE... [options].

Both checkouts need their built core (`make src/outpace/_native/core.so`). Every round runs `report`
and `report --html` of each side on each profile once, in a fresh process and in an order drawn
anew; a first round is thrown away. Ratios are this / other per round, so that more than 1 means
slower or larger; the table gives their median with a 95 % bootstrap interval, of wall seconds and
of peak resident size. With `--gate PERCENT` the exit code is that of `outpace compare`: 10 where a
report takes longer by more than that, its whole interval, 11 where that is not sure, else 0.
"""

from __future__ import annotations

import argparse
import compileall
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from compare import ROOT, interval, timed
from results import Figure, add_record, record

WORK = {"report": [], "report --html": ["--html", "report.html"]}


def one(checkout: Path, profile: Path, options: list[str]) -> tuple[float, float]:
    """Wall seconds and peak MB of one report; files that it writes go to a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        given = [str(Path(folder, option)) if option.endswith(".html") else option for option in options]
        command = [sys.executable, "-m", "outpace", "report", str(profile), *given]
        return timed(command, {"PYTHONPATH": str(checkout / "src"), "TMPDIR": folder})


def commit(checkout: Path) -> str:
    """The commit that is checked out, short."""
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("profile", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--gate", type=float, help="percent of time that a report may take more")
    add_record(parser)
    options = parser.parse_args()
    sides = {"this": ROOT, "other": options.other}
    for checkout in sides.values():  # as an installed package is; without it each process compiles what was edited since
        compileall.compile_dir(checkout / "src" / "outpace", quiet=1)
    jobs = [(profile, work, side) for profile in options.profile for work in WORK for side in sides]
    runs: dict[tuple[Path, str, str], list[tuple[float, float]]] = {job: [] for job in jobs}
    random = np.random.default_rng(0)
    for number in range(options.rounds + 1):
        for at in random.permutation(len(jobs)).tolist():
            profile, work, side = jobs[at]
            result = one(sides[side], profile, WORK[work])
            if number:
                runs[jobs[at]].append(result)
    print(f"this: {commit(ROOT)}, other: {commit(options.other)}; {options.rounds} rounds\n")
    print(
        "| profile | work | other | this | time, this / other [95 %] | memory, this / other [95 %] |\n|---|---|---|---|---|---|"
    )
    code = 0
    for profile in options.profile:
        for work in WORK:
            ours, theirs = runs[profile, work, "this"], runs[profile, work, "other"]
            seconds, memory = (interval([a[at] / b[at] for a, b in zip(ours, theirs, strict=True)]) for at in (0, 1))
            before, after = (statistics.median(run[0] for run in side) for side in (theirs, ours))
            if options.gate is not None and seconds[2] > 1 + options.gate / 100:
                outcome = 10 if seconds[1] > 1 + options.gate / 100 else 11
                code = max(code, outcome, key=(0, 11, 10).index)
            texts = (f"{ratio:.2f} [{low:.2f}, {high:.2f}]" for ratio, low, high in (seconds, memory))
            print(f"| {profile.parent.name} | `{work}` | {before:.2f} s | {after:.2f} s | {' | '.join(texts)} |")
            for what, ratio in (("time", seconds), ("peak memory", memory)):
                (middle, low, high), name = ratio, f"{what} of `{work}`, {profile.parent.name}, this by the other"
                figure = Figure(name, f"{middle:.2f}", f"{low:.2f} to {high:.2f}", other=commit(options.other))
                record(options, "versions", [figure])
    return code


if __name__ == "__main__":
    sys.exit(main())
