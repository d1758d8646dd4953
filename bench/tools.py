"""Outpace's tools against XProf's on one profile, tool by tool and all together: python
bench/tools.py PROFILE [options].

Every round runs each side of each tool once, in a fresh process, on a copy of the profile without
caches, in an order drawn anew; then all of Outpace's same tools in one process, as a user runs
them, and all of XProf's in one. With `--hlo` the tools are those of HLO ops, of which Outpace has
one page; it is written out whole, as JSON. Ratios are XProf / Outpace per round; the table gives
their median and range. Seconds are wall time of the whole process, memory is peak resident size.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from compare import timed
from results import Figure, add_record, record, release

XPROF = """
import sys
from xprof.convert import raw_to_tool_data
for tool in sys.argv[2:]:
    data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], tool, {"use_saved_result": False})
    if not data:
        sys.exit(1)
"""
SAME = {
    "overview_page": "overview",
    "input_pipeline_analyzer": "input_pipeline",
    "framework_op_stats": "op_stats",
    "kernel_stats": "kernel_stats",
    "memory_profile": "memory_profile",
    "pod_viewer": "pod",
}
HLO = dict.fromkeys(("hlo_stats", "op_profile", "roofline_model"), "hlo_stats")
MEMORY_MB = 1500
TARGET = 10
Measured = tuple[float, float]


def one(side: str, tools: list[str], profile: Path, options: argparse.Namespace) -> Measured:
    """Wall seconds and peak MB of one process that runs one tool or several on its own copy of the
    profile.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(profile, Path(folder) / "host.xplane.pb")
        if side == "xprof":
            return timed([options.xprof_python, "-c", XPROF, str(copy), *tools], {"TMPDIR": folder})
        outpace = Path(options.outpace_python).with_name("outpace")
        chosen = [*(f"--tool={tool}" for tool in dict.fromkeys(tools)), *["--json"] * options.hlo]
        return timed([str(outpace), "report", str(copy), *chosen], {"TMPDIR": folder})


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All rounds: per XProf tool and side, and all tools of a side together, a list of (seconds,
    MB).
    """
    same = HLO if options.hlo else SAME
    runs: dict[str, dict[str, list[Measured]]] = {tool: {"xprof": [], "outpace": []} for tool in same}
    together: dict[str, list[Measured]] = {"xprof": [], "outpace": []}
    random = np.random.default_rng(0)
    for number in range(options.rounds):
        jobs = [(tool, side) for tool in same for side in together]
        for at in random.permutation(len(jobs)).tolist():
            tool, side = jobs[at]
            runs[tool][side].append(one(side, [tool if side == "xprof" else same[tool]], options.profile, options))
        for side, tools in (("outpace", same.values()), ("xprof", same)):
            together[side].append(one(side, list(tools), options.profile, options))
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    return {
        "bytes": options.profile.stat().st_size,
        "rounds": options.rounds,
        "same": same,
        "tools": runs,
        "together": together,
    }


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    lines = [
        f"{result['bytes'] / 1e6:.0f} MB, {result['rounds']} rounds\n",
        "| tool | XProf, median | Outpace, median | ratio [range] | XProf's memory | Outpace's memory |",
        "|---|---|---|---|---|---|",
    ]
    for tool, sides in result["tools"].items():
        lines.append(_row(f"`{result['same'][tool]}` against `{tool}`", sides["xprof"], sides["outpace"]))
    rounds = range(result["rounds"])
    sums = [
        (sum(s["xprof"][r][0] for s in result["tools"].values()), max(s["xprof"][r][1] for s in result["tools"].values()))
        for r in rounds
    ]
    together = result["together"]["outpace"]
    lines.append(_row("all of them, Outpace's in one process", sums, together))
    lines.append(_row("all of them, each side's in one process", result["together"]["xprof"], together))
    ratio = statistics.median(x / o for (x, _), (o, _) in zip(sums, together, strict=True))
    peak = max(mb for _, mb in together)
    met = "yes" if ratio >= TARGET and peak <= MEMORY_MB else "**no**"
    lines.append(f"\nTarget: at least {TARGET}x together and at most {MEMORY_MB} MB: {met}.")
    return "\n".join(lines)


def _row(name: str, theirs: list[Measured], ours: list[Measured]) -> str:
    ratios = [x / o for (x, _), (o, _) in zip(theirs, ours, strict=True)]
    seconds = (statistics.median(s for s, _ in side) for side in (theirs, ours))
    memory = (max(mb for _, mb in side) for side in (theirs, ours))
    ratio = f"{statistics.median(ratios):.1f}x [{min(ratios):.1f}, {max(ratios):.1f}]"
    first, second = (f"{s:.2f} s" for s in seconds)
    third, fourth = (f"{mb:.0f} MB" for mb in memory)
    return f"| {name} | {first} | {second} | {ratio} | {third} | {fourth} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--outpace-python", default=sys.executable)
    parser.add_argument("--xprof-python", required=True)
    parser.add_argument("--hlo", action="store_true", help="the tools of HLO ops, for a profile of compiled programs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every round's numbers to this file")
    add_record(parser)
    options = parser.parse_args()
    result = measure(options)
    print(table(result))
    size = f"{result['bytes'] / 1e6:.0f} MB"
    other = release(options.xprof_python, "xprof")
    for tool, sides in result["tools"].items():
        ratio = statistics.median(x / o for (x, _), (o, _) in zip(sides["xprof"], sides["outpace"], strict=True))
        record(
            options,
            "tools",
            [Figure(f"`{result['same'][tool]}`, {size}", f"{ratio:.1f}", unit="x", other=f"{other}, `{tool}`")],
        )
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
