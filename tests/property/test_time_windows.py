"""A window of a profile: the core decodes of it what the whole holds there, and every tool reports
on it as on a capture of that time.
"""

from __future__ import annotations

import gzip
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import outpace
from outpace import api
from outpace.cli import app
from outpace.metrics.cluster.host_signature import NUMBERED_SOURCES
from outpace.model import TooLargeError, UsageError
from outpace.testing import SpaceBuilder
from outpace.trace import MemoryLimit, ReadLimits, Trace, Window, limits, open_trace
from outpace.trace.formats import InMemoryProfile
from outpace.trace.limits import parse_size, parse_window
from outpace.trace.selection import select_window
from tests.support import SOME, opened, profile_path

MS = 10**9
FILES = [file for name in SOME for file in sorted(profile_path(name).glob("*.xplane.pb.gz"))]


def held(file: Path) -> InMemoryProfile:
    return InMemoryProfile(gzip.decompress(file.read_bytes()), file.name.removesuffix(".gz"))


def drawn(trace: Trace, seed: str) -> list[Window]:
    """Windows of a trace: a tenth, the rest, and one that begins with an event and ends with it."""
    draw = random.Random(seed)
    first, last = trace.span_ps
    length = last - first
    begin, row = draw.randrange(length), draw.randrange(len(trace))
    there = int(trace.start[row]) - first
    return [Window(begin, begin + length // 10), Window(begin), Window(there, there + int(trace.duration[row]) + 1)]


def assert_same(found: Trace, expected: Trace) -> None:
    for column in ("name", "start", "duration"):
        assert np.array_equal(getattr(found, column)[:], getattr(expected, column)[:]), column
    assert np.array_equal(found.lines.first_event, expected.lines.first_event)
    assert found.lines.names == expected.lines.names and found.occurrences == expected.occurrences
    for name in expected.stat_names:
        mine, other = found.stat(name), expected.stat(name)
        for column in ("rows", "kind", "bits", "length"):
            assert np.array_equal(getattr(mine, column), getattr(other, column)), (name, column)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_core_decodes_what_the_whole_holds_there(file: Path) -> None:
    profile = held(file)
    whole = open_trace(profile, "host")
    if whole.span_ps[0] == whole.span_ps[1]:
        pytest.skip("no time in it")
    for window in drawn(whole, str(file)):
        for touching in (False, True):
            wanted = Window(window.begin, window.end, touching)
            try:
                expected = select_window(whole, wanted)
            except UsageError as error:
                with pytest.raises(UsageError) as raised:
                    open_trace(profile, "host", ReadLimits(wanted))
                assert str(raised.value) == str(error)
                continue
            found = open_trace(profile, "host", ReadLimits(wanted))
            assert (found.window, found.earliest_ps) == (wanted, whole.span_ps[0])
            assert_same(found, expected)


@pytest.mark.parametrize("name", ["custom_loop", "jax_loop", "multi_host", "retracing", "tfdata_heavy"])
def test_every_tool_reports_on_a_window(name: str) -> None:
    whole = opened(name)
    timeline = whole.run.hosts[0]
    steps = timeline.steps
    first, last = len(steps) // 4, max(len(steps) // 4, 3 * len(steps) // 4 - 1)
    begin, end = (int(at) - timeline.zero_ps for at in (steps.start[first], steps.end[first : last + 1].max()))
    with api.open(profile_path(name), window=Window(begin, end)) as part:
        report = part.report()
        assert [page.failure for page in report.pages if page.failure] == []
        assert any(warning.startswith("Only a part of the time is in this report: ") for warning in report.warnings)
        mine = next((t for t in part.run.hosts if t.host == timeline.host), None)
        assert mine is not None and len(mine.trace) < len(timeline.trace)
        if (
            steps.source in NUMBERED_SOURCES and mine.steps.source == steps.source
        ):  # its steps are steps of the whole, at the same times
            times = dict(zip(steps.number.tolist(), (steps.start - timeline.zero_ps).tolist(), strict=True))
            for number, at in zip(mine.steps.number.tolist(), (mine.steps.start - mine.zero_ps).tolist(), strict=True):
                assert times[number] <= at, number
                assert at - times[number] < int(steps.duration.max()), number


@pytest.fixture
def long_run(tmp_path: Path) -> Path:
    """10 s with an event of 5 ms every 10 ms, and one around each second."""
    space = SpaceBuilder("vm")
    line = space.plane("/host:CPU").line("python", timestamp_ns=7_000_000)
    for second in range(10):
        line.event("epoch", 1000 * second * MS, 1000 * MS)
        for at in range(100):
            line.event("step", (1000 * second + 10 * at) * MS, 5 * MS)
    return space.write(tmp_path)


def test_a_window_counts_from_the_earliest_event(long_run: Path) -> None:
    with outpace.open(long_run, window="2s:3s") as lies:
        assert len(lies.run.hosts[0].trace) == 101
    with outpace.open(long_run, window=Window(2500 * MS, 3500 * MS, include_overlapping=True)) as reaches:
        assert len(reaches.run.hosts[0].trace) == 102
        assert reaches.run.hosts[0].zero_ps == 0


def test_what_needs_more_memory_says_how_to_ask_for_less(long_run: Path) -> None:
    with pytest.raises(TooLargeError, match=r"--window 0ms:\d+ms\), or allow more \(--memory 0\.1MB\)") as raised:
        outpace.open(long_run, memory="20KB")
    assert "holds 1,010 events in 10.0 s" in str(raised.value)
    offered = str(raised.value).partition("--window ")[2].partition(")")[0]
    with outpace.open(long_run, memory="20KB", window=offered) as part:
        assert 100 < len(part.run.hosts[0].trace) < 300
    with pytest.raises(TooLargeError, match=r"^The window 2s:9s of .*--window 2000ms:\d+ms\)"):
        outpace.open(long_run, memory="20KB", window="2s:9s")
    for beyond in ("18446744.1s:", "9999999s:99999999s"):  # 2^64 ps and more
        with pytest.raises(UsageError, match="no event that lies in the window"):
            outpace.open(long_run, window=beyond)
    with outpace.open(long_run, window="0s:18446800s") as all_of_it:
        assert len(all_of_it.run.hosts[0].trace) == 1010
    with outpace.open(long_run, memory="0.1MB") as whole:
        assert len(whole.run.hosts[0].trace) == 1010


def test_a_host_without_room_is_not_left_out(tmp_path: Path) -> None:
    """Together the hosts may take so much; that one of them finds no room is no fault of it."""
    for host in ("a", "b"):
        space = SpaceBuilder(host)
        space.plane("/host:CPU").line("python", timestamp_ns=1).event("x", 0, 5)
        for at in range(1, 100):
            space.plane("/host:CPU").line("python").event("x", 10 * at, 5)
        space.write(tmp_path)
    assert len(outpace.open(tmp_path, memory="20KB").run.hosts) == 2
    with pytest.raises(TooLargeError, match=r"b\.xplane\.pb.*all 2 hosts, if they are like it, about 14\.6 KiB\."):
        outpace.open(tmp_path, memory="14KB")
    with pytest.raises(UsageError):
        outpace.open(tmp_path, memory=-5)


def test_a_viewer_gets_the_same_events_where_there_are_many_or_memory_is_short(
    long_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = []
    for memory, few in (("1GB", 10**6), ("1GB", 100), ("30KB", 10**6)):
        monkeypatch.setattr(limits, "_MOMENT", few)
        out = tmp_path / f"{memory}-{few}.json"
        done = CliRunner().invoke(
            app, ["trace", str(long_run), "--window", "2.5s:3.5s", "--track", "python", "--memory", memory, "--out", str(out)]
        )
        assert done.exit_code == 0, done.output
        files.append(out.read_bytes())
        assert ("Only a part of the time" in done.output) == (len(files) > 1)
    assert files[0] == files[1] == files[2] and files[0].count(b'"step"') == 100 and files[0].count(b'"epoch"') == 2


def test_the_command_line_says_it(long_run: Path) -> None:
    command = [sys.executable, "-m", "outpace", "report", str(long_run), "--memory", "20KB"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 12 and refused.stdout == "" and refused.stderr.startswith("outpace: ")
    done = CliRunner().invoke(app, ["report", str(long_run), "--memory", "20KB", "--window", ":2s"])
    assert done.exit_code == 0 and "Only a part of the time is in this report: :2s." in done.output
    for wrong in (
        ["--memory", "4 apples"],
        ["--window", "2s"],
        ["--window", "3s:2s"],
        ["--window", "20s:"],
        ["--window", ":"],
        ["--window", f"{10**400}s:"],
        ["--memory", f"{10**400}GB"],
    ):
        done = CliRunner().invoke(app, ["report", str(long_run), *wrong])
        assert isinstance(done.exception, UsageError), wrong


@pytest.mark.parametrize(
    ("text", "size"), [("4GB", 4 * 10**9), ("1.5 MiB", 3 << 19), ("500mb", 5 * 10**8), ("64KB", 64_000), ("9B", 9)]
)
def test_amounts_of_memory(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_windows_are_read_back() -> None:
    assert parse_window("800ms:") == Window(800 * MS) and parse_window(":2s") == Window(None, 2000 * MS)
    assert [str(parse_window(text)) for text in ("1.2s:", ":2s", "150.2s:150.9s")] == ["1200ms:", ":2s", "150200ms:150900ms"]


def test_memory_is_taken_once() -> None:
    memory = MemoryLimit(1000)
    assert memory.reserve(10) and not memory.reserve(10) and memory.reserve(1)
    assert MemoryLimit().reserve(10**12)


@pytest.mark.parametrize("hosts", [1, 3])
@pytest.mark.parametrize("limit", [2 * 10**8, 6 * 10**8, 10**9])
def test_the_part_that_is_offered_fits(limit: int, hosts: int) -> None:
    """Events of a part may take more than each of many, which are packed."""
    events, length = 20_000_000, 60 * 10**12
    offered = re.search(r"--window (\S+?)\)", str(MemoryLimit(limit, hosts).exceeded_error("x", events, 0, length)))
    assert offered is not None
    part, memory = parse_window(offered[1]), MemoryLimit(limit)
    there = round(((part.end or 0) - (part.begin or 0)) / length * events)
    assert there * hosts > limit / 100
    assert all(memory.reserve(there) for _ in range(hosts))


def test_hosts_that_begin_at_other_times_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """A viewer's window counts from the earliest event of all."""
    for host, begins in (("a", 0), ("b", 3000)):
        space = SpaceBuilder(host)
        line = space.plane("/host:CPU").line("python", timestamp_ns=1_800_000_000_000_000_000 + begins * 10**6)
        for at in range(1000):
            line.event("x", 10 * at * MS, 5 * MS)
        space.write(tmp_path)
    wanted = ["trace", str(tmp_path), "--window", "5s:6s", "--track", "python", "--out", str(tmp_path / "all.json")]
    assert CliRunner().invoke(app, wanted).exit_code == 0
    assert (tmp_path / "all.json").read_bytes().count(b'"x"') == 200
    assert isinstance(CliRunner().invoke(app, [*wanted, "--memory", "100KB"]).exception, TooLargeError)


def test_what_to_do_next_speaks_of_the_same_part() -> None:
    with api.open(profile_path("custom_loop"), window=":100s") as part:
        assert any(" --window :100s" in command.line for command in part.report().next)
