"""A profile that is read from its file by blocks, as a large one is, against one in memory: the
same answers, however small the blocks are.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from outpace import _native, api
from outpace.model import ProfileError
from outpace.report import json_
from outpace.trace import ReadLimits, Window, columns, content_reader, open_trace
from outpace.trace.export import ExportFormat
from outpace.trace.formats.in_memory import InMemoryProfile
from outpace.trace.formats.xspace import index
from outpace.viewer.trace_writer import write_trace
from tests.property.test_time_windows import assert_same
from tests.support import SOME, profile_path

pytestmark = pytest.mark.slow

FILES = [file for name in SOME for file in sorted(profile_path(name).glob("*.xplane.pb.gz"))]
LEAST, ODD, USUAL = 1, 4099, 0


@pytest.fixture(autouse=True)
def by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_reader, "_AT_ONCE", 1)


def unpacked(file: Path, folder: Path) -> Path:
    path = folder / file.name.removesuffix(".gz")
    path.write_bytes(gzip.decompress(file.read_bytes()))
    os.utime(path, (10**9, 10**9))
    return path


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_events_and_stats_are_the_same(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = unpacked(file, tmp_path)
    held = InMemoryProfile(path.read_bytes(), path.name)
    parts = (None, Window(0, 10**12, include_overlapping=True))[: 2 if len(open_trace(held, "host", ReadLimits())) else 1]
    known = [open_trace(held, "host", ReadLimits(part)) for part in parts]
    for block, threads in ((LEAST, 1), (LEAST, 4), (ODD, 2), (USUAL, 1), (USUAL, 4)):
        monkeypatch.setattr(index, "READ_BLOCK_BYTES", block)
        monkeypatch.setattr(_native, "thread_count", lambda threads=threads: threads)
        for part, expected in zip(parts, known, strict=True):
            found = open_trace(path, "host", ReadLimits(part))
            assert found._source.data.memory is None, "it is not in memory"  # type: ignore[attr-defined]
            assert_same(found, expected)
            assert found.names == expected.names and found.display_names == expected.display_names
            assert found.name_stats == expected.name_stats and found.damages == expected.damages
            for name in ("long_name", "hlo_op", "tf_op", "kernel_details"):
                assert found.stat(name).texts() == expected.stat(name).texts()


@pytest.mark.parametrize("name", ["custom_loop", "jax_loop", "retracing", "memory_heavy"])
def test_reports_traces_and_redaction_are_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = unpacked(next(profile_path(name).glob("*.xplane.pb.gz")), tmp_path)
    answers = []
    for at_once, block, few in ((1 << 40, USUAL, 1 << 40), (1, LEAST, 0), (1, ODD, 1 << 40)):
        monkeypatch.setattr(columns, "MIN_PACKED_ROWS", few)  # columns are packed, as those of a large profile are
        monkeypatch.setattr(content_reader, "_AT_ONCE", at_once)
        monkeypatch.setattr(index, "READ_BLOCK_BYTES", block)
        profile = api.open(path)
        texts: list[object] = [json_.render(profile.report()), json_.render(api.open(path, redact=True).report())]
        for form in ExportFormat:
            with (tmp_path / "trace").open("wb") as file:
                write_trace(profile.run, file.fileno(), form)
            texts.append((tmp_path / "trace").read_bytes())
        answers.append(texts)
    assert answers[0] == answers[1] == answers[2]


def told(place: Path | InMemoryProfile) -> object:
    """What is said of a profile, or why nothing is."""
    try:
        trace = open_trace(place, "host", ReadLimits())
    except ProfileError as error:
        return str(error)
    return len(trace), trace.damages, trace.is_truncated, trace.names, trace.start[:].tolist()


def test_every_prefix_of_a_file_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut is told alike, wherever it is."""
    monkeypatch.setattr(index, "READ_BLOCK_BYTES", LEAST)
    whole = gzip.decompress(next(profile_path("jax_loop").glob("*.xplane.pb.gz")).read_bytes())
    for size in (*range(1, 200), *range(200, len(whole), len(whole) // 60)):
        path = tmp_path / "vm.xplane.pb"
        path.write_bytes(whole[:size])
        os.utime(path, (10**9, 10**9))
        assert told(path) == told(InMemoryProfile(whole[:size], str(path))), size
