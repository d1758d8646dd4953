"""What a patch looks like as a file, and how two runs are compared."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outpace.tune.patch.verify import compare

from outpace.model.errors import OutputError
from outpace.tune.data.verify import Difference, Risk, Verified
from outpace.tune.patch import FileChange, SourcePatch, write_copies, write_patch


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\n", "a\nc\n"),
        ("a\nb", "a\nb\nc"),
        ("a\nb", "a\nc"),
        ("a\r\nb\r\n", "a\r\nx\r\nb\r\n"),
        ("x = 'ä'\n", "x = 'ö'\n"),
    ],
)
@pytest.mark.parametrize("tool", [["patch", "-p0", "--binary", "-i"], ["git", "apply", "-p0"]], ids=["patch", "git"])
def test_a_diff_gives_the_new_text_to_the_byte(tmp_path: Path, old: str, new: str, tool: list[str]) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{tool[0]} is not installed")
    folder = tmp_path / "sub folder"
    folder.mkdir()
    (folder / "train.py").write_bytes(old.encode())
    patch = SourcePatch((FileChange(str(folder / "train.py"), old, new),), (), ())
    write_patch(patch, tmp_path / "speed.patch", str(tmp_path))
    subprocess.run([*tool, "speed.patch"], cwd=tmp_path, check=True, capture_output=True)
    assert (folder / "train.py").read_bytes() == new.encode()


def test_copies_go_where_the_caller_says_and_overwrite_nothing(tmp_path: Path) -> None:
    user = tmp_path / "user"
    files = (FileChange(str(user / "train.py"), "a", "b"), FileChange(str(user / "lib" / "data.py"), "c", "ä", "latin-1"))
    written = write_copies(SourcePatch(files, (), ()), tmp_path / "new")
    assert [path.relative_to(tmp_path).as_posix() for path in written] == ["new/train.py", "new/lib/data.py"]
    assert written[1].read_bytes() == "ä".encode("latin-1")
    assert not user.exists()
    with pytest.raises(OutputError, match="is not overwritten"):
        write_copies(SourcePatch(files, (), ()), tmp_path / "new")


def observed(epochs: list[Any], other: list[Any] | None = None, spec: str = "spec") -> dict[str, Any]:
    return {"spec": spec, "epochs": epochs, "other": epochs if other is None else other}


def rows(*values: float) -> list[list[np.generic]]:
    return [[np.float32(value), np.int64(7)] for value in values]


def test_numbers_of_steps() -> None:
    """Those of eager gradients are a part of a step: what its function returns besides is not one of them."""
    own, more = [[1.0, 0.5], [0.9, 0.4]], [[0.7, 1.0], [0.6, 0.9]]
    before = {**observed([]), "numbers": own}
    for eager, after, said in (
        (False, [row[:1] for row in own], "first 2 steps return are the same"),
        (True, more, "first 2 steps return are the same"),
        (True, [[3.0], [4.0]], "the function of the step alone"),
    ):
        outcome = compare({**before, "eager": eager}, {**observed([]), "numbers": after}, Risk.REORDERED)
        assert not isinstance(outcome, Difference) and said in outcome.how[0]
    differs = compare({**before, "eager": False}, {**observed([]), "numbers": more}, Risk.REORDERED)
    assert isinstance(differs, Difference) and "number 1 is 0.7 in the first" in differs.what


def test_equal_runs_are_equal_bit_by_bit() -> None:
    outcome = compare(observed([rows(1, 2), rows(1, 2)]), observed([rows(1, 2), rows(1, 2)]), Risk.EXACT)
    assert isinstance(outcome, Verified) and outcome.bitwise


def test_another_order_is_a_difference_where_no_change_may_reorder() -> None:
    before, after = observed([rows(1, 2)]), observed([rows(2, 1)])
    assert isinstance(compare(before, after, Risk.EXACT), Difference)
    outcome = compare(before, after, Risk.REORDERED)
    assert isinstance(outcome, Verified) and not outcome.bitwise


def test_only_what_depends_on_chance_may_differ() -> None:
    strict = compare(observed([rows(1, 2)], [rows(3, 4)]), observed([rows(1, 5)]), Risk.EXACT)
    assert isinstance(strict, Difference) and strict.what == "The elements differ: component 0 of element 1."
    plain, chance = observed([rows(1, 2)]), observed([rows(1, 2)], [rows(3, 4)])
    wrong = compare(plain, observed([rows(1, 5)]), Risk.STATISTICAL)
    assert isinstance(wrong, Difference) and "Components 0 do not depend on random numbers" in wrong.what
    outcome = compare(chance, observed([rows(1, 5)]), Risk.STATISTICAL)
    assert isinstance(outcome, Verified) and not outcome.bitwise and "components 0 draw from other seeds" in outcome.how[0]


@pytest.mark.parametrize("after", [observed([rows(1)]), observed([rows(1, 2)], spec="other")])
def test_structure_and_length_must_stay(after: dict[str, Any]) -> None:
    assert isinstance(compare(observed([rows(1, 2)]), after, Risk.STATISTICAL), Difference)


@pytest.mark.parametrize("outside", [False, True])
def test_the_command_that_is_told_applies_the_diff_from_here(
    outside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("patch") is None:
        pytest.skip("patch is not installed")
    scripts, here = tmp_path / "my scripts", tmp_path / "data"
    for folder in (scripts, here):
        folder.mkdir()
    (scripts / "train.py").write_text("a\n", encoding="utf-8")
    monkeypatch.chdir(here if outside else tmp_path)
    patch = SourcePatch((FileChange(str(scripts / "train.py"), "a\n", "b\n"),), (), ())
    write_patch(patch, Path("speed.patch"))
    assert patch.command == (f"patch -p0 -d '{scripts}'" if outside else "patch -p0")
    subprocess.run(f"{patch.command} < speed.patch", shell=True, check=True, capture_output=True)
    assert (scripts / "train.py").read_text(encoding="utf-8") == "b\n"
