"""Outpace against XProf and xprof-rs on one profile, interleaved in one run: python bench/compare.py PROFILE [options].

Every round runs each side once, in a fresh process, on a copy of the profile without caches. Ratios are other side / Outpace per round; the
table gives their median with a 95 % bootstrap interval. Seconds are wall time of the whole process, memory is peak resident size.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
XPROF = """
import sys
from xprof.convert import raw_to_tool_data
data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "overview_page", {"use_saved_result": False})
sys.exit(0 if data else 1)
"""
DECODE = """
import json, sys, time
sys.path.insert(0, sys.argv[2])
from tests.xspace_proto import XSpace
from outpace.trace import open_trace
times = {"upb": [], "outpace": []}
data = open(sys.argv[1], "rb").read()
for i in range(int(sys.argv[3]) + 1):
    start = time.perf_counter(); space = XSpace.FromString(data); upb = time.perf_counter() - start
    del space
    start = time.perf_counter(); trace = open_trace(sys.argv[1]); ours = time.perf_counter() - start
    events = len(trace)
    del trace
    if i: times["upb"].append(upb); times["outpace"].append(ours)
print(json.dumps({"events": events, **times}))
"""


def timed(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall seconds and peak resident MB of one process."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} failed with exit code {process.returncode}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Median and 95 % bootstrap interval."""
    draws = np.random.default_rng(0).choice(ratios, size=(4000, len(ratios)))
    low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
    return statistics.median(ratios), float(low), float(high)


def report(profile: Path, options: argparse.Namespace) -> dict[str, list[tuple[float, float]]]:
    """All sides' runs, one list entry per round (the first, a warm-up, is left out)."""
    runs: dict[str, list[tuple[float, float]]] = {"outpace": [], "xprof": [], "xprof-rs": []}
    for number in range(options.rounds + 1):
        with tempfile.TemporaryDirectory() as folder:
            session = Path(folder, "logs", "plugins", "profile", "run")
            session.mkdir(parents=True)
            copy = str(shutil.copy(profile, session / "host.xplane.pb"))
            clean = {"TMPDIR": str(Path(folder, "tmp"))}
            Path(clean["TMPDIR"]).mkdir()
            sides = {
                "outpace": [str(Path(options.outpace_python).with_name("outpace")), "report", copy],
                "xprof-rs": [options.xprof_rs, "get_overview", str(session)],
                "xprof": [options.xprof_python, "-c", XPROF, copy],
            }
            for side, command in sides.items():
                result = timed(command, clean)
                if number:
                    runs[side].append(result)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--outpace-python", default=sys.executable)
    parser.add_argument("--decode-python", default=sys.executable, help="an environment with Outpace and protobuf")
    parser.add_argument("--xprof-python", required=True)
    parser.add_argument("--xprof-rs", required=True)
    options = parser.parse_args()
    done = subprocess.run(
        [options.decode_python, "-c", DECODE, options.profile, ROOT, str(options.rounds)],
        capture_output=True,
        text=True,
        check=True,
    )
    decode = json.loads(done.stdout)
    runs = report(options.profile, options)
    size = options.profile.stat().st_size
    print(f"profile: {decode['events']:,} events, {size / 1e6:.1f} MB; {os.cpu_count()} cores; {options.rounds} rounds\n")
    print("| work | other side | other, median | Outpace, median | ratio [95 %] |\n|---|---|---|---|---|")
    ratio, low, high = interval([u / o for u, o in zip(decode["upb"], decode["outpace"], strict=True)])
    upb, ours = (statistics.median(decode[k]) * 1e3 for k in ("upb", "outpace"))
    print(f"| decode, same process | upb parse alone | {upb:.0f} ms | {ours:.0f} ms | {ratio:.1f}x [{low:.1f}, {high:.1f}] |")
    mine = runs["outpace"]
    for side in ("xprof", "xprof-rs"):
        ratio, low, high = interval([o[0] / m[0] for o, m in zip(runs[side], mine, strict=True)])
        cells = [
            f"{statistics.median(r[0] for r in x):.2f} s, {statistics.median(r[1] for r in x):.0f} MB"
            for x in (runs[side], mine)
        ]
        print(
            f"| report, fresh process | {side}, overview alone | {cells[0]} | {cells[1]} | {ratio:.2f}x [{low:.2f}, {high:.2f}] |"
        )


if __name__ == "__main__":
    main()
