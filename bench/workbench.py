"""From a click on a run to its first chart, against XProf's overview data alone: python
bench/workbench.py PROFILE --xprof-python PYTHON.

Ours is what a reader waits for: Chromium clicks the run in the list of `outpace ui`, and the time
ends when the summary's chart is drawn. The other side is the work behind one request,
`overview_page` of a process that has imported XProf already. Both see a copy that nobody has read
before, in turns. Then: the same run clicked again, and a list of 200 runs at a second start.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from results import Figure, add_record, record, release

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.verify.chromium import Page

XPROF = """
import json, sys, time
from xprof.convert import raw_to_tool_data
for line in sys.stdin:
    begin = time.monotonic()
    raw_to_tool_data.xspace_to_tool_data([line.strip()], "overview_page", {"use_saved_result": False})
    print(json.dumps(time.monotonic() - begin), flush=True)
"""


class Workbench:
    """`outpace ui` over a folder, and a browser on its list."""

    def __init__(self, logs: Path, folder: Path) -> None:
        self.server = subprocess.Popen(
            [sys.executable, "-m", "outpace.cli", "ui", str(logs), "--no-browser"],
            stderr=subprocess.PIPE, text=True, env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
        )  # fmt: skip
        found = re.search(r"http\S+", self.server.stderr.readline())
        self.address = found[0]
        self.page = Page(folder / "browser").__enter__()

    def listed(self, count: int, said: bool) -> float:
        """Seconds until so many runs are listed; with `said`, with their verdicts."""
        begin = time.monotonic()
        self.page.ask("Page.navigate", url=self.address)
        done = (
            "[...document.querySelectorAll('#runs td.said')].every(t => !t.innerText.includes('not looked at'))"
            if said
            else "true"
        )
        self.page.wait(f"document.querySelectorAll('#runs tr:not(.program)').length === {count} && {done}", 600)
        return time.monotonic() - begin

    def click(self, name: str) -> float:
        """Seconds from a click on a run to its first chart."""
        script = f"[...document.querySelectorAll('#runs a')].find(a => a.textContent === {json.dumps(name)})"
        self.page.wait(f"!!({script})", 60)
        begin = time.monotonic()
        self.page.run(f"{script}.click()")
        while not self.page.run("!!document.querySelector('#summary.on svg')?.getBoundingClientRect().width"):
            time.sleep(0.005)
        return time.monotonic() - begin

    def close(self) -> None:
        self.page.__exit__(None, None, None)
        self.server.terminate()
        self.server.wait()


def opened(options: argparse.Namespace, folder: Path) -> dict[str, list[float]]:
    """Both sides in turns, each round on a new copy."""
    logs = folder / "logs" / "plugins" / "profile"
    logs.mkdir(parents=True)
    xprof = subprocess.Popen(
        [options.xprof_python, "-c", XPROF], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    bench = Workbench(folder / "logs", folder)
    found: dict[str, list[float]] = {"outpace": [], "again": [], "xprof": []}
    for number in range(options.rounds + 1):
        run = logs / f"run{number}"
        run.mkdir()
        shutil.copy(options.profile, run / "vm.xplane.pb")
        copy = folder / f"copy{number}" / "vm.xplane.pb"
        copy.parent.mkdir()
        shutil.copy(options.profile, copy)
        for side in ("outpace", "xprof") if number % 2 else ("xprof", "outpace"):
            if side == "outpace":
                bench.page.ask("Page.navigate", url=bench.address)
                taken = bench.click(run.name)
                bench.page.ask("Page.navigate", url=bench.address)
                again = bench.click(run.name)
                if number:
                    found["outpace"].append(taken)
                    found["again"].append(again)
            else:
                xprof.stdin.write(f"{copy}\n")
                xprof.stdin.flush()
                taken = float(json.loads(xprof.stdout.readline()))
                if number:  # the first round of each warms up
                    found["xprof"].append(taken)
        shutil.rmtree(run)
        shutil.rmtree(copy.parent)
        print(f"round {number}: {found}", file=sys.stderr)
    bench.close()
    xprof.stdin.close()
    xprof.wait()
    return found


def many(options: argparse.Namespace, folder: Path) -> tuple[float, float]:
    """200 runs: seconds until all have their verdicts at the first start, and until they are listed
    with them at the second.
    """
    logs = folder / "many" / "plugins" / "profile"
    for number in range(200):
        run = logs / f"run{number:03d}"
        run.mkdir(parents=True)
        shutil.copy(options.small, run / "vm.xplane.pb.gz")
    times = []
    for place in ("first", "second"):
        (folder / place).mkdir()
        bench = Workbench(folder / "many", folder / place if place == "first" else folder / "first")
        times.append(bench.listed(200, True))
        bench.close()
    return times[0], times[1]


def interval(numbers: list[float]) -> tuple[float, float, float]:
    """Median, and its 95 % bootstrap interval."""
    draw = np.random.default_rng(0)
    medians = np.median(draw.choice(numbers, (4000, len(numbers))), axis=1)
    return float(np.median(numbers)), float(np.quantile(medians, 0.025)), float(np.quantile(medians, 0.975))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profile", type=Path, help="a plain .xplane.pb of some 30 MB")
    parser.add_argument("--small", type=Path, required=True, help="a small .xplane.pb.gz, of which 200 runs are made")
    parser.add_argument("--xprof-python", required=True)
    parser.add_argument("--rounds", type=int, default=9)
    add_record(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        found = opened(options, folder)
        ratio = interval([x / o for x, o in zip(found["xprof"], found["outpace"], strict=True)])
        print(f"click to first chart {statistics.median(found['outpace']):.2f} s, again {statistics.median(found['again']):.2f} s; "
              f"XProf's overview data {statistics.median(found['xprof']):.2f} s: {ratio[0]:.2f}x [{ratio[1]:.2f}, {ratio[2]:.2f}]")  # fmt: skip
        first, second = many(options, folder)
        other = f"{release(options.xprof_python, 'xprof')}, data of the overview alone"
        record(options, "workbench", [
            Figure("from a click on a run to its first chart", f"{ratio[0]:.2f}", f"{ratio[1]:.2f} to {ratio[2]:.2f}", "x", other),
            Figure("verdicts of 200 runs, first and second start", f"{first:.1f} s, {second:.2f} s"),
        ])  # fmt: skip
        print(f"200 runs: verdicts of all after {first:.1f} s, at a second start after {second:.2f} s")


if __name__ == "__main__":
    main()
