"""Reading a file that others write, cut or made up: the bytes of one moment, or a sentence."""

from __future__ import annotations

import errno
import gc
import gzip
import io
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outpace import api
from outpace.model import NotFoundError, ProfileError
from outpace.trace import content_reader, read_trace
from outpace.trace.content import Content, FileState
from outpace.trace.formats.in_memory import InMemoryProfile
from outpace.trace.formats.xspace.index import XSpaceIndex
from tests.support import profile_bytes

OLD = 1_500_000_000  # seconds since 1970


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    os.utime(path, (OLD, OLD))
    return path


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"other")


@pytest.mark.parametrize(
    "change", [overwrite, lambda p: os.truncate(p, 500), lambda p: os.truncate(p, 1500)], ids=["other", "less", "more"]
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_file_that_changes_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], pack: Callable[[bytes], bytes]
) -> None:
    path, real = written(tmp_path / "vm.xplane.pb", pack(os.urandom(1000))), os.fstat
    looks: list[os.stat_result] = []

    def look(descriptor: int) -> os.stat_result:
        looks.append(real(descriptor))
        if len(looks) == 3:  # the first says that it is a file, the second how large it is; before the first byte
            change(path)
        return looks[-1]

    monkeypatch.setattr(os, "fstat", look)
    with pytest.raises(ProfileError, match=r"vm\.xplane\.pb changed while it was read\. Open it again"):
        content_reader.read_content(path)


def test_what_was_just_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writes within one tick of the file system's clock leave the same time: the first reading
    may have seen half of the second.
    """
    path = tmp_path / "vm.xplane.pb"
    waits: list[float] = []
    path.write_bytes(b"half")
    now = os.stat(path).st_mtime_ns
    monkeypatch.setattr("outpace.trace.content_reader.time.time_ns", lambda: now + len(waits) * content_reader._TICK)

    def wait(seconds: float) -> None:
        waits.append(seconds)
        path.write_bytes(b"full")
        os.utime(path, ns=(now, now))

    monkeypatch.setattr("outpace.trace.content_reader.time.sleep", wait)
    assert content_reader.read_content(path)[0].bytes_at(0, 9) == b"full" and len(waits) == 1


def test_every_read_that_fails_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_reader, "_BLOCK", 20_000)
    path = written(tmp_path / "vm.xplane.pb", os.urandom(100_000))
    left = 0

    class Failing(io.FileIO):
        def readinto(self, buffer: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(5, "Input/output error")
            return super().readinto(buffer)

    monkeypatch.setattr(content_reader, "open_file", lambda place, _: io.BufferedReader(Failing(os.fspath(place)), 4096))
    for reads in range(100):
        left = reads
        try:
            data, remark = content_reader.read_content(path)
        except NotFoundError as error:
            assert str(error) == f"{path} cannot be read: Input/output error."
        else:
            assert data.bytes_at(0, len(data)) == path.read_bytes() and remark == "" and reads > 4
            break
    else:
        pytest.fail("it never ended")


def test_a_profile_is_what_it_was_when_it_was_opened(tmp_path: Path) -> None:
    path = written(tmp_path / "vm.xplane.pb", profile_bytes("jax_loop", "vm"))
    expected, opened = api.open(path).report().headline, api.open(path)
    os.truncate(path, 100)
    assert opened.report().headline == expected


@pytest.fixture
def by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is read as a large one is."""
    monkeypatch.setattr(content_reader, "_AT_ONCE", 1)


@pytest.mark.usefixtures("by_blocks")
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_of_a_large_file_blocks_are_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    random = os.urandom(200_000)
    data, _ = content_reader.read_content(written(tmp_path / "vm.xplane.pb", pack(random)))
    assert (data.memory is None) == (pack is bytes)
    for offset, size in ((0, 5), (199_990, 10), (199_990, 50), (70_000, 1), (64_000, 130_000), (200_000, 3), (0, 200_000)):
        assert data.bytes_at(offset, size) == random[offset : offset + size]
    assert data.load_all().tobytes() == random and data.bytes_at(7, 3) == random[7:10]


@pytest.mark.usefixtures("by_blocks")
@pytest.mark.parametrize(
    "change", [overwrite, lambda p: os.truncate(p, 500), lambda p: os.truncate(p, 10**6)], ids=["other", "less", "more"]
)
@pytest.mark.parametrize("ask", ["report", "stats", "texts"])
def test_a_large_file_that_changes_later_is_told(tmp_path: Path, change: Callable[[Path], None], ask: str) -> None:
    path = written(tmp_path / "vm.xplane.pb", profile_bytes("jax_loop", "vm"))
    opened = api.open(path)
    trace = opened.run.hosts[0].trace
    asked: dict[str, Callable[[], Any]] = {
        "report": opened.report,
        "stats": lambda: trace.read_stats(["_p"]),
        "texts": lambda: trace._source.data.bytes_at(100_000, 4),  # type: ignore[attr-defined]
    }
    change(path)
    with pytest.raises(
        ProfileError, match=r"changed while (it was|they were) read\. Open it again once whatever writes it is done"
    ):
        asked[ask]()


