"""The table of results in bench/README.md."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def results() -> Iterator[ModuleType]:
    """The module, which is a script's and no package's."""
    spec = importlib.util.spec_from_file_location("bench_results", ROOT / "bench" / "results.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_table_is_that_of_the_kept_figures(results: ModuleType) -> None:
    text = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")
    assert results.with_table(text) == text, "run: python bench/results.py"


def test_a_run_keeps_its_figures_and_replaces_older_ones(results: ModuleType, tmp_path: Path) -> None:
    asked = argparse.Namespace(record=True)
    results.record(asked, "large", [results.Figure("report", "2.0", "1.9 to 2.1", "x", "XProf 2.24.2")], tmp_path)
    results.record(asked, "large", [results.Figure("report", "9", unit="MB"), results.Figure("trace", "3")], tmp_path)
    results.record(asked, "large", [results.Figure("report", "8", unit="MB")], tmp_path)
    results.record(argparse.Namespace(record=False), "large", [results.Figure("report", "7")], tmp_path)
    rows = json.loads((tmp_path / "large.json").read_text())
    assert [(row["name"], row["figure"], row["other"]) for row in rows] == [
        ("report", "2.0", "XProf 2.24.2"),
        ("report", "8", ""),
        ("trace", "3", ""),
    ]
    assert all(row["command"] and row["date"] and row["machine"] for row in rows)
    assert "| report | 2.0 x | 1.9 to 2.1 | XProf 2.24.2 |" in results.table(tmp_path)
