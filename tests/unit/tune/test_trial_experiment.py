"""Records of races: written, read back, judged again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outpace.model import NotFoundError, OutputError, UsageError
from outpace.tune.trial import Experiment, judge, read_experiment, write_experiment
from tests.unit.tune.simulated import Machine, simulate


def experiments() -> list[Experiment]:
    def broken(steps: int) -> None:
        raise ValueError("broken")

    from outpace.tune.trial import Arm, Facts, run_experiment

    machine = Machine(5)
    facts = Facts("keras fit, 32 examples", 32.0, {"tensorflow": "2.21.0"})
    arms = [machine.arm("base", facts=lambda: facts), Arm("broken", broken)]
    raced = run_experiment(arms, clock=machine.clock, budget=5, sources={"base": "a.py --fast"})
    return [simulate(1, 1.3, 0.5), simulate(2, 1.0), raced]


@pytest.mark.parametrize("at", range(3))
def test_what_is_read_is_what_was_written_and_is_judged_the_same(at: int, tmp_path: Path) -> None:
    experiment = experiments()[at]
    read = read_experiment(write_experiment(experiment, tmp_path / "new" / "race.jsonl"))
    assert read == experiment
    assert judge(read) == experiment.verdicts


def test_a_record_is_lines_of_json(tmp_path: Path) -> None:
    experiment = simulate(1, 1.3)
    path = write_experiment(experiment, tmp_path / "race.jsonl")
    kinds = [json.loads(line)["kind"] for line in path.read_text(encoding="utf-8").splitlines()]
    assert kinds == ["experiment"] + ["trial"] * 3 + ["sample"] * len(experiment.samples) + ["verdict"]


def test_verdicts_follow_from_the_samples_alone(tmp_path: Path) -> None:
    """Somebody edits the samples: the recorded verdict stands, the judged one does not."""
    path = write_experiment(simulate(1, 1.3), tmp_path / "race.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        if row["kind"] == "sample" and row["arm"] == "v0":
            row["seconds"] *= 2
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    read = read_experiment(path)
    assert read.verdicts[0].decision.value == "faster"
    assert judge(read)[0].decision.value == "slower"


@pytest.mark.parametrize(
    "content", ["", "not JSON", "[]", '{"kind": "experiment"}', '{"kind": "sample"}', '{"kind": "experiment", "version": 99}']
)
def test_other_files_are_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=r"is no record of a race"):
        read_experiment(path)


def test_a_missing_file_and_a_folder_that_takes_none(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_experiment(tmp_path / "none.jsonl")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        write_experiment(simulate(1, 1.3, budget=1.0), tmp_path / "file" / "race.jsonl")


def test_older_records_are_read_as_they_were_judged(tmp_path: Path) -> None:
    """The header named the baseline's second time; what was measured before did not count."""
    experiment = simulate(1, 1.3)
    path = write_experiment(experiment, tmp_path / "race.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    second = experiment.instances("base")[1]
    old = [rows[0] | {"again": second, "blocks": [0.075, 0.15]}]
    for row in rows[1:]:
        if row["kind"] == "sample":
            old.append(row | {"stage": 1})
            if row["phase"] == "search":
                old.insert(4, row | {"stage": 0, "seconds": 9.0})
        else:
            old.append(row | {"treatment": second} if row.get("arm") == second else row)
    path.write_text("\n".join(json.dumps(row) for row in old), encoding="utf-8")
    read = read_experiment(path)
    assert read == experiment
    assert judge(read) == experiment.verdicts


def test_records_of_arms_that_were_asked_for_a_proof_are_read(tmp_path: Path) -> None:
    path = write_experiment(simulate(1, 1.3), tmp_path / "race.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        if row["kind"] == "trial":
            row |= {"asked": True, "proof": None}
        if row["kind"] == "verdict":
            row["decision"] = "no effect proven"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    assert {verdict.decision.value for verdict in read_experiment(path).verdicts} == {"inconclusive"}
