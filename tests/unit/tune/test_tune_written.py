"""What `outpace tune` prints and writes: where files are is said, and one that cannot be written keeps no other from being written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outpace.model.errors import OutputError
from outpace.model.report import Report
from outpace.tune.patch import FileChange, SourcePatch
from outpace.tune.proof import Proof
from outpace.tune.same import Judgement
from outpace.tune.searched import Searched, Stack
from outpace.tune.texts.place import Place
from outpace.tune.trial import run_experiment
from outpace.tune.written import report, times
from tests.unit.tune.simulated import Machine

REPORT = Report("train.py", "Nothing to change.", (), (), ())
FOUND = Searched(REPORT, REPORT, None, (), Place(), 1, 1.0, "", False, 0.01, ())


def plan(**files: Path) -> dict[str, Any]:
    given = {name: str(path) for name, path in files.items()}
    return {"json": False, "width": None, "color": False, "html": None, "out": None, "patch": None, **given}


def proven(folder: Path) -> tuple[Searched, Proof]:
    (folder / "train.py").write_text("a = 1\n", encoding="utf-8")
    patch = SourcePatch((FileChange(str(folder / "train.py"), "a = 1\n", "a = 2\n"),), ("cache",), ())
    stack = Stack(("cache",), ("cache",), patch)
    machine = Machine(3, noise=0.0, drift=0.0, bursts=False)
    arms = [machine.arm("as it is"), machine.arm("cache", 2.0)]
    experiment = run_experiment(arms, budget=20, clock=machine.clock)
    gain = experiment.verdict("cache").estimate
    judged = Judgement(True, "the same program", 12, 64)
    return replace(FOUND, stack=stack), Proof(stack, judged, experiment, gain)


def test_a_report_that_cannot_be_written_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    code = report(plan(html=tmp_path / "file" / "tune.html", out=tmp_path / "races"), FOUND, None)
    said = capfd.readouterr().err
    assert code == OutputError.exit_code and "The report cannot be written to" in said
    assert f"the samples of 0 races are in {tmp_path / 'races'}" in said


def test_a_report_is_written_with_its_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert report(plan(html=tmp_path / "new" / "tune.html"), FOUND, None) == 0
    assert f"the HTML report is {tmp_path}/new/tune.html" in capfd.readouterr().err
    assert "Nothing to change." in (tmp_path / "new" / "tune.html").read_text(encoding="utf-8")


def test_what_is_proven_is_written_as_a_patch_and_over_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    searched, proof = proven(tmp_path)
    files = plan(patch=tmp_path / "fast.patch", out=tmp_path / "races")
    assert report(files, searched, proof) == 0
    assert "the patch is fast.patch (apply it with: patch -p0 < fast.patch)" in capfd.readouterr().err
    written = (tmp_path / "fast.patch").read_text(encoding="utf-8")
    assert "-a = 1" in written and "+a = 2" in written
    assert [path.name for path in (tmp_path / "races").iterdir()] == ["race-0.jsonl"]
    assert report(files, searched, proof) != 0
    assert "exists and is not overwritten" in capfd.readouterr().err
    assert (tmp_path / "fast.patch").read_text(encoding="utf-8") == written


def test_what_is_not_proven_is_no_patch(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    why = "It is another program: at step 1: w is off by 1, of 2."
    searched, _ = proven(tmp_path)
    refused = Proof(None, Judgement(False, why), why=why)
    assert report(plan(patch=tmp_path / "fast.patch"), searched, refused) == 0
    assert f"no patch is written: {why}" in capfd.readouterr().err
    assert report(plan(patch=tmp_path / "fast.patch"), FOUND, None) == 0
    assert "there is nothing to write as a patch" in capfd.readouterr().err
    assert not (tmp_path / "fast.patch").exists()


def test_json_is_all_that_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report({**plan(), "json": True}, *proven(tmp_path))
    assert "Speed-up" in json.loads(capfd.readouterr().out)["headline"]


def test_a_search_is_handed_over_whole(tmp_path: Path) -> None:
    searched, _ = proven(tmp_path)
    searched.write(str(tmp_path / "found"))
    assert Searched.read(str(tmp_path / "found")) == searched
    assert Searched.read(str(tmp_path / "nothing")) is None


def test_the_last_line_says_where_the_time_went() -> None:
    assert times(98.0, 42.0, 140.0, 180.4) == (
        "tuning took 140 s of 140 s; the whole command took 180 s (40 s starting the script, comparing texts, and reports)"
    )
    assert times(20.0, 0.0, 20.0, 20.4) == "tuning took 20 s of 20 s; the whole command took 20 s"
