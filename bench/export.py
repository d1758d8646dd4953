"""The trace export against XProf's trace viewer, side by side: python bench/export.py PROFILE
--xprof-python PYTHON.

Every round runs each side once, in a fresh process, on a copy of the profile without caches, in an
order drawn anew. Seconds are wall time of the whole process; "written in" is the export alone,
after the profile was opened and its steps were found.
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
from pathlib import Path
from typing import Any

import numpy as np
from compare import timed
from results import Figure, add_record, record, release

SECONDS, MEGABYTES = 0.6, 45.0  # what the export of a million events may take
XPROF = """
import json, sys
from xprof.convert import raw_to_tool_data
data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "trace_viewer", {"use_saved_result": False})
text = data if isinstance(data, bytes) else data.encode()
open(sys.argv[2], "wb").write(text)
"""
OUTPACE = """
import json, sys, time
from outpace import api
from outpace.trace.export import ExportFormat
from outpace.viewer import Arguments, Selection, write_trace
run = api.open(sys.argv[1]).run
run.prepare()
with open(sys.argv[2], "wb") as file:
    begin = time.perf_counter()
    written = write_trace(run, file.fileno(), ExportFormat[sys.argv[3].upper()], Selection(arguments=Arguments(sys.argv[4])))
    print(json.dumps({"seconds": time.perf_counter() - begin, "events": run.events, "slices": written.slices}))
"""
COUNT = """
import json, sys
print(sum(event.get("ph") in ("X", "i") for event in json.load(open(sys.argv[1], "rb"))["traceEvents"]))
"""
OURS = tuple((form, kind) for form in ("perfetto", "json") for kind in ("all", "useful", "none"))


def one(side: str, profile: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One process of one side: its seconds, the peak of its memory and the size of its file."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(profile, Path(folder, "host.xplane.pb"))
        target = Path(folder, "trace")
        if side == "xprof":
            command = [options.xprof_python, "-c", XPROF, str(copy), str(target)]
        else:
            form, kind = side.split()
            command = [options.outpace_python, "-m", "outpace", "trace", str(copy)]
            command += ["--out", str(target), "--format", form, "--arguments", kind]
        wall, peak = timed(command, {"TMPDIR": folder} | {k: v for k, v in os.environ.items() if k == "PYTHONPATH"})
        return {
            "wall": wall,
            "peak": peak,
            "bytes": target.stat().st_size,
            "events": _events(target) if side == "xprof" else None,
        }


def _events(file: Path) -> int:
    """Complete and instant events of a JSON trace, counted in another process: a large parent would
    show up in the children's peak memory.
    """
    command = [sys.executable, "-c", COUNT, str(file)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def alone(profile: Path, form: str, kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """The export without opening, in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [options.outpace_python, "-c", OUTPACE, str(profile), str(Path(folder, "trace")), form, kind]
        return dict(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row per side: medians over the rounds; the first round is a warm-up and left out."""
    sides = ["xprof", *(" ".join(pair) for pair in OURS)]
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    exports: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    random = np.random.default_rng(0)
    for number in range(options.rounds + 1):
        for side in random.permutation(sides).tolist():
            result = one(side, options.profile, options)
            if number:
                runs[side].append(result)
            if number and side != "xprof":
                form, kind = side.split()
                exports[side].append(alone(options.profile, form, kind, options))
    rows = []
    for side in sides:
        writes = [entry["seconds"] for entry in exports[side]]
        rows.append({
            "side": side,
            **{key: statistics.median(entry[key] for entry in runs[side]) for key in ("wall", "peak", "bytes")},
            "written_in": statistics.median(writes) if writes else None,
            "events": exports[side][0]["events"] if writes else runs[side][0]["events"],
            "runs": [entry["wall"] for entry in runs[side]],
            "writes": writes,
        })  # fmt: skip
    return rows


def table(rows: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """The result as Markdown."""
    machine = f"{len(os.sched_getaffinity(0))} cores; Python {platform.python_version()}"
    lines = [
        f"{options.profile.stat().st_size / 1e6:.1f} MB; {machine}; {options.rounds} rounds\n",
        "| side | events in the file | whole process | written in | file | peak memory | budget |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        size = row["bytes"] / 1e6
        budget = "–"
        if row["side"].startswith("perfetto"):
            share = row["events"] / 1e6
            met = row["written_in"] <= SECONDS * share and size <= MEGABYTES * share
            budget = f"{SECONDS * share:.2f} s, {MEGABYTES * share:.0f} MB: {'yes' if met else '**no**'}"
        written = "–" if row["written_in"] is None else f"{row['written_in']:.2f} s"
        name = "XProf, trace_viewer" if row["side"] == "xprof" else f"Outpace, {row['side']}"
        lines.append(
            f"| {name} | {row['events']:,} | {row['wall']:.2f} s | {written} | {size:.1f} MB | {row['peak']:.0f} MB | {budget} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--outpace-python", default=sys.executable)
    parser.add_argument("--xprof-python", required=True)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every round's numbers to this file")
    add_record(parser)
    options = parser.parse_args()
    rows = measure(options)
    print(table(rows, options))
    for row in rows:
        other = release(options.xprof_python, "xprof") if row["side"] == "xprof" else ""
        record(
            options,
            "export",
            [Figure(f"trace, {row['side']}", f"{row['wall']:.2f} s, {row['bytes'] / 1e6:.1f} MB", other=other)],
        )
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