@pytest.mark.usefixtures("by_blocks")
def test_a_large_file_may_be_deleted_or_replaced_while_it_is_open(tmp_path: Path) -> None:
    path = written(tmp_path / "vm.xplane.pb", profile_bytes("jax_loop", "vm"))
    expected, opened = api.open(path).report().headline, api.open(path)
    path.unlink()
    path.write_bytes(b"another")
    assert opened.report().headline == expected


@pytest.mark.usefixtures("by_blocks")
def test_a_large_file_is_closed_with_its_profile(tmp_path: Path) -> None:
    """At once, not when somebody collects garbage."""
    path = written(tmp_path / "vm.xplane.pb", profile_bytes("jax_loop", "vm"))
    gc.disable()
    try:
        with api.open(path) as profile:
            profile.report()
            descriptor = profile.run.hosts[0].trace._source.data.descriptor  # type: ignore[attr-defined]
            assert os.fstat(descriptor).st_size == path.stat().st_size
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    finally:
        gc.enable()


@pytest.mark.usefixtures("by_blocks")
def test_a_large_file_that_is_being_written_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, waits = tmp_path / "vm.xplane.pb", list[float]()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        with path.open("ab") as file:
            file.write(b"more")

    path.write_bytes(b"half")
    monkeypatch.setattr("outpace.trace.content_reader.time.sleep", wait)
    monkeypatch.setattr("outpace.trace.content_reader.time.time_ns", lambda: path.stat().st_mtime_ns)
    with pytest.raises(ProfileError, match="changed while it was read"):
        content_reader.read_content(path)
    assert len(waits) == 1


@pytest.mark.usefixtures("by_blocks")
def test_what_reads_while_all_is_read_into_memory_reads_the_file(tmp_path: Path) -> None:
    random = os.urandom(1 << 20)
    data, _ = content_reader.read_content(written(tmp_path / "vm.xplane.pb", random))
    wrong: list[int] = []

    def look(seed: int) -> None:
        wrong.extend(at for at in range(seed, len(random) - 10, 70_001) if data.bytes_at(at, 10) != random[at : at + 10])

    threads = [threading.Thread(target=look, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    data.load_all()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.usefixtures("by_blocks")
def test_a_file_that_the_system_lost_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = api.open(written(tmp_path / "vm.xplane.pb", profile_bytes("jax_loop", "vm"))).run.hosts[0].trace

    def stale(descriptor: int) -> FileState:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr("outpace.trace.content.read_file_state", stale)
    with pytest.raises(ProfileError, match=r"vm\.xplane\.pb cannot be read any more: Stale file handle"):
        trace.read_stats(["_p"])


def test_what_unpacks_to_more_than_profiles_do_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "vm.xplane.pb.gz", gzip.compress(bytes(30 << 20)))
    with pytest.raises(ProfileError, match=r"unpacks to more than 5 MiB from 30,\d+ bytes, as no profile does.*gunzip"):
        content_reader.read_content(path)


def test_zeros_behind_a_member_are_passed_at_once(tmp_path: Path) -> None:
    """As much of them as nobody reads through; and another member may follow, as in what a tape
    drive has padded.
    """
    random = os.urandom(100_000)
    path = written(tmp_path / "vm.xplane.pb.gz", gzip.compress(random))
    for size in (300 << 20, 100 << 30, 200 << 30):
        os.truncate(path, size)
        if size == 200 << 30:
            with path.open("ab") as file:
                file.write(gzip.compress(b"more"))
        os.utime(path, (OLD, OLD))
        data, remark = content_reader.read_content(path)
        assert data.bytes_at(0, 200_000) == random + b"more" * (size == 200 << 30) and remark == ""


def test_zeros_in_memory_are_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_reader, "_PACKED", 100)
    for pad in (0, 1, 99, 100, 101, 5000):
        packed = gzip.compress(b"one") + bytes(pad) + gzip.compress(b"two") + bytes(pad)
        data, remark = content_reader.read_content(InMemoryProfile(packed, "vm"))
        assert (data.bytes_at(0, 9), remark) == (b"onetwo", "")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda packed: packed[:-9], r"Compressed file ended before the end-of-stream marker was reached"),
        (lambda packed: packed[:-3], r"Compressed file ended before the end-of-stream marker was reached"),
        (lambda packed: packed + bytes(99) + b"no", r"Not a gzipped file \(b'no'\)"),
        (lambda packed: packed + b"\x1f", r"Not a gzipped file \(b'\\x1f'\)"),
        (lambda packed: packed[:-8] + b"nope" + packed[-4:], r"Error -3 while decompressing data: incorrect data check"),
    ],
    ids=["cut", "cut in its end", "other behind zeros", "half a member", "other sum"],
)
def test_what_stands_before_damage_is_kept(damage: Callable[[bytes], bytes], says: str) -> None:
    random = os.urandom(100_000)
    data, remark = content_reader.read_content(InMemoryProfile(damage(gzip.compress(random)), "vm"))
    assert re.fullmatch(rf"the gzip stream of vm ends in damage \({says}\)", remark), remark
    assert random.startswith(data.bytes_at(0, 200_000)) and len(data) > 99_900


