"""Axes have round marks of one unit."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import outpace.report

AXIS = Path(outpace.report.__file__).parent / "assets" / "axis.js"
GIB, MS = 2**30, 10**9


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
@pytest.mark.parametrize(
    ("low", "high", "unit", "count", "texts"),
    [
        (0, 45 * 2**20, "bytes", 5, ["0 MiB", "10 MiB", "20 MiB", "30 MiB", "40 MiB"]),
        (0, 15.1 * GIB, "bytes", 5, ["0 GiB", "5 GiB", "10 GiB", "15 GiB"]),
        (20.01 * GIB, 20.05 * GIB, "bytes", 4, ["20.01 GiB", "20.02 GiB", "20.03 GiB", "20.04 GiB", "20.05 GiB"]),
        (1.9e12, 2.5e12, "ps", 3, ["2.0 s", "2.2 s", "2.4 s"]),
        (35 * MS, 290 * MS, "ps", 5, ["50 ms", "100 ms", "150 ms", "200 ms", "250 ms"]),
        (0, 1, "fraction", 2, ["0 %", "50 %", "100 %"]),
        (3, 3, "ps", 5, []),
    ],
)
def test_marks_are_round_and_of_one_unit(low: float, high: float, unit: str, count: int, texts: list[str]) -> None:
    program = f"{AXIS.read_text(encoding='utf-8')}\nconsole.log(JSON.stringify(Axis.ticks({low}, {high}, '{unit}', {count})));"
    out = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True, timeout=60).stdout
    marks = json.loads(out)
    assert [text for _, text in marks] == texts
    assert all(low * 0.999 <= value <= high * 1.001 for value, _ in marks)
