"""XProf itself, run on copies of the marked profiles: its step rows are ours. Needs
OUTPACE_XPROF_PYTHON, an interpreter with xprof 2.24.2.

The golden tests compare with answers that were stored once; this one asks again, so that stored
answers cannot hide a mistake of ours.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outpace.metrics.facts.step_breakdown import step_breakdown
from tests.golden.test_step_breakdown_reference import generic
from tests.support import MARKED, opened, profile_bytes, profile_path

XPROF = os.environ.get("OUTPACE_XPROF_PYTHON", "")
pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(not XPROF, reason="OUTPACE_XPROF_PYTHON names no interpreter that has xprof"),
]
SEVERAL_HOSTS = ("multi_host", "multi_worker_strategy")
ASK = """
import glob, sys
from xprof.convert import raw_to_tool_data
files = sorted(glob.glob(sys.argv[1] + "/*.xplane.pb"))
data, _ = raw_to_tool_data.xspace_to_tool_data(files, "pod_viewer", {"use_saved_result": False})
open(sys.argv[2], "wb").write(data if isinstance(data, bytes) else data.encode())
"""


def live_rows(name: str, folder: Path) -> list[dict[str, Any]]:
    """What XProf says now: one row per step and core."""
    run = folder / "logs" / "plugins" / "profile" / "run"
    run.mkdir(parents=True)
    for file in profile_path(name).glob("*.xplane.pb.gz"):
        host = file.name.removesuffix(".xplane.pb.gz")
        (run / f"{host}.xplane.pb").write_bytes(profile_bytes(name, host))
    return ask(run, folder)


def ask(run: Path, folder: Path) -> list[dict[str, Any]]:
    """XProf's step rows for a run folder, which it may write caches into."""
    answer = folder / "answer.json"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"TMPDIR": str(folder)}
    command = [shutil.which(XPROF) or XPROF, "-c", ASK, str(run), str(answer)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    steps = json.loads(answer.read_text(encoding="utf-8")).get("podStatsSequence", {}).get("podStatsMap", [])
    return [row for step in steps for row in step["podStatsPerCore"].values()]


@pytest.mark.parametrize("name", MARKED)
def test_steps_and_categories_equal_xprof(name: str, tmp_path: Path) -> None:
    theirs = live_rows(name, tmp_path)
    mine = list(step_breakdown(opened(name).run).steps.records())
    durations = [row["totalDurationUs"] * 1e6 for row in theirs]
    if name in SEVERAL_HOSTS:  # it names all hosts of a remote capture alike: rows can only be matched by duration
        mine = [min(mine, key=lambda row: abs(row["duration_ps"] - wanted)) for wanted in durations]
    assert [row["duration_ps"] for row in mine] == pytest.approx(durations, rel=1e-3)
    allowed = 0.01 * np.mean(durations)
    for key, categories in generic(name).items():
        ours = np.mean([sum(row[f"{c.value}_ps"] for c in categories) for row in mine])
        other = np.mean([sum(row["stepBreakdownUs"].get(k, 0.0) for k in key.split("+")) * 1e6 for row in theirs])
        assert abs(ours - other) <= allowed, f"{categories}: {ours} against {other}"
