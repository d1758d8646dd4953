"""XProf itself, asked about a synthetic GPU in today's dialect: its rows are ours, in every column.
Needs OUTPACE_XPROF_PYTHON.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from outpace.testing import Dialect
from tests.golden.test_kernel_stats_reference import TENSOR_CORES
from tests.unit.tools_kernel_stats.gpu_run import page_of, space_of

XPROF = os.environ.get("OUTPACE_XPROF_PYTHON", "")
pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(not XPROF, reason="OUTPACE_XPROF_PYTHON names no interpreter that has xprof"),
]
ASK = """
import sys
from xprof.convert import raw_to_tool_data
data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "kernel_stats", {"use_saved_result": False})
open(sys.argv[2], "wb").write(data if isinstance(data, bytes) else data.encode())
"""


def live_rows(dialect: Dialect, folder: Path) -> list[dict[str, Any]]:
    """What XProf says now; it may write beside the file, so it gets one of its own."""
    run = folder / "logs" / "plugins" / "profile" / "run"
    run.mkdir(parents=True)
    path, answer = space_of(dialect).write(run), folder / "answer.json"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"TMPDIR": str(folder)}
    command = [shutil.which(XPROF) or XPROF, "-c", ASK, str(path), str(answer)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(answer.read_text(encoding="utf-8"))
    table = said[0] if isinstance(said, list) else said
    names = [column["id"] for column in table["cols"]]
    return [dict(zip(names, (cell["v"] for cell in row["c"]), strict=True)) for row in table["rows"]]


def our_rows(dialect: Dialect, folder: Path) -> list[dict[str, Any]]:
    """Our rows with its names and units."""
    folder.mkdir()
    return [
        {
            "rank": row["rank"],
            "kernel_name": row["kernel"],
            "registers_per_thread": row["registers"],
            "shmem_bytes": row["shared_bytes"],
            "block_dim": row["block"],
            "grid_dim": row["grid"],
            "occupancy_pct": row["occupancy"] * 100 if row["occupancy_source"] == "recorded" else 0,
            "is_op_tensor_core_eligible": row["eligible"],
            "is_kernel_using_tensor_core": row["tensor_cores"],
            "op_name": row["op"],
            "occurrences": row["occurrences"],
            "total_duration_us": row["total_ps"] / 1e6,
            "avg_duration_us": row["mean_ps"] / 1e6,
            "min_duration_us": row["min_ps"] / 1e6,
            "max_duration_us": row["max_ps"] / 1e6,
        }
        for row in page_of(space_of(dialect), folder).table("kernels").records()
    ]


def test_todays_dialect_is_equal_in_every_column(tmp_path: Path) -> None:
    """Occupancy only where it was recorded: what it shows as 0 we compute."""
    theirs, mine = live_rows(Dialect.CUDA, tmp_path), our_rows(Dialect.CUDA, tmp_path / "ours")
    assert len(theirs) == 4
    assert mine == theirs


@pytest.mark.parametrize("dialect", [Dialect.TF_2_4, Dialect.ROCM])
def test_other_dialects_are_equal_in_what_it_reads(dialect: Dialect, tmp_path: Path) -> None:
    """Not shared memory, nor the registers that ROCm lacks; of the first dialect nor the op, on
    which eligibility rests.
    """
    theirs, mine = live_rows(dialect, tmp_path), our_rows(dialect, tmp_path / "ours")
    assert len(theirs) == 4
    left_out = {"shmem_bytes", "registers_per_thread", "occupancy_pct"}
    left_out |= {"op_name", TENSOR_CORES[0]} if dialect is Dialect.TF_2_4 else set()
    assert [{k: v for k, v in row.items() if k not in left_out} for row in mine] == [
        {k: v for k, v in row.items() if k not in left_out} for row in theirs
    ]
