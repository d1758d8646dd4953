"""Finding profiles: a file, a run folder, a log directory; local and remote."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from outpace.model.errors import NotFoundError, OutputError, UsageError
from outpace.store.logdir import (
    find_profiles,
    has_run,
    host_of,
    list_runs,
    local_copy,
    read_capture_record,
    shorten_path,
    upload_run,
)
from outpace.store.tree import open_tree


def put(path: Path, text: str = "x", modified: float | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if modified is not None:
        os.utime(path, (modified, modified))
    return path


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    store = fsspec.filesystem("memory")
    yield store
    store.store.clear()
    store.pseudo_dirs[:] = [""]


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("a.xplane.pb", "a"),
        ("a.b.xplane.pb.gz", "a.b"),
        ("x.pb", "x"),
        ("x.pb.gz", "x"),
        ("x.gz", "x"),
        (".xplane.pb", ".xplane.pb"),
    ],
)
def test_host_is_the_name_without_ending(name: str, host: str) -> None:
    assert host_of("/some/where/" + name) == host


@pytest.mark.parametrize("name", ["h.xplane.pb", "h.xplane.pb.gz", "h.pb", "h.gz"])
def test_single_file(tmp_path: Path, name: str) -> None:
    path = put(tmp_path / "run1" / name, "abc")
    found = find_profiles(path)
    assert [(file.host, file.path, file.size) for file in found.files] == [("h", str(path), 3)]
    assert (found.run, found.folder) == ("run1", str(tmp_path / "run1"))


def test_the_shortest_name_opens_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = (put(tmp_path / "job/logs/plugins/profile" / run / "h.xplane.pb").parent for run in ("2026_11_21", "2026_11_23"))
    monkeypatch.chdir(tmp_path / "job")
    assert shorten_path(str(new)) == "logs"
    assert shorten_path(str(old)) == "logs/plugins/profile/2026_11_21"
    assert shorten_path("logs/plugins/profile/2026_11_23") == "logs"
    assert shorten_path("logs/plugins/profile/2026_11_21") == "logs/plugins/profile/2026_11_21"
    assert shorten_path("gs://bucket/logs/plugins/profile/2026_11_23") == "gs://bucket/logs/plugins/profile/2026_11_23"
    monkeypatch.chdir("/")
    assert find_profiles(shorten_path(str(new))).folder == str(tmp_path / "job/logs/plugins/profile/2026_11_23").lstrip("/")


def test_file_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "h.xplane.pb")
    monkeypatch.chdir(tmp_path)
    found = find_profiles("h.xplane.pb")
    assert (found.files[0].path, found.folder) == ("h.xplane.pb", ".")


def test_run_folder_has_one_file_per_host(tmp_path: Path) -> None:
    for name in ("b.xplane.pb", "a.xplane.pb", "a.xplane.pb.gz", "a.outpace.json", "notes.pb"):
        put(tmp_path / name)
    assert [(file.host, os.path.basename(file.path)) for file in find_profiles(tmp_path).files] == [
        ("a", "a.xplane.pb"),
        ("b", "b.xplane.pb"),
    ]


def test_log_directory_gives_its_newest_run_by_the_time_in_its_name(tmp_path: Path) -> None:
    runs = tmp_path / "plugins" / "profile"
    put(runs / "2026_01_02_03_04_05" / "h.xplane.pb", modified=1.0)
    put(runs / "2025_12_31_23_59_59" / "h.xplane.pb", modified=9.0)  # copied later
    put(runs / "empty" / "readme.txt")
    assert find_profiles(tmp_path).run == "2026_01_02_03_04_05"
    assert [run.run for run in list_runs(tmp_path)] == ["2026_01_02_03_04_05", "2025_12_31_23_59_59"]


def test_runs_without_a_time_in_the_name_go_by_file_time(tmp_path: Path) -> None:
    put(tmp_path / "plugins/profile/zebra/h.xplane.pb", modified=1.0)
    put(tmp_path / "plugins/profile/ant/h.xplane.pb", modified=2.0)
    assert find_profiles(tmp_path).run == "ant"


@pytest.mark.parametrize("below", ["", "train", "experiment/train"])
@pytest.mark.parametrize("given", ["", "below"])
def test_experiments_inside_a_log_directory_are_found(tmp_path: Path, below: str, given: str) -> None:
    put(tmp_path / below / "plugins/profile/r/h.xplane.pb")
    assert find_profiles(tmp_path / below if given else tmp_path).run == "r"


def test_profile_folder_itself_is_a_log_directory(tmp_path: Path) -> None:
    put(tmp_path / "plugins/profile/r/h.xplane.pb")
    assert find_profiles(tmp_path / "plugins" / "profile").run == "r"


def test_unfinished_captures_are_not_found(tmp_path: Path) -> None:
    put(tmp_path / ".outpace-1/plugins/profile/r/h.xplane.pb")
    with pytest.raises(NotFoundError, match="holds no profile"):
        find_profiles(tmp_path)


def test_nothing_there_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no file or folder .*nowhere.* Give a"):
        find_profiles(tmp_path / "nowhere")
    with pytest.raises(NotFoundError, match="no folder"):
        list_runs(tmp_path / "nowhere")
    assert list_runs(tmp_path) == ()


def test_record_is_no_profile(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a profile"):
        find_profiles(put(tmp_path / "h.outpace.json"))


def test_remote_log_directory_and_its_local_copy(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe("/logs/plugins/profile/2026_01_01_00_00_00/h.xplane.pb", b"bytes")
    memory.pipe("/logs/plugins/profile/2026_01_01_00_00_00/h.outpace.json", b"{}")
    found = find_profiles("memory://logs")
    assert found.run == "2026_01_01_00_00_00"
    assert found.files[0].path == "memory:///logs/plugins/profile/2026_01_01_00_00_00/h.xplane.pb"
    with local_copy(found.files[0]) as copy:
        assert isinstance(copy, str)
        assert Path(copy).read_bytes() == b"bytes"
        assert os.path.basename(copy) == "h.xplane.pb"
    assert not os.path.exists(os.path.dirname(copy)), "it is gone with the block"
    record, warning = read_capture_record(found.folder, "h")
    assert record is None and warning is not None and "schema" in warning
    assert find_profiles(found.folder).files == found.files
    assert find_profiles(found.files[0].path).files == found.files
    memory.rm(found.files[0].path)
    with pytest.raises(NotFoundError, match="is gone"), local_copy(found.files[0]):
        pass


def test_local_file_is_its_own_copy(tmp_path: Path) -> None:
    found = find_profiles(put(tmp_path / "h.xplane.pb"))
    with local_copy(found.files[0]) as copy:
        assert copy == str(tmp_path / "h.xplane.pb")
    assert os.path.exists(copy)


def test_unknown_kind_of_store_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="nosuchstore"):
        find_profiles("nosuchstore://bucket/logs")


def test_upload_puts_profiles_last(tmp_path: Path, memory: fsspec.AbstractFileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "2026_01_01_00_00_00"
    put(run / "h.xplane.pb")
    put(run / "h.outpace.json")
    put(run / "z.json.txt")
    order: list[str] = []
    real = type(memory).put_file

    def noted(self: object, source: str, target: str, **kwargs: object) -> None:
        order.append(os.path.basename(target))
        real(self, source, target, **kwargs)

    monkeypatch.setattr(type(memory), "put_file", noted)
    url = upload_run(str(run), "memory://there/logs")
    assert order[-1] == "h.xplane.pb"
    assert find_profiles(url).files[0].host == "h"
    assert find_profiles("memory://there/logs").run == "2026_01_01_00_00_00"


def test_an_upload_that_breaks_off_leaves_nothing_there_and_a_copy_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "2026_01_01_00_00_00"
    for host in ("a", "b"):
        put(run / f"{host}.xplane.pb")
    memory = fsspec.filesystem("memory")
    real = type(memory).put_file

    def full(self: object, source: str, target: str, **kwargs: object) -> None:
        if target.endswith("b.xplane.pb"):
            raise OSError("quota exceeded")
        real(self, source, target, **kwargs)

    monkeypatch.setattr(type(memory), "put_file", full)
    with pytest.raises(OutputError, match="quota exceeded") as error:
        upload_run(str(run), "memory://full/logs")
    assert not memory.exists("/full/logs/plugins/profile/2026_01_01_00_00_00")
    kept = re.search(r"kept in (\S+);", str(error.value))
    assert kept and sorted(os.listdir(kept[1])) == ["a.xplane.pb", "b.xplane.pb"]
    shutil.rmtree(kept[1])


@pytest.mark.parametrize("scheme", ["", "memory:/"])
def test_every_tree_takes_files_gives_them_back_and_removes_them(scheme: str, tmp_path: Path) -> None:
    here, back = put(tmp_path / "here", "content"), tmp_path / "back"
    tree = open_tree(f"{scheme}{tmp_path}/there")
    tree.upload(str(here), f"{tree.root}/deep/file")
    tree.download(f"{tree.root}/deep/file", str(back))
    assert back.read_text() == "content"
    tree.remove(f"{tree.root}/deep")
    assert not tree.is_folder(f"{tree.root}/deep")


@pytest.mark.parametrize(
    ("runs", "newest"),
    [
        ({"2020_01_01_00_00_00": 5e8, "nightly_today": 1.7e9}, "nightly_today"),
        ({"2026_01_01_00_00_00": 5e8, "nightly_today": 1.6e9}, "2026_01_01_00_00_00"),
        ({"2026_01_01_00_00_00": 2e9, "2026_01_02_00_00_00": 1e9}, "2026_01_02_00_00_00"),  # copied later
        ({"2026_01_01_00_00_00_1": 2e9, "2026_01_01_00_00_00": 1e9}, "2026_01_01_00_00_00_1"),
        ({"2026_99_99_00_00_00": 1e9, "other": 1.1e9}, "other"),  # no date
        ({"a": 1.1e9, "b": 1e9}, "a"),
    ],
)
def test_the_newest_run_is_the_one_of_the_latest_time(runs: dict[str, float], newest: str, tmp_path: Path) -> None:
    for name, modified in runs.items():
        put(tmp_path / "plugins/profile" / name / "h.xplane.pb", modified=modified)
    assert find_profiles(tmp_path).run == newest
    assert list_runs(tmp_path)[0].run == newest


def test_links_in_circles_and_to_nowhere_are_no_files(tmp_path: Path) -> None:
    good = put(tmp_path / "plugins/profile/r1/h.xplane.pb").parent
    (good / "z.xplane.pb").symlink_to(good / "z.xplane.pb")
    (good / "y.xplane.pb").symlink_to(good / "nowhere")
    (good / "x.xplane.pb").mkdir()
    (good.parent / "r2").symlink_to(good.parent / "r2")
    (good / "again").symlink_to(tmp_path)
    assert [file.host for file in find_profiles(tmp_path).files] == ["h"]
    assert [run.run for run in list_runs(tmp_path)] == ["r1"]


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), OutputError, "There is no room in .* Set TMPDIR to another place"),
        (OSError(errno.EACCES, "Permission denied"), NotFoundError, "/x.xplane.pb cannot be read: .*Permission denied"),
        (RuntimeError("credentials expired"), NotFoundError, "/x.xplane.pb cannot be read: credentials expired"),
    ],
)
def test_a_copy_that_cannot_be_made_is_a_sentence(
    error: Exception, kind: type[Exception], said: str, memory: fsspec.AbstractFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.pipe("/x.xplane.pb", b"1")

    def failing(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(type(memory), "get_file", failing)
    with pytest.raises(kind, match=said), local_copy(find_profiles("memory://x.xplane.pb").files[0]):
        pass


def test_whether_there_is_a_run_is_known_at_the_first(tmp_path: Path) -> None:
    assert not has_run(tmp_path)
    assert not has_run(tmp_path / "missing")
    run = tmp_path / "train" / "plugins" / "profile" / "run"
    run.mkdir(parents=True)
    assert not has_run(tmp_path)
    (run / "host.xplane.pb").write_bytes(b"")
    assert has_run(tmp_path) and has_run(run) and has_run(run.parent)
