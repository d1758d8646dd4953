"""`outpace report` as a user runs it: exit codes, sentences, files, and hostile input."""

from __future__ import annotations

import array
import csv
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from outpace.testing import Inline, SpaceBuilder, training_run
from tests.support import DATA, profile_path

BROKEN = DATA / "broken"
MS = 1_000_000_000
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"
ESCAPE = "\x1b]0;owned\x07\x1b[31mred\x1b[2J"
FORMULA = "=cmd|' /C calc'!A0"


def outpace(*arguments: object, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "outpace.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, encoding="utf-8")


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The error message: one paragraph on stderr, nothing on stdout, no traceback."""
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("outpace: ")
    assert lines[0].endswith(".")
    return lines[0]


def strict(text: str) -> Any:
    def never(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=never)


def cells(file: Path) -> list[list[str]]:
    before = csv.field_size_limit(10_000_000)
    try:
        with file.open(newline="", encoding="utf-8") as opened:
            return list(csv.reader(opened))
    finally:
        csv.field_size_limit(before)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        *(((BROKEN / name,), 3, name) for name in ("empty.xplane.pb", "garbage.xplane.pb", "text_mangled.xplane.pb.gz")),
        (("nowhere",), 4, "nowhere"),
        ((BROKEN.parent / "sarif",), 4, "holds no profile"),
        ((profile_path("idle_empty"), "--tool", "no_such_tool"), 2, "no_such_tool"),
    ],
)
def test_what_cannot_be_reported_is_a_sentence(arguments: tuple[object, ...], code: int, said: str) -> None:
    done = outpace("report", *arguments)
    assert done.returncode == code
    assert said in one_sentence(done)


def test_unusable_places_for_files_say_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for option in ("--csv", "--html"):
        done = outpace("report", profile_path("idle_empty"), option, tmp_path / "file" / "below")
        assert done.returncode == 6
        assert "Traceback" not in done.stderr
        assert "below" in done.stderr and option in done.stderr


def test_a_truncated_profile_says_first_what_is_missing() -> None:
    done = outpace("report", BROKEN / "truncated.xplane.pb")
    assert done.returncode == 0, done.stderr
    beginning = " ".join(done.stdout.split())[:600]
    assert beginning.startswith("! truncated: ")
    assert re.search(r"at byte [\d,]+", beginning)
    warnings = strict(outpace("report", BROKEN / "truncated.xplane.pb", "--json").stdout)["warnings"]
    assert any("bytes are missing" in w for w in warnings)


def test_a_gzipped_profile_needs_no_ending() -> None:
    done = outpace("report", BROKEN / "gzipped.xplane.pb")
    assert done.returncode == 0
    assert not done.stdout.lstrip().startswith("!")


def test_an_idle_profile_says_what_to_do() -> None:
    done = outpace("report", profile_path("idle_empty"))
    assert done.returncode == 0
    text = " ".join(done.stdout.split()).lower()
    assert "nothing was recorded" in text
    assert "capture" in text
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("profile", "way_out"), [(profile_path("idle_empty"), "outpace profile"), (BROKEN / "truncated.xplane.pb", "Copy")]
)
def test_a_step_that_cannot_be_explained_names_the_way_out(profile: Path, way_out: str) -> None:
    text = " ".join(outpace("explain", profile).stdout.split())
    assert way_out in text
    assert "See the overview" not in text


def test_json_has_the_tools_and_their_tables() -> None:
    done = outpace("report", profile_path("custom_loop"), "--json")
    assert done.stderr == ""
    document = strict(done.stdout)
    assert document["schema"] == 2
    listed = [tool["id"] for tool in strict(outpace("tools", "--json").stdout)]
    assert list(document["tools"]) == listed
    steps = document["tools"]["overview"]["tables"]["steps"]
    assert len(steps["rows"]) == 15
    assert {"name", "unit", "meaning"} <= set(steps["columns"][0])


def test_files_are_written_where_asked_and_nowhere_else(tmp_path: Path) -> None:
    source, out = tmp_path / "profile", tmp_path / "out"
    shutil.copytree(profile_path("custom_loop"), source)
    before = sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*"))
    done = outpace("report", source, "--csv", out / "tables", "--html", out / "report.html")
    assert done.returncode == 0, done.stderr
    assert [e for e in before if e not in {(p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*")}] == []
    made = {p.relative_to(out).parts[0] for p in out.rglob("*")}
    assert made == {"tables", "report.html"}, "no half-written file is left behind"
    assert len(cells(out / "tables" / "overview.steps.csv")) == 1 + 15
    assert (out / "report.html").read_text(encoding="utf-8").lower().startswith("<!doctype html>")


def widest(text: str) -> int:
    """The longest line but for commands, which run over rather than be broken."""
    return max(len(line) for line in text.splitlines() if not line[14:].startswith("outpace "))


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_asked(width: int) -> None:
    done = outpace("report", profile_path("unicode_names"), "--width", width)
    assert done.returncode == 0
    assert widest(done.stdout) <= width


def hostile(folder: Path) -> Path:
    """A run whose names of ops, threads, functions and stages attack the reader of the report."""
    names = (SCRIPT, ESCAPE, FORMULA, "a" * 1_000_000)
    ops = [(name, "dot_general", 2 * MS) for name in names]  # a type as JAX spells it allows any name
    pipeline = ("Root", "Prefetch", f"Map{SCRIPT}", f"Shuffle{ESCAPE}")
    space = training_run(steps=4, ops=ops, pipeline=pipeline, work_ps={f"Map{SCRIPT}": 5 * MS})
    line = space.plane("/host:CPU").line(ESCAPE)
    line.event(b"\xff\xfe\xc3(:dot", 0, 3 * MS, tf_function_call=Inline(SCRIPT), tracing_count=3)
    line.event(f"{SCRIPT}{ESCAPE}:add", 4 * MS, 3 * MS, name=FORMULA)
    line.event("\u202egnp.exe\x00\r\n:sub", 8 * MS, 3 * MS)
    space.errors.append(f"profiler says {SCRIPT}{ESCAPE}\nand more")
    return space.write(folder / "vm.xplane.pb")


def test_hostile_names_are_harmless(tmp_path: Path) -> None:
    path, page, tables = hostile(tmp_path), tmp_path / "r.html", tmp_path / "csv"
    done = outpace("report", path, "--width", 100, "--html", page, "--csv", tables)
    assert done.returncode == 0, done.stderr[-2000:]
    for text in (done.stdout, done.stderr):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", text), "control characters reach the terminal"
    assert widest(done.stdout) <= 100
    assert len(done.stdout) < 100_000, "a name of a megabyte is shortened"
    html = page.read_text(encoding="utf-8")
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert "\x1b" not in html
    values = [value for file in tables.iterdir() for row in cells(file) for value in row]
    assert f"'{FORMULA}" in values
    assert not [value for value in values if value.startswith(("=", "@", "\t"))]


def test_hostile_names_are_whole_in_json(tmp_path: Path) -> None:
    done = outpace("report", hostile(tmp_path), "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "\x1b" not in done.stdout
    document = strict(done.stdout)
    tables = document["tools"]["overview"]["tables"].values()
    names = {cell for table in tables for row in table["rows"] for cell in row if isinstance(cell, str)}
    assert {FORMULA, "a" * 1_000_000} <= names
    assert any(SCRIPT in name for name in names)


def test_a_name_with_a_line_break_stays_on_its_line(tmp_path: Path) -> None:
    space = SpaceBuilder()
    space.plane("/host:CPU").line("main").event("first\nforged: 100% fast:dot", 0, MS)
    done = outpace("report", space.write(tmp_path))
    assert not any(line.strip().startswith("forged") for line in done.stdout.splitlines())


@pytest.mark.parametrize(("arguments", "code"), [(("nowhere",), 4), ((profile_path("custom_loop"), "--html", "r.html"), 0)])
def test_what_nobody_takes_of_standard_error_changes_no_exit_code(
    arguments: tuple[object, ...], code: int, tmp_path: Path
) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "outpace", "report", *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=full, cwd=tmp_path, timeout=120)
    assert done.returncode == code


def test_a_full_disk_is_said_and_not_taken_for_success() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "outpace", "report", str(profile_path("custom_loop"))],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=120,
        )  # fmt: skip
    assert done.returncode == 6
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr


def test_a_reader_that_leaves_early_is_no_failure() -> None:
    command = f"{sys.executable} -m outpace report {profile_path('custom_loop')} --json | head -c 100"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_nothing_is_lost_where_a_process_is_stopped_while_it_writes(unbuffered: str) -> None:
    """A write to a full pipe ends in part then."""
    command = [sys.executable, "-m", "outpace.cli", "report", str(profile_path("keras_fit")), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": unbuffered}) as process:
        assert process.stdout is not None
        held = array.array("i", [0])
        while held[0] < 1 << 16:  # bytes: what a pipe holds
            fcntl.ioctl(process.stdout, termios.FIONREAD, held)
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.1)
        document = strict(process.stdout.read().decode())
    assert len(document["tools"]) > 10


def test_some_steps_and_some_hosts_are_reported_alone() -> None:
    done = outpace("report", profile_path("keras_fit"), "--steps", "12:15")
    part = "Only a part of the run is in this report: steps 12 to 15."
    assert "10.8 ms" in done.stdout and part in done.stdout.replace("\n  ", " ")
    done = outpace("report", profile_path("multi_host"), "--host", "localhost_7011")
    assert done.stdout.lstrip().startswith("! Only a part") and "Input-bound: 6" in done.stdout
    for wrong, said in (
        ("--steps=soon", "no range of steps"),
        ("--host=nowhere", "There are: localhost_7010"),
        ("--device=x", "Nothing of the run"),
    ):
        done = outpace("report", profile_path("multi_host"), wrong)
        assert done.returncode == 2 and said in done.stderr


def test_older_runs_are_told(tmp_path: Path) -> None:
    for name in ("2026_01_01_00_00_00", "2026_01_02_00_00_00"):
        shutil.copytree(profile_path("custom_loop"), tmp_path / "plugins" / "profile" / name)
    done = outpace("report", tmp_path)
    assert "also holds 1 older run; this is the newest. 'outpace ui" in done.stderr
    assert "older" not in outpace("report", profile_path("custom_loop")).stderr


def test_a_signal_that_is_lost_in_a_destructor_ends_the_process_still() -> None:
    script = """if True:
        import os, signal, time
        from outpace.cli import process

        class Told:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGTERM)

        process._AGAIN = 0.2
        process.raise_on_signals()
        try:
            Told()
            print("lost", flush=True)
            time.sleep(100)
        except process.TerminationSignal as ended:
            ended.end()
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=90)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "lost\n"), done.stderr


