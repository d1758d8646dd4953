"""Tables of many runs: which runs a path means, what they are called, and what is left out."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import outpace
from outpace.model import NotFoundError, OutputError, ProfileError, UsageError
from outpace.tables import unique_run_names
from outpace.testing import training_run
from tests.support import DATA, SOME, opened, profile_path

EMPTY = DATA / "broken" / "empty.xplane.pb"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory of two runs, the newer one of two hosts."""
    folder = tmp_path_factory.mktemp("logs")
    old, new = (folder / "plugins" / "profile" / name for name in ("2026_01_01_00_00_00", "2026_01_02_00_00_00"))
    old.mkdir(parents=True)
    new.mkdir()
    training_run(hostname="a", steps=3).write(old)
    for host in ("a", "b"):
        training_run(hostname=host, steps=4).write(new)
    return folder


def columns(folder: Path, table: str, *names: str) -> list[tuple[object, ...]]:
    rows = pq.read_table(folder / f"{table}.parquet").to_pylist()
    return list(dict.fromkeys(tuple(row[name] for name in names) for row in rows))


def test_all_runs_of_a_log_directory_oldest_first(logs: Path, tmp_path: Path) -> None:
    heard: list[tuple[str, int, int]] = []
    made = outpace.export(logs, parquet=tmp_path, progress=lambda *told: heard.append(told))
    old, new = made.runs
    assert (old, new) == ("2026_01_01_00_00_00", "2026_01_02_00_00_00")
    assert heard == [(old, 1, 2), (new, 2, 2)]
    assert sorted(path.name for path in made.files) == sorted(os.listdir(tmp_path))
    assert columns(tmp_path, "overview.steps", "run", "host") == [(old, "a"), (new, "a"), (new, "b")]
    assert columns(tmp_path, "overview.average_step", "run", "host") == [(old, "a"), (new, None)]
    assert not made.remarks
    assert not made.failed


def test_a_run_a_profile_and_the_same_run_again(logs: Path, tmp_path: Path) -> None:
    run = logs / "plugins" / "profile" / "2026_01_02_00_00_00"
    made = outpace.export(run, f"{run}/", parquet=tmp_path, tables=["overview.steps"])
    assert (made.runs, [path.name for path in made.files]) == ((run.name,), ["overview.steps.parquet"])
    (profile,) = (path for path in run.iterdir() if path.name.startswith("b."))
    assert outpace.export(profile, parquet=tmp_path / "one", tables=["overview"]).runs == ("b",)
    assert columns(tmp_path / "one", "overview.average_step", "run", "host") == [("b", "b")]


@pytest.mark.parametrize(
    ("places", "names"),
    [
        (["/logs/plugins/profile/r1"], ["r1"]),
        (["/logs/plugins/profile/r1/"], ["r1"]),
        (["/x/a/plugins/profile/r1", "/x/b/plugins/profile/r1"], ["a/r1", "b/r1"]),
        (["/x/plugins/profile/r1", "/x/b/plugins/profile/r1"], ["r1", "b/r1"]),
        (["/x/r1/vm.xplane.pb", "/x/r1/vm2.xplane.pb.gz"], ["vm", "vm2"]),
        (["/x/r1/vm.xplane.pb", "/x/r1/vm.xplane.pb.gz"], ["/x/r1/vm.xplane.pb", "/x/r1/vm.xplane.pb.gz"]),
        (["gs://bucket/logs/plugins/profile/r1", "/x/r2"], ["gs://bucket/logs/r1", "/x/r2"]),
    ],
)
def test_names_are_the_shortest_that_differ(places: list[str], names: list[str]) -> None:
    assert unique_run_names(places) == names


