"""The table of practices: every row has a status, and every file and test that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from outpace.lint import RULES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "practices.md").read_text(encoding="utf-8")
STATUSES = set(re.findall(r"^\| ([a-z ]+) \| [^|]*\|$", PAGE, re.MULTILINE)) - {"status"}
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and line.count("|") == 7 and not line.startswith(("|---", "| practice |"))
]


def test_the_tables_are_read() -> None:
    assert {"report", "capture", "lint", "tune", "advice", "not done"} == STATUSES
    assert len(ROWS) > 60


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_row_is_whole_and_its_files_exist(row: list[str]) -> None:
    practice, texts, status, does, file, test = row
    assert practice and does
    assert re.fullmatch(r"[ASGOP]( [ASGOP])*", texts)
    assert status in STATUSES
    for cell in (file, test):
        match = re.fullmatch(r"`([\w./-]+)`", cell)
        assert match, cell
        assert (ROOT / match[1]).exists(), f"{match[1]} is missing"


def test_every_text_is_used() -> None:
    assert {text for row in ROWS for text in row[1].split()} == set("ASGOP")


def test_findings_that_are_named_exist() -> None:
    ids = set(re.findall(r"`([a-z]+_[a-z_0-9]+)`", " ".join(row[3] for row in ROWS)))
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "outpace" / "tools").glob("*/*.py"))
    options = {"steps_per_execution", "py_function", "run_eagerly", "jit_compile", "force_gpu_compatible", "channels_first"}
    assert {name for name in ids - options if f'id="{name}"' not in source} == set()


def test_rules_that_are_named_exist_and_all_practices_rules_are_named() -> None:
    text = " ".join(row[3] for row in ROWS).replace("TF201 to TF206", " ".join(f"TF20{n}" for n in range(1, 7)))
    assert set(re.findall(r"\b[A-Z]{2}\d{3}\b", text)) == set(RULES)
