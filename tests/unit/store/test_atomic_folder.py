"""A folder that appears as a whole, whatever ends the process that writes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from outpace.model import OutputError
from outpace.store.atomic_folder import write_folder_atomically


def ours(path: Path) -> bool:
    return path.suffix == ".ours"


def write(place: Path, *names: str) -> None:
    with write_folder_atomically(place, "The tables", ours) as folder:
        for name in names:
            (folder / name).write_text(name)


def test_it_takes_the_place_of_an_earlier_one_with_its_mode(tmp_path: Path) -> None:
    place = tmp_path / "above" / "out"
    write(place, "a.ours", "b.ours")
    place.chmod(0o750)
    write(place, "c.ours")
    assert (os.listdir(place), os.listdir(place.parent)) == (["c.ours"], ["out"])
    assert place.stat().st_mode & 0o777 == 0o750


def test_a_new_one_has_the_mode_of_any_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    (tmp_path / "plain").mkdir()
    write(tmp_path / "out", "a.ours")
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_an_error_of_the_block_is_its_own(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError), write_folder_atomically(tmp_path / "out", "The tables", ours):
        raise ConnectionError("a store of profiles")
    assert os.listdir(tmp_path) == []


def test_what_somebody_else_wrote_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "out"
    write(place, "a.ours")
    (place / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"out: it holds notes\.txt, and would be replaced as a whole\. Give a new folder"):
        write(place, "b.ours")
    (place / "notes.txt").unlink()
    (place / "inner").mkdir()
    with pytest.raises(OutputError, match="it holds inner"):
        write(place, "b.ours")
    (place / "inner").rmdir()
    os.symlink(place / "a.ours", place / "link.ours")
    with pytest.raises(OutputError, match=r"it holds link\.ours"):
        write(place, "b.ours")
    (place / "link.ours").unlink()
    with pytest.raises(OutputError, match="it holds late"), write_folder_atomically(place, "The tables", ours):
        (place / "late").touch()
    (place / "late").unlink()
    monkeypatch.chdir(place)
    with pytest.raises(OutputError, match="which has to stay where it is"):
        write(place, "b.ours")
    with pytest.raises(OutputError, match="it is no folder"):
        write(place / "a.ours", "b.ours")
    assert os.listdir(place) == ["a.ours"] and os.listdir(tmp_path) == ["out"]


def test_a_link_to_a_folder_leads_to_the_new_one(tmp_path: Path) -> None:
    write(tmp_path / "out", "a.ours")
    os.symlink(tmp_path / "out", tmp_path / "link")
    write(tmp_path / "link", "b.ours")
    assert os.listdir(tmp_path / "out") == ["b.ours"] and (tmp_path / "link").is_symlink()


def test_an_interruption_of_the_block_leaves_what_was_there(tmp_path: Path) -> None:
    place = tmp_path / "out"
    write(place, "a.ours")
    with pytest.raises(KeyboardInterrupt), write_folder_atomically(place, "The tables", ours) as folder:
        (folder / "b.ours").touch()
        raise KeyboardInterrupt
    assert (os.listdir(place), os.listdir(tmp_path)) == (["a.ours"], ["out"])


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, OSError])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("number", [1, 2])
def test_whatever_ends_the_swap_leaves_the_old_or_the_new(
    number: int, done: bool, error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "out"
    write(place, "a.ours", "b.ours")
    rename = os.rename
    calls = list[str]()

    def ends(source: str, target: str) -> None:
        calls.append(source)
        if done or len(calls) != number:
            rename(source, target)
        if len(calls) == number:
            raise error

    with pytest.raises((error, OutputError)), write_folder_atomically(place, "The tables", ours) as folder:
        for name in ("c.ours", "d.ours"):
            (folder / name).touch()
        monkeypatch.setattr(os, "rename", ends)
    assert sorted(os.listdir(place)) == (["c.ours", "d.ours"] if number == 2 and done else ["a.ours", "b.ours"])
    assert os.listdir(tmp_path) == ["out"]


def test_what_cannot_come_back_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "out"
    write(place, "a.ours")
    rename = os.rename

    def once(source: str, target: str) -> None:
        if target == str(place):
            raise PermissionError
        rename(source, target)

    with pytest.raises(OutputError), write_folder_atomically(place, "The tables", ours):
        monkeypatch.setattr(os, "rename", once)
    assert [path.name for path in tmp_path.rglob("*.ours")] == ["a.ours"]


KILLED = """
import os, signal, sys
from pathlib import Path
from outpace.store.atomic_folder import write_folder_atomically
with write_folder_atomically(sys.argv[1], "The tables", lambda path: True) as folder:
    (folder / "b.ours").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_leaves_what_was_there_and_the_next_one_sweeps(tmp_path: Path) -> None:
    place = tmp_path / "out"
    write(place, "a.ours")
    for target in (place, tmp_path / "new"):
        assert subprocess.run([sys.executable, "-c", KILLED, str(target)], timeout=60).returncode == -9
    assert os.listdir(place) == ["a.ours"] and not (tmp_path / "new").exists()
    assert len(os.listdir(tmp_path)) == 2, "a hidden folder is left, the first one having been swept by the second"
    write(place, "c.ours")
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("following", ["other", "out"])
def test_a_kill_in_the_swap_is_mended_by_the_next_one(following: str, tmp_path: Path) -> None:
    place = tmp_path / "out"
    write(place, "a.ours")
    killed = (
        KILLED.replace("os.kill(", "rename = os.rename; os.rename = lambda *places: (rename(*places), os.kill(").rstrip()
        + ")\n"
    )
    assert subprocess.run([sys.executable, "-c", killed, str(place)], timeout=60).returncode == -9
    assert not place.exists()
    write(tmp_path / following, "c.ours")
    assert os.listdir(place) == ["a.ours" if following == "other" else "c.ours"]
    assert set(os.listdir(tmp_path)) == {"out", following}
