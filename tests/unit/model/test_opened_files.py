"""The one way to open what others have made."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outpace.model import input_files
from outpace.model.input_files import RECORD, FileKind, allocated_size, confine_reads, read_file, special_file_type
from tests.strange import STRANGE

SMALL = FileKind("note", 100)


@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE)
def test_what_is_no_file_is_refused_or_empty_at_once(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "vm.outpace.json"
    make(path)
    found: list[object] = []

    def read() -> None:
        try:
            found.append(read_file(path, RECORD))
        except OSError as error:
            found.append(input_files.format_error(error))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(20)
    assert found and found[0] in (
        *(b"", "it is a pipe, not a file", "it is a socket, not a file", "it is a folder, not a file", "it is a device, not a file"),
        *("No such file or directory", "Too many levels of symbolic links", "Permission denied", "Operation not permitted"),
        *(f"it has {os.stat(path).st_size:,} bytes, more than the 67,108,864 that a capture record may have" if path.exists() else "",),
    ), found  # fmt: skip


def test_a_file_is_read_as_far_as_its_kind_may_have(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100)
    assert read_file(tmp_path / "a", SMALL) == b"x" * 100
    (tmp_path / "a").write_bytes(b"x" * 101)
    with pytest.raises(OSError, match="it has 101 bytes, more than the 100 that a note may have"):
        read_file(tmp_path / "a", SMALL)


def test_of_a_file_that_grows_no_more_is_read_than_its_kind_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 50)
    real = os.fstat

    def grown(descriptor: int) -> os.stat_result:
        found = real(descriptor)
        with path.open("ab") as file:
            file.write(b"y" * 60)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", grown)
        assert read_file(path, SMALL) == b"x" * 50 + b"y" * 50


@pytest.mark.parametrize("what", ["pipe", "folder", "endless device"])
def test_what_takes_the_place_of_a_file_that_was_looked_at_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path, real = tmp_path / "a", os.stat
    path.write_bytes(b"a file")

    left = [True]

    def looked(place: Any, **more: Any) -> os.stat_result:
        found = real(place, **more)
        if place == path and left.pop():
            path.unlink()
            STRANGE[what](path)
        return found

    with monkeypatch.context() as patched, pytest.raises(OSError, match=r"not a file|Is a directory"):
        patched.setattr(os, "stat", looked)
        read_file(path, SMALL)


def test_nothing_outside_of_the_folders_is_opened_whatever_leads_there(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "a").write_bytes(b"a")
    (outside / "b").write_bytes(b"b")
    (inside / "file").symlink_to(outside / "b")
    (inside / "folder").symlink_to(outside)
    (inside / "twice").symlink_to(inside / "file")
    (inside / "back").symlink_to(outside / "home")
    (outside / "home").symlink_to(inside / "a")
    (tmp_path / "inside").write_bytes(b"no folder that begins so is one of them")
    with confine_reads([os.path.realpath(inside)]):
        assert read_file(inside / "a", SMALL) == read_file(inside / "back", SMALL) == b"a"
        for path in (
            *(inside / "file", inside / "folder" / "b", inside / "twice", outside / "b", inside / ".." / "out" / "b"),
            *(tmp_path / "inside", Path("/proc/self/root") / str(outside / "b").lstrip("/"), Path("/etc/passwd")),
        ):
            with pytest.raises(OSError, match="out of the folders that were named"):
                read_file(path, RECORD)
    assert read_file(inside / "file", SMALL) == b"b"


def test_a_link_that_is_turned_as_the_file_is_opened_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write into the folder turns a link outwards just as it is opened, and back before
    it is asked where it led.
    """
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"a")
    (tmp_path / "secret").write_bytes(b"secret")
    link, real = tmp_path / "in" / "link", os.open
    link.symlink_to("a")

    def turned(place: Any, flags: int) -> int:
        link.unlink()
        link.symlink_to("../secret")
        try:
            return real(place, flags)
        finally:
            link.unlink()
            link.symlink_to("a")

    with confine_reads([os.path.realpath(tmp_path / "in")]), monkeypatch.context() as patched:
        patched.setattr(os, "open", turned)
        with pytest.raises(OSError, match="out of the folders"):
            read_file(link, SMALL)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 1000)
    (tmp_path / "small").write_bytes(b"x")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        for name in ("large", "small"):
            with confine_reads([os.path.realpath("/usr")]), pytest.raises(OSError, match=r"more than|out of"):
                read_file(tmp_path / name, SMALL)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_there_is_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    (tmp_path / "b").write_bytes(b"")
    found = [special_file_type(path) for path in (tmp_path / "a", "/dev/zero", tmp_path / "b", tmp_path / "missing", "a\0b")]
    assert found == ["a pipe", "a device", "", "", ""]


def test_of_a_file_what_is_no_hole_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "a").open("w+b", buffering=0) as file:
        assert allocated_size(file.fileno()) == 0
        file.write(b"x" * 5000)
        assert allocated_size(file.fileno()) == 5000 and file.tell() == 5000
        os.truncate(file.fileno(), 100 << 30)
        os.pwrite(file.fileno(), b"x", 50 << 30)
        assert 5001 <= allocated_size(file.fileno()) <= 200_000 and file.tell() == 5000
        real = os.lseek

        def older(descriptor: int, offset: int, whence: int) -> int:
            if whence in (os.SEEK_DATA, os.SEEK_HOLE):
                raise OSError(errno.EINVAL, "Invalid argument")
            return real(descriptor, offset, whence)

        monkeypatch.setattr(os, "lseek", older)
        assert allocated_size(file.fileno()) == 100 << 30, "its file system does not tell"
