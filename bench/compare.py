"""Outpace against XProf and xprof-rs on one profile, interleaved in one run: python
bench/compare.py PROFILE [options].

Every round runs each side once, in a fresh process, on a copy of the profile without caches. Ratios
are other side / Outpace per round; the table gives their median with a 95 % bootstrap interval.
Seconds are wall time of the whole process, memory is peak resident size.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from results import Figure, add_record, record, release

ROOT = Path(__file__).resolve().parents[1]
MEMORY_MB = 250
REPORT = ("overview", "input_pipeline", "op_stats", "tf_data")
MEDIANS = ("other_median", "outpace_median")
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
def upb():
    start = time.perf_counter(); space = XSpace.FromString(data); return time.perf_counter() - start, space
def outpace():
    start = time.perf_counter(); trace = open_trace(sys.argv[1]); return time.perf_counter() - start, trace
sides = [("upb", upb), ("outpace", outpace)]
for i in range(int(sys.argv[3]) + 1):
    for side, run in sides:
        seconds, result = run()
        if side == "outpace": events = len(result)
        del result
        if i: times[side].append(seconds)
    sides.reverse()
print(json.dumps({"events": events, **times}))
"""


def timed(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall seconds and peak resident MB of one process."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} failed with exit code {process.returncode}")
    return wall, usage.ru_maxrss / 1024


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Median and 95 % bootstrap interval."""
    draws = np.random.default_rng(0).choice(ratios, size=(4000, len(ratios)))
    low, high = np.quantile(np.median(draws, axis=1), [0.025, 0.975])
    return statistics.median(ratios), float(low), float(high)


def one_side(side: str, profile: Path, options: argparse.Namespace) -> tuple[float, float]:
    """One process of one side, on its own copy: XProf writes a cache beside the profile, xprof-rs
    one into the temporary folder.
    """
    with tempfile.TemporaryDirectory() as folder:
        session, scratch = Path(folder, "logs", "plugins", "profile", "run"), Path(folder, "tmp")
        session.mkdir(parents=True)
        scratch.mkdir()
        copy = str(shutil.copy(profile, session / "host.xplane.pb"))
        outpace = str(Path(options.outpace_python).with_name("outpace"))
        command = {
            "outpace": [outpace, "report", copy, *(f"--tool={tool}" for tool in REPORT)],
            "outpace, overview alone": [outpace, "report", copy, "--tool=overview"],
            "xprof-rs": [options.xprof_rs, "get_overview", str(session)],
            "xprof": [options.xprof_python, "-c", XPROF, copy],
        }[side]
        return timed(command, {"TMPDIR": str(scratch)})


def report(profile: Path, options: argparse.Namespace) -> dict[str, list[tuple[float, float]]]:
    """All sides' runs, one list entry per round (the first, a warm-up, is left out).

    The order is drawn anew for each round: how fast xprof-rs is depends on what ran just before it
    (see README.md).
    """
    runs: dict[str, list[tuple[float, float]]] = {
        side: [] for side in ("outpace", "outpace, overview alone", "xprof", "xprof-rs")
    }
    random = np.random.default_rng(0)
    for number in range(options.rounds + 1):
        for side in random.permutation(list(runs)).tolist():
            result = one_side(side, profile, options)
            if number:
                runs[side].append(result)
    return runs


def decoding(profile: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of both decoders, alternating in one process."""
    command = [options.decode_python, "-c", DECODE, profile, ROOT, str(options.rounds)]
    return dict(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def verdict(ratio: float, low: float, target: float | None) -> str:
    """Whether a target is met: by the whole interval, by the median only, or not."""
    if target is None:
        return "–"
    return "yes" if low >= target else "at the median" if ratio >= target else "**no**"


def compared(
    work: str, other: str, theirs: list[float], ours: list[float], target: float | None, unit: str = "s"
) -> dict[str, Any]:
    """One row of the result: medians, the ratio per round with its interval, and whether the target
    is met.
    """
    ratio, low, high = interval([o / m for o, m in zip(theirs, ours, strict=True)])
    medians = {"other_median": statistics.median(theirs), "outpace_median": statistics.median(ours)}
    bounds = {"ratio": ratio, "ratio_low": low, "ratio_high": high, "target": target, "met": verdict(ratio, low, target)}
    return {"work": work, "other": other, "unit": unit, **medians, **bounds, "other_runs": theirs, "outpace_runs": ours}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Everything, as the document that --json writes."""
    decode = decoding(options.profile, options)
    runs = report(options.profile, options)
    upb, opened = ([1e3 * t for t in decode[side]] for side in ("upb", "outpace"))
    rows = [compared("decode, same process", "upb parse alone", upb, opened, 5, "ms")]
    seconds = {side: [wall for wall, _ in results] for side, results in runs.items()}
    memory = {side: [peak for _, peak in results] for side, results in runs.items()}
    for ours, side, target in (
        ("outpace", "xprof", 10),
        ("outpace", "xprof-rs", 1.5),
        ("outpace, overview alone", "xprof-rs", None),
    ):
        work = "overview alone, fresh process" if target is None else f"report of {len(REPORT)} tools, fresh process"
        rows.append(compared(work, f"{side}, overview alone", seconds[side], seconds[ours], target))
    return {
        "profile": {"events": decode["events"], "bytes": options.profile.stat().st_size},
        "machine": {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version()},
        "rounds": options.rounds,
        "comparisons": rows,
        "peak_mb": {side: statistics.median(peaks) for side, peaks in memory.items()},
        "peak_mb_runs": memory,
        "peak_mb_target": MEMORY_MB,
        "peak_mb_met": max(memory["outpace"]) <= MEMORY_MB,
    }


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    lines = [
        f"{result['profile']['events']:,} events, {result['profile']['bytes'] / 1e6:.1f} MB; {result['machine']['cores']} cores; "
        f"Python {result['machine']['python']}; {result['rounds']} rounds\n",
        "| work | other side | other, median | Outpace, median | ratio [95 %] | target | met |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["comparisons"]:
        other, ours = (f"{row[key]:{'.0f' if row['unit'] == 'ms' else '.2f'}} {row['unit']}" for key in MEDIANS)
        ratio = f"{row['ratio']:.2f}x [{row['ratio_low']:.2f}, {row['ratio_high']:.2f}]"
        target = "–" if row["target"] is None else f"{row['target']}x"
        lines.append(f"| {row['work']} | {row['other']} | {other} | {ours} | {ratio} | {target} | {row['met']} |")
    peak = result["peak_mb"]
    met = "yes" if result["peak_mb_met"] else "**no**"
    lines += [
        f"| peak memory of the same | {side}, overview alone | {peak[side]:.0f} MB | {peak['outpace']:.0f} MB | "
        f"{peak[side] / peak['outpace']:.2f}x | at most {MEMORY_MB} MB | {met} |"
        for side in ("xprof", "xprof-rs")
    ]
    return "\n".join(lines)


def figures(result: dict[str, Any], options: argparse.Namespace) -> list[Figure]:
    """The result as rows of bench/README.md."""
    size = f"{result['profile']['events']:,} events"
    versions = {name: release(options.xprof_python, name) for name in ("xprof-rs", "xprof")}
    versions["upb"] = release(options.decode_python, "protobuf")
    rows = []
    for row in result["comparisons"]:
        name = row["other"].replace(",", " ").split()[0]
        other = f"{versions[name]} ({row['other']})"
        low, high = row["ratio_low"], row["ratio_high"]
        rows.append(Figure(f"{row['work']}, {size}", f"{row['ratio']:.2f}", f"{low:.2f} to {high:.2f}", "x", other))
    return [*rows, Figure(f"peak memory of a report, {size}", f"{result['peak_mb']['outpace']:.0f}", unit="MB")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--outpace-python", default=sys.executable)
    parser.add_argument("--decode-python", default=sys.executable, help="an environment with Outpace and protobuf")
    parser.add_argument("--xprof-python", required=True)
    parser.add_argument("--xprof-rs", required=True)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every round's numbers to this file")
    add_record(parser)
    options = parser.parse_args()
    result = measure(options)
    print(table(result))
    if options.record:
        record(options, "compare", figures(result, options))
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
