"""While a loop is tuned, what it does to the user's files happens to others."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outpace.tune.loop.written import Files


@pytest.fixture
def off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Files of a folder of the user's, from inside of it; those that would have been changed."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("model", "log", "old"):
        (home / name).write_text("earlier")
    monkeypatch.setenv("OUTPACE_FAMILY", str(tmp_path))
    monkeypatch.chdir(home)
    found: set[str] = set()

    def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        monkeypatch.setattr(owner, name, make(getattr(owner, name)))

    Files(found, threading.get_ident()).guard(replace)
    return found


def real(tmp_path: Path) -> dict[str, str]:
    """What stands in the folder, as another thread sees it."""
    found: dict[str, str] = {}

    def look() -> None:
        for path in sorted((tmp_path / "home").rglob("*")):
            found[path.name] = path.read_text() if path.is_file() else "folder"

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return found


EARLIER = {"log": "earlier", "model": "earlier", "old": "earlier"}


def test_what_is_written_is_read_back_and_the_file_stays(off: set[str], tmp_path: Path) -> None:
    Path("model").write_text("trained")
    with open("log", "r+") as file:
        file.write("later")
    os.close(os.open("touched", os.O_CREAT | os.O_WRONLY))
    assert Path("model").read_text() == "trained" and Path("log").read_text() == "laterer" and os.path.exists("touched")
    assert real(tmp_path) == EARLIER and off == {"model", "log", "touched"}


def test_a_file_that_is_written_beside_and_renamed_over(off: set[str], tmp_path: Path) -> None:
    Path("part").write_text("trained")
    os.replace("part", "model")
    with tempfile.NamedTemporaryFile("w", delete=False, dir=tempfile.gettempdir()) as made:
        made.write("elsewhere")
    shutil.move(made.name, "log")
    shutil.copy("model", "copy")
    assert Path("model").read_text() == "trained" == Path("copy").read_text() and Path("log").read_text() == "elsewhere"
    assert not os.path.exists("part") and real(tmp_path) == EARLIER


def test_what_is_removed_stays(off: set[str], tmp_path: Path) -> None:
    os.remove("old")
    os.rename("model", "model.bak")
    Path("log").unlink()
    os.symlink("old", "latest")
    assert real(tmp_path) == EARLIER and off == {"old", "model.bak", "log", "latest"}
    with pytest.raises(FileNotFoundError):
        os.remove("never")


def test_a_new_folder_goes_with_the_family(off: set[str], tmp_path: Path) -> None:
    os.makedirs("saved/1")
    Path("saved/1/model").write_text("trained")
    shutil.rmtree("saved", ignore_errors=True)
    noted = (tmp_path / "made").read_bytes().decode()
    assert f"{tmp_path}/home/saved\0" in noted and "model" not in real(tmp_path).keys() - EARLIER.keys()


def test_other_threads_and_temporary_files_are_none_of_ours(off: set[str], tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "own").write_text("x")
        assert os.listdir(folder) == ["own"]
    thread = threading.Thread(target=lambda: Path("model").write_text("by another"))
    thread.start()
    thread.join()
    assert real(tmp_path)["model"] == "by another" and not off
