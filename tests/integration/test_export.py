"""`outpace export` as a user runs it, and its files as DuckDB and Polars read them."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars
import pytest

from outpace.model import Table, Unit
from tests.support import opened, profile_path

FIT = ("keras_fit", "memory_heavy", "multi_host", "predict_inference", "tpu_v6e_inference")
TEN = ("custom_loop", "derived_v100_bert", "eager_loop", "idle_empty", "jax_rocm_gemm", *FIT)


def outpace(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "outpace.cli", "export", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, encoding="utf-8")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    done = outpace(*map(profile_path, TEN), "--parquet", folder)
    assert done.returncode == 0, done.stderr
    assert f"tables of 10 runs are in {folder}" in done.stderr
    assert done.stdout == ""
    return folder


def tables(name: str) -> Iterator[tuple[str, Table]]:
    profile = opened(name)
    yield from ((f"{page.id}.{table.name}", table) for page in profile.pages() for table in page.tables())


def own_sums(table: Table) -> dict[str, float]:
    """Sums of the additive columns, times in whole picoseconds, as they are written."""
    sums = {}
    for spec in table.fields:
        if spec.additive:
            values = [row[spec.name] for row in table.records() if row[spec.name] is not None]
            sums[spec.name] = math.fsum(map(round, values) if spec.unit is Unit.PS else values)
    return sums


@pytest.mark.parametrize("name", TEN)
def test_duckdb_and_polars_read_what_the_tables_say(files: Path, name: str) -> None:
    for reference, table in tables(name):
        path, sums = files / f"{reference}.parquet", own_sums(table)
        total = ", ".join(f'coalesce(sum("{column}"), 0)::DOUBLE' for column in ("1", *sums)).replace('"1"', "1")
        (counted, *found) = duckdb.sql(f"SELECT {total} FROM '{path}' WHERE run = '{name}'").fetchall()[0]
        assert counted == len(table), reference
        assert found == pytest.approx(list(sums.values()), rel=1e-9), reference
        frame = polars.read_parquet(path).filter(polars.col("run") == name)
        assert frame.columns[:2] == ["run", "host"]
        assert len(frame) == len(table), reference
        assert [frame[column].sum() for column in sums] == pytest.approx(list(sums.values()), rel=1e-9), reference


def test_keys_name_rows_of_all_runs(files: Path) -> None:
    paths = sorted(files.iterdir())
    assert len(paths) > 50
    for path in paths:
        notes = f"SELECT decode(value) AS said FROM parquet_kv_metadata('{path}') WHERE decode(key) = 'outpace'"
        keys = f'SELECT unnest(from_json(said->\'columns\', \'[{{"name": "VARCHAR", "key": "BOOLEAN"}}]\'), recursive := true) FROM ({notes})'
        names = [name for (name,) in duckdb.sql(f"SELECT name FROM ({keys}) WHERE key").fetchall()]
        assert names[0] == "run"
        listed = ", ".join(f'"{name}"' for name in names)
        doubled = duckdb.sql(f"SELECT {listed} FROM '{path}' GROUP BY ALL HAVING count(*) > 1").fetchall()
        assert doubled == [], path.name


def test_it_chooses_tables_and_says_what_is_wrong(tmp_path: Path) -> None:
    done = outpace(profile_path("keras_fit"), "--parquet", tmp_path, "--table", "overview.steps", "--table", "tf_data")
    assert done.returncode == 0, done.stderr
    names = {path.name for path in tmp_path.iterdir()}
    assert {"overview.steps.parquet", "tf_data.stages.parquet"} <= names
    assert all(name.startswith(("overview.steps.", "tf_data.")) for name in names)
    assert outpace(profile_path("keras_fit"), "--parquet", tmp_path, "--table", "overview.none").returncode == 2
    assert outpace(tmp_path / "nothing", "--parquet", tmp_path).returncode == 4
    refused = outpace(profile_path("keras_fit"), "--parquet", tmp_path / "overview.steps.parquet", "--table", "overview.steps")
    assert refused.returncode == 6
    assert refused.stderr.startswith("outpace: --parquet: ")


def test_the_document_shows_what_its_queries_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells, not frames: these are drawn otherwise by other versions of DuckDB and Polars."""
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^outpace export (tests/\S.*)$", page, re.MULTILINE)
    arguments = [profile_path(Path(word).name) if word.startswith("tests/") else word for word in command.split()]
    monkeypatch.chdir(tmp_path)
    said = outpace(*arguments).stderr.strip()
    assert f"`{said}`" in page
    shown = re.findall(r"```python\n(import.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert len(shown) == 4
    for code, output in shown:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, encoding="utf-8")
        assert done.returncode == 0, done.stderr
        assert set(re.findall(r"[\w.]+", output)) <= set(re.findall(r"[\w.]+", done.stdout))