@pytest.mark.parametrize("hole", [0, 200 << 30])
def test_a_hole_adds_nothing_to_what_a_file_may_unpack_to(tmp_path: Path, hole: int) -> None:
    path = written(tmp_path / "vm.xplane.pb.gz", gzip.compress(bytes(30 << 20)))
    os.truncate(path, hole or path.stat().st_size)
    os.utime(path, (OLD, OLD))
    with pytest.raises(ProfileError, match=r"unpacks to more than [56] MiB from 3\d,\d+ bytes, as no profile does"):
        content_reader.read_content(path)


def field(number: int, body: bytes) -> bytes:
    size, head = len(body), b""
    while size > 127:
        head, size = head + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + head + bytes([size]) + body


HOST = field(2, b"/host:CPU")


@pytest.mark.parametrize(
    "claims",
    [
        field(1, b"") * 1_000_000,
        field(1, HOST + field(3, b"") * 1_000_000),
        field(1, HOST + field(3, field(4, b"") * 2_000_000)),
        field(1, HOST + field(3, field(4, b"\x08\x01")) + field(4, b"") * 200_000),
        field(1, HOST + field(3, field(4, b"\x08\x01")) + field(5, b"") * 1_000_000),
        field(1, HOST + field(6, b"") * 1_000_000),
        field(3, b"") * 1_000_000,
    ],
    ids=["planes", "lines", "events", "names", "stat names", "stats of planes", "warnings"],
)
def test_what_a_file_claims_to_hold_has_a_budget(claims: bytes) -> None:
    with pytest.raises(ProfileError, match=r"made to fill the memory: what its [\d,]+ bytes claim .* more than [\d,]+ MiB"):
        read_trace(claims)


@pytest.mark.usefixtures("by_blocks")
def test_a_hole_adds_nothing_to_what_a_file_may_claim_to_hold(tmp_path: Path) -> None:
    path = written(tmp_path / "vm.xplane.pb", field(1, b"") * 1_000_000)
    os.truncate(path, 200 << 30)
    os.utime(path, (OLD, OLD))
    with pytest.raises(ProfileError, match=r"what its 2,\d+,\d+ bytes claim .* more than 189 MiB"):
        api.open(path).report()


def test_later_passes_are_bound_to_what_the_first_one_counted() -> None:
    """One event becomes thirty, in the same bytes: arrays are made for one."""
    one = field(1, HOST + field(3, field(4, b"\x08\x01" + bytes(58))))
    many = field(1, HOST + field(3, field(4, b"") * 31))
    assert len(one) == len(many)
    data = np.frombuffer(one, np.uint8).copy()
    space = XSpaceIndex(Content.from_bytes(data), "x")
    data[:] = np.frombuffer(many, np.uint8)
    with pytest.raises(ProfileError, match="changed while they were read"):
        space.read_events()


@pytest.mark.parametrize("missing", [300, 700, 5500])
def test_a_file_that_lost_names_of_stats_has_no_verdict(tmp_path: Path, missing: int) -> None:
    path = written(tmp_path / "vm.xplane.pb", profile_bytes("custom_loop", "vm")[:-missing])
    report = api.open(path).report()
    assert report.headline.startswith("No step was found in what is left of the profile: ")
    assert any("stats are lost with the end of the file" in warning for warning in report.warnings)


def test_names_that_damage_took_are_missed_although_no_byte_is() -> None:
    """The entry of a stat's name turns into one of no known kind: nothing is cut, and the stats
    that it names mean nothing.
    """
    event, end = field(4, b"\x08\x01" + field(4, b"\x08\x07\x18\x01")), field(4, b"vm")
    name = field(5, b"\x08\x07" + field(2, b"\x08\x07" + field(2, b"_r")))
    rest = HOST + field(3, event) + field(4, b"\x08\x01" + field(2, b"\x08\x01" + field(2, b"op")))
    whole, damaged = read_trace(field(1, rest + name) + end), read_trace(field(1, rest + b"\x2f" + name[1:]) + end)
    assert (whole.unnamed_stats, whole.is_partial) == (0, False)
    assert (damaged.unnamed_stats, damaged.is_truncated, damaged.is_partial) == (1, False, True)
