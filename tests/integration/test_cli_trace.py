"""`outpace trace` as a user runs it."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import DATA, profile_path

BROKEN = DATA / "broken"
LOOP = profile_path("custom_loop")


def outpace(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "outpace.cli", "trace", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, encoding="utf-8")


def refused(done: subprocess.CompletedProcess[str], code: int) -> str:
    lines = done.stderr.strip().splitlines()
    assert done.returncode == code, done.stderr
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("outpace: ")
    assert lines[0].endswith(".")
    return lines[0]


def test_it_writes_a_file_and_says_what_is_in_it(tmp_path: Path) -> None:
    done = outpace(LOOP, "--out", tmp_path / "new" / "loop.pftrace")
    assert done.returncode == 0, done.stderr
    assert "33,523 of 33,523 events, 15 steps, 210 memory values." in done.stderr
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["loop.pftrace"]


def test_compressed_is_the_same(tmp_path: Path) -> None:
    for name in ("loop.pftrace", "loop.pftrace.gz"):
        assert outpace(LOOP, "--out", tmp_path / name).returncode == 0
    plain = (tmp_path / "loop.pftrace").read_bytes()
    assert gzip.decompress((tmp_path / "loop.pftrace.gz").read_bytes()) == plain


def test_json(tmp_path: Path) -> None:
    target = tmp_path / "loop.json.gz"
    done = outpace(
        LOOP, "--out", target, "--format", "json", "--steps", "3:5", "--track", "Steps|python", "--arguments", "none"
    )
    assert done.returncode == 0, done.stderr
    events = json.loads(gzip.decompress(target.read_bytes()))["traceEvents"]
    assert [e["name"] for e in events if e.get("cat") == "step"] == ["step 3", "step 4", "step 5"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--format", "xml"),
        ("--arguments", "some"),
        ("--window", "5"),
        ("--window", "1s:2s", "--steps", "3"),
        ("--steps", "9000"),
        ("--track", "("),
    ],
)
def test_requests_without_sense(arguments: tuple[str, ...], tmp_path: Path) -> None:
    refused(outpace(LOOP, "--out", tmp_path / "x", *arguments), 2)
    assert not list(tmp_path.iterdir())


def test_profiles_that_are_none(tmp_path: Path) -> None:
    refused(outpace(BROKEN / "garbage.xplane.pb", "--out", tmp_path / "x"), 3)
    refused(outpace(tmp_path / "missing", "--out", tmp_path / "x"), 4)


def test_a_damaged_profile_gives_what_is_left(tmp_path: Path) -> None:
    done = outpace(BROKEN / "truncated.xplane.pb", "--out", tmp_path / "x")
    assert done.returncode == 0, done.stderr
    assert "Note: " in done.stderr
    assert re.search(r"([\d,]+) of \1 events", done.stderr)


def test_a_place_that_takes_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    assert "--out" in refused(outpace(LOOP, "--out", tmp_path / "file" / "x"), 6)
    assert "--out" in refused(outpace(LOOP, "--out", tmp_path / "folder"), 6)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_an_empty_profile_says_so(tmp_path: Path) -> None:
    done = outpace(profile_path("idle_empty"), "--out", tmp_path / "x")
    assert done.returncode == 0
    assert "The trace is empty" in done.stderr


def test_help_and_profile_stay_as_they_are(tmp_path: Path) -> None:
    copy = shutil.copytree(LOOP, tmp_path / "logs")
    before = {p: p.stat().st_mtime_ns for p in copy.rglob("*")}
    assert outpace(copy, "--out", tmp_path / "x").returncode == 0
    assert {p: p.stat().st_mtime_ns for p in copy.rglob("*")} == before
    assert "Perfetto" in outpace("--help").stdout


def test_the_viewer_runs_until_it_is_interrupted() -> None:
    pytest.importorskip("viztracer")
    command = [sys.executable, "-m", "outpace.cli", "trace", str(LOOP), "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}) as running:
        assert running.stderr is not None
        try:
            said = [running.stderr.readline(), running.stderr.readline()]
            address = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", said[1])
            assert address, said
            connection = http.client.HTTPConnection("127.0.0.1", int(address[1]), timeout=10)
            connection.request("GET", "/trace", headers={"Authorization": f"Bearer {address[2]}"})
            assert len(connection.getresponse().read()) > 1_000_000
            connection.close()
            running.send_signal(signal.SIGINT)
            assert running.wait(20) == 0
            assert "Traceback" not in running.stderr.read()
        finally:
            running.kill()
