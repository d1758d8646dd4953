"""The programs of `corpus/` and their truths, and how benches find them."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "corpus"
SUBJECTS = {"input", "python", "model", "compile", "sync", "memory", "healthy"}
FRAMEWORKS = {"keras", "tf", "jax"}
PLANT = {"kind", "lines", "share_percent", "fix"}
FIELDS = {"cause", "healthy", "second_cause", "tune", "changes", "shifts", *PLANT}
TUNE = {"args", "budget", "files", "short", "patch", "of", "why"}


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, ModuleType]]:
    """Modules of the bench, which import each other by their plain names."""
    known = list(sys.path)
    sys.path.insert(0, str(ROOT / "bench"))
    names = ("truths", "plants")
    yield {name: importlib.import_module(name) for name in names}
    sys.path[:] = known
    for name in names:
        sys.modules.pop(name, None)


def test_every_program_has_a_truth_and_every_truth_a_program(scripts: dict[str, ModuleType]) -> None:
    found = scripts["truths"].programs()
    assert {program.script for program in found} == set(CORPUS.rglob("*.py"))
    assert len(found) == len(set(CORPUS.rglob("*.json")))
    assert len({program.stem for program in found}) == len(found)  # benches name programs by it


def test_names_say_subject_and_framework_and_the_whole_is_small(scripts: dict[str, ModuleType]) -> None:
    found = scripts["truths"].programs()
    assert {program.script.parent.name for program in found} == SUBJECTS
    assert {program.stem.partition("_")[0] for program in found} == FRAMEWORKS
    lines = sum(len(file.read_bytes().splitlines()) for file in CORPUS.rglob("*") if file.suffix in (".py", ".json", ".md"))
    assert len(found) <= 120 and lines <= 7000


def test_truths_have_the_fields_that_benches_read(scripts: dict[str, ModuleType]) -> None:
    for program in scripts["truths"].programs():
        truth, lines = program.truth, len(program.script.read_bytes().splitlines())
        assert set(truth) <= FIELDS and truth["cause"], program.name
        assert set(truth.get("tune", {})) <= TUNE and ("patch" in truth.get("tune", {})) == ("of" in truth.get("tune", {}))
        if "kind" in truth:
            assert set(truth) >= PLANT and scripts["plants"].kind_of(truth), program.name
            assert all(0 < line <= lines for line in truth["lines"]), program.name
        assert sum(key in truth for key in ("kind", "healthy", "tune", "changes")) == 1, program.name


def test_every_stored_answer_is_of_a_program(scripts: dict[str, ModuleType]) -> None:
    known = {program.stem for program in scripts["truths"].programs(CORPUS, "tune")}
    assert {file.stem for file in (ROOT / "bench" / "net" / "answers").glob("*.json")} == known


def test_programs_of_another_folder_and_of_a_list(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text("print()\n")
    (tmp_path / "one.json").write_text(json.dumps({"cause": "none", "healthy": True}))
    (tmp_path / "truth.json").write_text(json.dumps([{"file": "two.py", "kind": "tiny batch"}]))
    (tmp_path / "other.json").write_text("[]")  # of no program
    select = scripts["truths"].select
    assert [program.name for program in select([], tmp_path)] == ["one", "two"]
    assert [program.name for program in select(["two"], tmp_path, "kind")] == ["two"]
    with pytest.raises(SystemExit, match="no such program: one"):
        select(["one"], tmp_path, "kind")
