"""What a patch looks like as a file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from outpace.model.errors import OutputError
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