def test_a_folder_with_one_readable_profile_reports_it_and_names_the_others(tmp_path: Path) -> None:
    shutil.copytree(profile_path("custom_loop"), tmp_path / "run")
    shutil.copy(BROKEN / "garbage.xplane.pb", tmp_path / "run" / "zz.xplane.pb")
    done = outpace("report", tmp_path / "run", "--width", 100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("  ! zz is left out:")
    assert "15 steps" in done.stdout


def test_iterators_that_call_each_other_in_a_circle_end() -> None:
    """A real profile with some bytes changed."""
    done = outpace("report", BROKEN / "circle.xplane.pb.gz", "--json", timeout=30)
    assert done.returncode == 0, done.stderr
    assert strict(done.stdout)["tools"]["tf_data"]["tables"]["stages"]["rows"]


def test_a_device_without_a_stream_fails_no_tool(tmp_path: Path) -> None:
    space = SpaceBuilder()
    space.plane("/host:CPU").line("python").event("train", 0, MS, step_num=0, _r=1)
    space.plane("/device:GPU:0")
    done = outpace("report", space.write(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    assert not any(tool["failure"] for tool in strict(done.stdout)["tools"].values())


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command line of a shell, with `outpace` in it."""
    command = ["bash", "-c", "set -o pipefail; " + line.replace("outpace ", f"{sys.executable} -m outpace.cli ")]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})


def test_a_reader_that_goes_away_loses_no_file(tmp_path: Path) -> None:
    whole = outpace("report", profile_path("keras_fit"), "--html", tmp_path / "a.html", "--csv", tmp_path / "a")
    assert whole.returncode == 0
    for kind in ("", "--json"):
        done = shell(
            f"outpace report {profile_path('keras_fit')} {kind} --html {tmp_path}/b.html --csv {tmp_path}/b | head -c 1"
        )
        assert (done.returncode, len(done.stdout)) == (0, 1), done.stderr
        assert (tmp_path / "b.html").read_bytes() == (tmp_path / "a.html").read_bytes()
        assert sorted(p.name for p in (tmp_path / "b").iterdir()) == sorted(p.name for p in (tmp_path / "a").iterdir())
        shutil.rmtree(tmp_path / "b")
        (tmp_path / "b.html").unlink()


def test_a_closed_output_is_a_sentence(tmp_path: Path) -> None:
    done = shell(f"outpace report {profile_path('keras_fit')} --html {tmp_path}/a.html >&-")
    assert done.returncode == 6
    assert "standard output is closed" in one_sentence(done)
    assert (tmp_path / "a.html").is_file(), "the file that was asked for is there"


def test_an_output_without_unicode_gets_what_it_has() -> None:
    text = shell(f"outpace report {profile_path('keras_fit')}", PYTHONIOENCODING="ascii")
    assert (text.returncode, text.stderr) == (0, "")
    assert "Confidence" in text.stdout and "####" in text.stdout
    data = shell(f"outpace report {profile_path('unicode_names')} --json", PYTHONIOENCODING="ascii")
    assert (data.returncode, data.stderr) == (0, "")
    assert strict(data.stdout) == strict(outpace("report", profile_path("unicode_names"), "--json").stdout)


@pytest.mark.parametrize("command", ["report", "explain", "trace", "lint", "tune"])
def test_a_hostile_path_is_spelled_out(command: str, tmp_path: Path) -> None:
    done = outpace(command, f"{tmp_path}/{ESCAPE}")
    assert done.returncode != 0
    assert "\\x1b" in done.stderr
    assert "\x1b" not in done.stderr + done.stdout


def test_messages_of_the_profiler_are_text(tmp_path: Path) -> None:
    space = SpaceBuilder()
    space.errors.append(ESCAPE)
    space.plane("/host:CPU").line("python").event("train", 0, MS)
    done = outpace("trace", space.write(tmp_path), "--out", tmp_path / "a.pftrace")
    assert "\\x1b]0;owned" in done.stderr
    assert "\x1b" not in done.stderr
