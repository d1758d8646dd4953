"""What a profile is opened from: places, and what is held in memory."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest

from outpace import api
from outpace.model import ProfileError, UsageError
from outpace.report.html import render
from outpace.store.profile_source import read_in_memory
from outpace.testing import SpaceBuilder, training_run
from tests.support import profile_bytes

RAW = training_run(hostname="node-3").to_bytes()


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    store = fsspec.filesystem("memory")
    yield store
    store.store.clear()
    store.pseudo_dirs[:] = [""]


GIVEN: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "BytesIO": io.BytesIO,
    "gzipped": gzip.compress,
    "gzipped BytesIO": lambda data: io.BytesIO(gzip.compress(data)),
    "GzipFile": lambda data: gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(data))),
    "message": lambda data: SimpleNamespace(SerializeToString=lambda: data),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_what_is_in_memory_says_what_the_file_says(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "node-3.xplane.pb"
    path.write_bytes(RAW)
    profile, filed = api.open(GIVEN[kind](RAW)), api.open(path)
    assert [t.host for t in profile.run.hosts] == ["node-3"]
    assert profile.run.source == "node-3 (in memory)"
    mine, other = profile.report(), filed.report()
    assert (mine.headline, mine.findings) == (other.headline, other.findings)
    assert list(tmp_path.iterdir()) == [path]


def test_commands_and_the_page_make_sense_without_a_path() -> None:
    report = api.open(RAW).report()
    assert report.next and all(" FILE" in command.line for command in report.next)
    assert "node-3 (in memory)" in render(report)


def test_a_file_object_has_its_files_name_and_is_read_from_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "worker-7.xplane.pb.gz"
    path.write_bytes(gzip.compress(RAW))
    with path.open("rb") as file:
        profile = api.open(file)
    assert (profile.run.source, [t.host for t in profile.run.hosts]) == (str(path), ["worker-7"])
    assert all(str(path) in command.line for command in profile.report().next)
    inside = io.BytesIO(b"header" + RAW)
    inside.seek(6)
    assert api.open(inside).run.events == profile.run.events


def test_what_changes_later_changes_nothing() -> None:
    given = bytearray(RAW)
    profile = api.open(given)
    given[:] = bytes(len(given))
    assert profile.overview().headline == api.open(RAW).overview().headline


def test_fsspec_gives_addresses_and_files(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe("/logs/h.xplane.pb", RAW)
    assert api.open("memory://logs/h.xplane.pb").run.events == api.open(fsspec.open("memory://logs/h.xplane.pb")).run.events
    with fsspec.open("memory://logs/h.xplane.pb") as file:
        assert api.open(file).run.source == "node-3 (in memory)"


def closed(path: Path) -> Any:
    with path.open("rb") as file:
        return file


class Deaf(io.RawIOBase):
    """A file that is open for writing alone."""

    name = "new"

    def readinto(self, buffer: Any) -> int:
        raise io.UnsupportedOperation("not readable")


def written(_: Path) -> Any:
    file = io.BytesIO()
    file.write(RAW)
    return file


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda _: 3, UsageError, "int is nothing to open a profile from. Give a path"),
        (lambda _: None, UsageError, "NoneType is nothing"),
        (lambda _: ["a.xplane.pb"], UsageError, "list is nothing"),
        (lambda _: io.StringIO("text"), UsageError, r"<StringIO> gives text.*binary mode"),
        (lambda _: io.TextIOWrapper(io.BytesIO(RAW)), UsageError, r"<TextIOWrapper> gives text"),
        (closed, UsageError, r"h\.xplane\.pb is closed"),
        (lambda _: Deaf(), UsageError, r"new cannot be read: .*'rb'"),
        (written, UsageError, r"<BytesIO> was read or written to its end.*seek\(0\)"),
        (lambda _: b"", ProfileError, r"<bytes> is empty \(0 bytes\)"),
        (lambda _: gzip.compress(b""), ProfileError, "<bytes> is a gzip file without readable content"),
        (lambda _: b"no profile", ProfileError, "<bytes> is not a TensorFlow or JAX profile: it is a text file"),
        (lambda _: RAW[:20], ProfileError, "<bytes> is a truncated profile"),
    ],
)
def test_what_is_no_profile_is_a_sentence(
    make: Callable[[Path], Any], error: type[Exception], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "h.xplane.pb"
    path.write_bytes(RAW)
    with pytest.raises(error, match=said):
        api.open(make(path))


def test_damage_of_what_is_in_memory_is_said_as_that_of_a_file() -> None:
    assert "is cut" in " ".join(api.open(profile_bytes("jax_loop", "vm")[:-100]).warnings)
    assert "the gzip stream of <bytes> ends in damage" in " ".join(api.open(gzip.compress(RAW)[:-200]).warnings)


def test_without_any_name_a_host_is_called_host() -> None:
    space = SpaceBuilder("")
    space.plane("/host:CPU").line("main").event("work", 0, 5_000)
    assert [t.host for t in api.open(space.to_bytes()).run.hosts] == ["host"]


def test_a_place_is_not_held() -> None:
    assert read_in_memory("some/path") is None and read_in_memory(Path("some/path")) is None
