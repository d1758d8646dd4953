"""Outpace on a profile of any size, beside others' overviews, in turns: python bench/large.py
PROFILE [options].

Every round runs each side once, in a fresh process, in an order drawn anew; a first round is thrown
away. Outpace's side is `report` of all tools, and with --window also `trace --window` into a file;
the others' is the overview alone. Ratios are other / Outpace per round; the table gives their
median with a 95 % bootstrap interval, and the median peak resident size. Each run has the profile
in a folder of its own, by a hard link where the system allows that: what is left beside it, nobody
finds again. Long captures to try it on are made by putting a profile's lines behind each other with
new ids.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from compare import XPROF, interval, timed
from results import Figure, add_record, record

Runs = dict[str, list[tuple[float, float]]]


def once(side: str, options: argparse.Namespace) -> tuple[float, float]:
    """Wall seconds and peak MB of one side's process."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        session, scratch = Path(folder, "logs", "plugins", "profile", "run"), Path(folder, "tmp")
        session.mkdir(parents=True)
        scratch.mkdir()
        copy = session / "host.xplane.pb"
        try:
            os.link(options.profile, copy)
        except OSError:
            shutil.copy(options.profile, copy)
        outpace = [options.outpace_python, "-m", "outpace"]
        command = {
            "report": [*outpace, "report", str(copy), f"--memory={options.memory}"],
            "trace": [*outpace, "trace", str(copy), f"--window={options.window}", f"--out={scratch / 'part.pftrace'}"],
            "xprof-rs": [str(options.xprof_rs), "get_overview", str(session)],
            "xprof": [str(options.xprof_python), "-c", XPROF, str(copy)],
        }[side]
        return timed(command, {"TMPDIR": str(scratch)})


def measure(options: argparse.Namespace) -> Runs:
    """Every side's runs."""
    given = {"report": True, "trace": options.window, "xprof-rs": options.xprof_rs, "xprof": options.xprof_python}
    runs: Runs = {side: [] for side, wanted in given.items() if wanted}
    random = np.random.default_rng(0)
    for number in range(options.rounds + 1):
        for side in random.permutation(list(runs)).tolist():
            result = once(side, options)
            if number:
                runs[side].append(result)
    return runs


def table(runs: Runs) -> str:
    """The result as Markdown."""
    lines = ["| side | time | peak memory | its time / that of `report` [95 %] |", "|---|---|---|---|"]
    for side, results in runs.items():
        wall, peak = (statistics.median(column) for column in zip(*results, strict=True))
        ratio, low, high = interval([theirs / ours for (theirs, _), (ours, _) in zip(results, runs["report"], strict=True)])
        lines.append(f"| {side} | {wall:.2f} s | {peak:,.0f} MB | {ratio:.2f}x [{low:.2f}, {high:.2f}] |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--window", help="also write this part of the time as a trace file")
    parser.add_argument("--memory", default="64GB", help="for the report")
    parser.add_argument("--folder", type=Path, help="where links to the profile are made: on its disk, if it is large")
    parser.add_argument("--outpace-python", default=sys.executable)
    parser.add_argument("--xprof-rs", type=Path)
    parser.add_argument("--xprof-python", type=Path)
    add_record(parser)
    options = parser.parse_args()
    print(f"{options.profile.stat().st_size / 1e6:,.0f} MB; {len(os.sched_getaffinity(0))} cores; {options.rounds} rounds\n")
    runs = measure(options)
    print(table(runs))
    middle = {side: [statistics.median(column) for column in zip(*results, strict=True)] for side, results in runs.items()}
    size = f"{options.profile.stat().st_size / 1e6:,.0f} MB"
    record(
        options, "large", [Figure(f"{side}, {size}", f"{wall:.2f} s, {peak:,.0f} MB") for side, (wall, peak) in middle.items()]
    )


if __name__ == "__main__":
    main()