def test_a_run_that_cannot_be_read_is_left_out(logs: Path, tmp_path: Path) -> None:
    shutil.copy(EMPTY, tmp_path / "broken.xplane.pb")
    made = outpace.export(tmp_path / "broken.xplane.pb", logs, parquet=tmp_path / "out", tables=["overview.steps"])
    assert len(made.runs) == 2
    (remark,) = made.remarks
    assert "broken is left out: " in remark
    with pytest.raises(ProfileError, match="empty"):
        outpace.export(tmp_path / "broken.xplane.pb", parquet=tmp_path / "out")
    with pytest.raises(NotFoundError, match="no file or folder nowhere"):
        outpace.export("nowhere", parquet=tmp_path / "out")


def test_a_run_is_a_row_and_so_is_each_finding(logs: Path, tmp_path: Path) -> None:
    made = outpace.export(logs, profile_path("jax_h100_ok_vae"), parquet=tmp_path / "out", tables=["runs", "findings"])
    assert [path.name for path in made.files] == ["runs.parquet", "findings.parquet"]
    rows = {row["run"].rpartition("/")[2]: row for row in pq.read_table(tmp_path / "out" / "runs.parquet").to_pylist()}
    assert len(rows) == 3
    row, report = rows["jax_h100_ok_vae"], opened("jax_h100_ok_vae").report()
    assert (row["framework"], row["headline"], row["hosts"]) == ("JAX", report.headline, 1)
    assert (row["jax"], row["python"], row["script"]) == ("0.11.2", "3.12.3", "ok_vae.py")
    assert (row["captured"], row["captured_with"], row["device_model"]) == (
        "2026-11-27T18:46:18+00:00",
        "0.2.0",
        "NVIDIA H100 80GB HBM3",
    )
    first = report.findings[0]
    assert (row["finding"], row["finding_says"]) == (first.id, first.sentence)
    assert rows["2026_01_02_00_00_00"]["captured"] == "2026-01-02T00:00:00", "the folder says, where there is no record"
    found = [each for each in pq.read_table(tmp_path / "out" / "findings.parquet").to_pylist() if each["run"] == row["run"]]
    assert [(each["place"], each["rule"], each["says"]) for each in found] == [
        (at, each.id, each.sentence) for at, each in enumerate(report.findings, start=1)
    ]


@pytest.mark.parametrize("name", SOME)
def test_every_profile_is_a_row(name: str, tmp_path: Path) -> None:
    made = outpace.export(profile_path(name), parquet=tmp_path / "out", tables=["runs", "findings"])
    assert not made.failed
    (row,) = pq.read_table(tmp_path / "out" / "runs.parquet").to_pylist()
    assert row["headline"] == opened(name).report().headline


def test_an_earlier_export_is_replaced_as_a_whole(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    outpace.export(logs, parquet=out)
    outpace.export(logs, parquet=out, tables=["overview.steps"])
    assert os.listdir(out) == ["overview.steps.parquet"]
    assert os.listdir(tmp_path) == ["out"], "nothing else is left"


def test_a_full_disk_leaves_what_was_there(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from outpace.model.files import write_atomically
    from outpace.report import parquet

    out = tmp_path / "out"
    outpace.export(logs, parquet=out, tables=["overview.steps", "runs"])
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    written = list[str]()

    @contextlib.contextmanager
    def full(path: Path, what: str) -> Iterator[Any]:
        written.append(path.name)
        with write_atomically(path, what) as file:
            if len(written) == 5:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            yield file

    monkeypatch.setattr(parquet, "write_atomically", full)
    for place in (out, tmp_path / "new"):
        written.clear()
        with pytest.raises(OutputError, match="No space left on device"):
            outpace.export(logs, parquet=place)
        assert len(written) == 5
    assert os.listdir(tmp_path) == ["out"]
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize(
    ("table", "said"),
    [("nothing.steps", "no tool"), ("overview.nothing", "overview.nothing"), ("python_time", "of python_time|python_time")],
)
def test_tables_that_no_run_has(logs: Path, tmp_path: Path, table: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        outpace.export(logs, parquet=tmp_path / "out", tables=[table])
    assert not (tmp_path / "out").exists()
