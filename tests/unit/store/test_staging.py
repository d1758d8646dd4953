"""A run appears in the log directory as a whole, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from outpace.model.errors import CaptureError
from outpace.store import staging
from outpace.store.staging import Staging


def put(folder: str, name: str = "host.xplane.pb", content: bytes = b"x") -> None:
    Path(folder, name).write_bytes(content)


def test_a_run_is_moved_into_place(tmp_path: Path) -> None:
    with Staging(str(tmp_path)) as place:
        put(place.run_folder("2026_01_01_00_00_00"))
        assert not (tmp_path / "plugins").exists()
        run = place.publish()
    assert run == str(tmp_path / "plugins/profile/2026_01_01_00_00_00")
    assert os.listdir(run) == ["host.xplane.pb"]
    assert os.listdir(tmp_path) == ["plugins"]


def test_the_run_is_named_after_the_time_by_default(tmp_path: Path) -> None:
    with Staging(str(tmp_path)) as place:
        put(place.run_folder())
        assert place.run_folder() == place.run_folder(), "one staging holds one run"
        assert len(os.path.basename(place.publish())) == len("2026_01_01_00_00_00")


def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    runs = []
    for _ in range(3):
        with Staging(str(tmp_path)) as place:
            put(place.run_folder("r"))
            runs.append(os.path.basename(place.publish()))
    assert runs == ["r", "r_1", "r_2"]


def test_what_was_not_published_is_removed(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Staging(str(tmp_path)) as place:
        put(place.run_folder())
        raise RuntimeError
    assert os.listdir(tmp_path) == []


def test_nothing_to_publish_is_an_error(tmp_path: Path) -> None:
    with Staging(str(tmp_path)) as place, pytest.raises(CaptureError, match="wrote no file"):
        place.publish()
    with Staging(str(tmp_path)) as place:
        place.run_folder("r")
        with pytest.raises(CaptureError, match="wrote no file"):
            place.publish()


def test_a_log_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match="file/logs is not writable"):
        Staging(str(tmp_path / "file/logs"))


def test_folders_of_dead_processes_are_swept_and_others_kept(tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    here = staging._suffix()
    names = {
        f".outpace-{dead.pid}-a{here}": False,
        f".outpace-{os.getpid()}-b{here}": True,
        f".outpace-{dead.pid}-c@elsewhere": True,
    }
    for name in names:
        (tmp_path / name).mkdir()
    with Staging(str(tmp_path)):
        assert {name: (tmp_path / name).exists() for name in names} == names


def test_an_owner_that_cannot_be_seen_from_here_is_known_by_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in two containers that share a folder and a host's name."""

    def nobody(pid: int, number: int) -> NoReturn:
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", nobody)
    with Staging(str(tmp_path)) as place, Staging(str(tmp_path)) as other:
        assert os.path.isdir(place.folder) and os.path.isdir(other.folder)
    assert os.listdir(tmp_path) == []


def test_what_a_killed_capture_left_is_swept(tmp_path: Path) -> None:
    dies = "import os, sys; from outpace.store.staging import Staging; place = Staging(sys.argv[1]); place.run_folder(); os._exit(1)"
    subprocess.run([sys.executable, "-c", dies, str(tmp_path)], timeout=60, check=False)
    assert len(os.listdir(tmp_path)) == 1
    staging.remove_stale_folders(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_nothing_of_another_user_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could lead the sweep to files of ours."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    folder = tmp_path / f".outpace-{dead.pid}-a{staging._suffix()}"
    folder.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    staging.remove_stale_folders(str(tmp_path))
    assert list(folder.iterdir()) == []


def test_a_url_gets_the_run_by_upload() -> None:
    with Staging("memory://staging/logs") as place:
        put(place.run_folder("r"), content=b"abc")
        url = place.publish()
    import fsspec

    assert url.endswith("staging/logs/plugins/profile/r")
    assert fsspec.filesystem("memory").cat_file("/staging/logs/plugins/profile/r/host.xplane.pb") == b"abc"
    assert not os.path.exists(place.folder)
