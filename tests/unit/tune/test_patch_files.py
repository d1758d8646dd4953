"""What a patch looks like as a file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from outpace.tune.patch import FileChange, SourcePatch, write_patch
from outpace.tune.texts.load import source_of


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
    patch = SourcePatch((FileChange(str(folder / "train.py"), old, new),), ())
    write_patch(patch, tmp_path / "speed.patch", str(tmp_path))
    subprocess.run([*tool, "speed.patch"], cwd=tmp_path, check=True, capture_output=True)
    assert (folder / "train.py").read_bytes() == new.encode()


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
    patch = SourcePatch((FileChange(str(scripts / "train.py"), "a\n", "b\n"),), ())
    write_patch(patch, Path("speed.patch"))
    assert patch.command == (f"patch -p0 -d '{scripts}'" if outside else "patch -p0")
    subprocess.run(f"{patch.command} < speed.patch", shell=True, check=True, capture_output=True)
    assert (scripts / "train.py").read_text(encoding="utf-8") == "b\n"


def test_of_texts_those_that_change_nothing_are_left_out(tmp_path: Path) -> None:
    """Line ends, and what a file declares of its letters, are as they were."""
    names = "train.py", "data.py", "same.py"
    train, data, same = (str(tmp_path / name) for name in names)
    Path(train).write_bytes(b"a = 1\r\n")
    Path(data).write_bytes("# coding: latin-1\nx = 'ä'\n".encode("latin-1"))
    Path(same).write_text("b = 1\n", encoding="utf-8")
    texts = {train: "a = 2\r\n", same: "b = 1\n", data: "# coding: latin-1\nx = 'ö'\n"}
    sources = {path: source_of(path) for path in texts}
    patch = SourcePatch.of(sources, texts, ("cache",))
    old = {data: "# coding: latin-1\nx = 'ä'\n", train: "a = 1\r\n"}
    assert patch.files == tuple(FileChange(path, old[path], texts[path]) for path in (data, train))
    assert patch.titles == ("cache",)
