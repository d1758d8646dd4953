"""What `outpace tune` prints and writes: one file that cannot be written keeps no other back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outpace.model.errors import OutputError
from outpace.tune.climb.candidates import Candidate
from outpace.tune.climb.outcome import Climbed, Tried
from outpace.tune.patch import FileChange
from outpace.tune.proof import Proof
from outpace.tune.risk import Risk
from outpace.tune.same import Judgement
from outpace.tune.searched import Searched, Seen, Stack
from outpace.tune.session import Tuned
from outpace.tune.texts.place import Place
from outpace.tune.trial import Experiment, Facts, run_experiment
from outpace.tune.written import report, times
from tests.unit.tune.simulated import STEP, Machine

CLIMBED = Climbed(None, (), (), 60.0, "nothing else is left to try")
FOUND = Searched(CLIMBED, None, (), Place(), 1)


def plan(**files: Path) -> dict[str, Any]:
    asked = {"script": "train.py", "argv": [], "module": False, "fit": 1, "budget": 140.0, "asked_budget": None, "allow": []}
    shown = {"json": False, "width": None, "details": False, "color": False, "show_secrets": False}
    wanted = {"only_limits": False, "require": "compared", "html": None, "out": None, "patch": None}
    return {**asked, **shown, **wanted, **{name: str(path) for name, path in files.items()}}


def written(plan: dict[str, Any], searched: Searched, proof: Proof | None) -> int:
    return report(Tuned(plan, 0, None, searched, proof))


def race() -> Experiment:
    machine = Machine(3, noise=0.0, drift=0.0, bursts=False)
    return run_experiment([machine.arm("as it is"), machine.arm("cache", 2.0)], budget=20, clock=machine.clock)


def proven(folder: Path) -> tuple[Searched, Proof]:
    file, text = folder / "train.py", "a = 2\n"
    file.write_text("a = 1\n", encoding="utf-8")
    change = Candidate("cache", "cache", "why", Risk.EXACT, (FileChange(str(file), "a = 1\n", text),), ("Add it",))
    stack, experiment = Stack((change,), {str(file): text}), race()
    verdict = experiment.verdict("cache")
    climbed = replace(CLIMBED, tried=(Tried.judged("cache", "cache", verdict, "why"),), races=(race(),))
    judged = Judgement(True, "the same program", 12, 64)
    return replace(FOUND, climbed=climbed, stack=stack, sources={str(file): "a = 1\n"}), Proof(
        stack, judged, experiment, verdict.estimate
    )


def test_a_report_that_cannot_be_written_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    code = written(plan(html=tmp_path / "file" / "tune.html", out=tmp_path / "races"), *proven(tmp_path))
    said = capfd.readouterr().err
    assert code == OutputError.exit_code and "The report cannot be written to" in said
    assert f"the samples of 2 races are in {tmp_path / 'races'}" in said
    assert [path.name for path in sorted((tmp_path / "races").iterdir())] == ["race-0.jsonl", "race-1.jsonl"]


def test_where_nothing_was_raced_no_folder_is_made(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert written(plan(out=tmp_path / "races"), FOUND, None) == 0
    assert "there was no race" in capfd.readouterr().err and not (tmp_path / "races").exists()


def test_a_report_is_written_with_its_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert written(plan(html=tmp_path / "new" / "tune.html"), FOUND, None) == 0
    assert f"the HTML report is {tmp_path}/new/tune.html" in capfd.readouterr().err
    assert "Nothing was found that makes the training faster" in (tmp_path / "new" / "tune.html").read_text(encoding="utf-8")


def test_what_is_proven_is_written_as_a_patch_and_over_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    searched, proof = proven(tmp_path)
    files = plan(patch=tmp_path / "fast.patch")
    assert written(files, searched, proof) == 0
    assert "the patch is fast.patch (apply it with: patch -p0 < fast.patch)" in capfd.readouterr().err
    patch = (tmp_path / "fast.patch").read_text(encoding="utf-8")
    assert "-a = 1" in patch and "+a = 2" in patch
    assert written(files, searched, proof) != 0
    assert "exists and is not overwritten" in capfd.readouterr().err
    assert (tmp_path / "fast.patch").read_text(encoding="utf-8") == patch


@pytest.mark.parametrize("length", [0, 2, 1_000_000])
def test_a_training_too_short_to_gain_as_a_whole_is_said(
    length: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    searched, proof = proven(tmp_path)
    machine = Machine(3, noise=0.0, drift=0.0, bursts=False)
    firsts = (Facts(first_seconds=STEP), Facts(first_seconds=300 * STEP))
    arms = [machine.arm("as it is", facts=lambda: firsts[0]), machine.arm("cache", 2.0, facts=lambda: firsts[1])]
    raced = run_experiment(arms, budget=20, clock=machine.clock)
    proof = replace(proof, race=raced, judgement=replace(proof.judgement, length=length))
    whole = raced.of_run("cache", length) if length else None
    assert written(plan(), searched, proof) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert (
        ("with the first call and what lies between them, take" in said) == (length == 2) == (whole is not None and whole < 1)
    )
    assert (f"x of all {length:,} steps" in said) == (length > 0)


def test_what_is_not_proven_is_no_patch(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    why = "It is another program: at step 1: w is off by 1, of 2."
    searched, _ = proven(tmp_path)
    refused = Proof(None, Judgement(False, why), why=why)
    assert written(plan(patch=tmp_path / "fast.patch"), searched, refused) == 0
    assert f"no patch is written: {why}" in capfd.readouterr().err
    assert written(plan(patch=tmp_path / "fast.patch"), FOUND, None) == 0
    assert "there is nothing to write as a patch" in capfd.readouterr().err
    assert not (tmp_path / "fast.patch").exists()


def test_json_is_all_that_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    written({**plan(), "json": True}, *proven(tmp_path))
    assert "Speed-up" in json.loads(capfd.readouterr().out)["headline"]


def test_what_was_seen_is_handed_over_whole(tmp_path: Path) -> None:
    searched, _ = proven(tmp_path)
    assert searched.stack is not None
    seen = Seen(
        searched.stack.changes, searched.climbed.tried, Place("train.py", "main", (0,)), step_seconds=0.01, own=("Mine",)
    )
    seen.write(str(tmp_path / "found"))
    assert Seen.read(str(tmp_path / "found")) == seen
    assert Seen.read(str(tmp_path / "nothing")) is None


def test_the_last_line_says_where_the_time_went() -> None:
    assert times(118.4, 120.0) == "tuning took 118 s of 120 s"
