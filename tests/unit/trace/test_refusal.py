"""What is no profile is named, with a way out; what is a part of one is called truncated."""

from __future__ import annotations

import gzip
import json
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from outpace.model import NotFoundError, ProfileError
from outpace.store.logdir import find_profiles
from outpace.trace import open_trace, read_trace
from tests.support import DATA, profile_bytes

KINETO = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100" * 500}], "traceEvents": [{"ph": "X"}]}
CHROME = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": []}
ADVICE = "text conversion"


def refused(path: Path) -> str:
    with pytest.raises(ProfileError) as error:
        open_trace(path)
    text = str(error.value)
    assert error.value.exit_code == 3
    assert text.startswith(str(path)) and text.endswith(".")
    assert ADVICE not in text or path.name.startswith("text_mangled")
    return text


@pytest.mark.parametrize("name", ["custom_loop/vm", "tf_gpu_v100_bert/gpu_worker", "jax_loop/vm", "idle_empty/vm"])
def test_every_cut_is_a_profile_or_a_truncated_one(name: str) -> None:
    data = profile_bytes(*name.split("/"))
    sizes = (*range(2, min(300, len(data))), *range(300, len(data), max(1, len(data) // 40)))
    assert {readable(data[:size]) for size in sizes} == {True, False}


def readable(cut: bytes) -> bool:
    """Whether a cut profile opens; where not, it says that it is cut."""
    try:
        trace = read_trace(cut)
    except ProfileError as error:
        assert "is a truncated profile: it ends after" in str(error), len(cut)
        assert "before its first whole event" in str(error)
        return False
    assert trace.damages or trace.unnamed_events or not len(trace)
    return True


def test_a_cut_archive_of_a_cut_profile_says_what_unpacking_it_said(tmp_path: Path) -> None:
    packed = gzip.compress(profile_bytes("jax_loop", "vm"), mtime=0)
    (tmp_path / "a.xplane.pb.gz").write_bytes(packed[:3000])
    text = refused(tmp_path / "a.xplane.pb.gz")
    assert "truncated profile" in text and "gzip stream" in text


def sqlite_file(path: Path, *tables: str) -> None:
    with sqlite3.connect(path) as base:
        for table in tables:
            base.execute(f"create table {table} (start integer)")
    base.close()


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("h100.json", json.dumps(KINETO), "PyTorch's profiler (Kineto)"),
        ("x.xplane.pb", json.dumps(KINETO, indent=2), "PyTorch's profiler (Kineto)"),
        ("h100.json.gz", gzip.compress(json.dumps(KINETO).encode(), mtime=0), "PyTorch's profiler (Kineto)"),
        ("vm.pt.trace.json", json.dumps(CHROME), "Chrome trace"),
        (
            "vm.trace.json.gz",
            gzip.compress(json.dumps(CHROME).encode(), mtime=0),
            "give the *.xplane.pb file of the same capture",
        ),
        ("list.json", '[{"name": "a", "ph": "X"}]', "Chrome trace"),
        ("other.json", '{"a": 1}', "a JSON file"),
        ("p.xplane.pb", pickle.dumps({"a": [1, 2]}), "a Python pickle"),
        ("page.xplane.pb", "\n<!DOCTYPE html>\n<html>", "a web page (HTML)"),
        ("lfs.xplane.pb", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n", "git lfs pull"),
        ("run.zip", b"PK\x03\x04rest", "packed archive (ZIP)"),
        ("report.nsys-rep", b"\x00\x01\x02binary", "NVIDIA Nsight Systems"),
        ("events.out.tfevents.17.vm.1.v2", b"\x18\0\0\0\0\0\0\0\xa3", "TensorBoard event file"),
    ],
)
def test_known_formats_are_named_with_a_way_out(tmp_path: Path, name: str, content: Any, what: str) -> None:
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    text = refused(tmp_path / name)
    assert what in text
    assert "no TensorFlow or JAX profile" in text


def test_nsight_databases_are_told_from_others(tmp_path: Path) -> None:
    sqlite_file(tmp_path / "h100.sqlite", "TARGET_INFO_GPU", "CUPTI_ACTIVITY_KIND_KERNEL")
    sqlite_file(tmp_path / "other.sqlite", "people")
    assert "a report of NVIDIA Nsight Systems" in refused(tmp_path / "h100.sqlite")
    assert "an SQLite database" in refused(tmp_path / "other.sqlite")


def test_only_what_was_converted_is_said_to_be() -> None:
    assert "went through a text conversion" in refused(DATA / "broken" / "text_mangled.xplane.pb.gz")
    assert "is not a TensorFlow or JAX profile" in refused(DATA / "broken" / "garbage.xplane.pb")


@pytest.mark.parametrize("inside", ["", "plugins/profile/2026_01_01_00_00_00"])
def test_a_folder_that_holds_only_such_a_file_says_so(tmp_path: Path, inside: str) -> None:
    place = tmp_path / inside
    place.mkdir(parents=True, exist_ok=True)
    (place / "readme.txt").write_text("hello")
    (place / "h100.json.gz").write_bytes(gzip.compress(json.dumps(KINETO).encode(), mtime=0))
    with pytest.raises(
        NotFoundError, match=r"holds no profile.*h100\.json\.gz is a trace of PyTorch's profiler \(Kineto\)\. Outpace"
    ):
        find_profiles(tmp_path)


def test_what_is_no_use_naming_is_not_named(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"lr": 0.1}')
    with pytest.raises(NotFoundError, match=r"holds no profile: neither.*profile SCRIPT") as error:
        find_profiles(tmp_path)
    assert "settings" not in str(error.value)


def test_a_file_that_lacks_bytes_or_names_tells_it() -> None:
    whole = profile_bytes("custom_loop", "vm")
    assert not read_trace(whole).damages and not read_trace(whole).unnamed_events
    cut = read_trace(whole[: len(whole) // 2])
    assert cut.damages and cut.is_partial and cut.unnamed_events == len(cut)  # names stand at the end of a plane
    assert open_trace(DATA / "broken" / "truncated.xplane.pb").damages
