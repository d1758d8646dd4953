"""Tools of other packages, tools that raise, and profiles that are closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import outpace
from outpace import api
from outpace.model import UsageError
from outpace.report import html, terminal
from tests.support import profile_path

pytestmark = pytest.mark.slow

PROFILE = str(profile_path("keras_fit"))
INIT = """
from outpace.tools import Tool

TOOL = Tool(__name__, title="Counting", question="How many events are there?", order=990)
"""
PAGE = """
from outpace.model import Field, TableView, Table, Unit
from counting import TOOL

FIELDS = (Field("host", Unit.TEXT, "host that was looked at"), Field("events", Unit.COUNT, "events that it recorded"))


def analyse(run):
    table = Table.from_rows("heads", "Heads", FIELDS, [(t.host, len(t.trace)) for t in run.hosts])
    return TOOL.page(f"{run.events} events were counted.", (TableView(table),))
"""
RAISING = "def analyse(run):\n    raise ValueError('no\\x1b[31m luck')\n"


def installed(folder: Path, entry: str, **files: str) -> dict[str, str]:
    """A package `counting` with one entry point, as pip leaves it; the environment in which it is
    found.
    """
    (folder / "counting").mkdir()
    for name, text in files.items():
        (folder / "counting" / f"{name}.py").write_text(text, encoding="utf-8")
    metadata = folder / "counting-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[outpace.tools]\ncounting = {entry}\n", encoding="utf-8")
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), *filter(None, [os.environ.get("PYTHONPATH")])))}


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "outpace.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, encoding="utf-8", env=environment)


def test_a_tool_of_another_package_is_reported(tmp_path: Path) -> None:
    environment = installed(tmp_path, "counting:TOOL", __init__=INIT, page=PAGE)
    assert "How many events are there?" in run(environment, "tools").stdout
    done = run(environment, "report", PROFILE, "--json", "--html", str(tmp_path / "r.html"), "--csv", str(tmp_path / "csv"))
    assert done.returncode == 0, done.stderr
    tools = json.loads(done.stdout)["tools"]
    assert list(tools)[-1] == "counting"
    assert tools["counting"]["tables"]["heads"]["rows"][0][1] == outpace.open(PROFILE).run.events
    assert "How many events are there?" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert (tmp_path / "csv" / "counting.heads.csv").is_file()


@pytest.mark.parametrize(
    ("entry", "files", "error"),
    [
        ("counting:TOOL", {"__init__": INIT, "page": RAISING}, "ValueError: no\\x1b[31m luck"),
        (
            "counting:TOOL",
            {"__init__": "import nothing_of_the_kind"},
            "ModuleNotFoundError: No module named 'nothing_of_the_kind'",
        ),
        ("counting:TOOL", {"__init__": "TOOL = 3"}, "ModuleNotFoundError: No module named 'counting.page'"),
    ],
)
def test_a_tool_that_fails_takes_nothing_with_it(tmp_path: Path, entry: str, files: dict[str, str], error: str) -> None:
    environment = installed(tmp_path, entry, **files)
    without = run(dict(os.environ), "report", PROFILE, "--json")
    done = run(environment, "report", PROFILE, "--json", "--html", str(tmp_path / "r.html"))
    assert done.returncode == 9
    assert done.stderr.splitlines()[-1].startswith("outpace: 1 of 17 tools failed (counting: ")
    assert "Traceback" not in done.stderr
    document = json.loads(done.stdout)
    failure = document["tools"].pop("counting")["failure"]
    assert failure["error"] == error
    assert failure["trace"].startswith("Traceback (most recent call last)")
    assert document == json.loads(without.stdout), "the rest of the report is as it was"
    assert "This tool failed" in (tmp_path / "r.html").read_text(encoding="utf-8")
    text = run(environment, "report", PROFILE, "--width", "100", "--details")
    assert text.returncode == 9
    assert "This tool failed" in text.stdout and "Confidence" in text.stdout
    assert "\x1b" not in text.stdout + text.stderr


def test_a_failing_tool_is_run_once_and_raises_where_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    from outpace.tools.op_stats import page

    calls = []

    def fail(run: object) -> None:
        calls.append(run)
        raise ZeroDivisionError("by hand")

    monkeypatch.setattr(page, "analyse", fail)
    with outpace.open(PROFILE) as profile:
        report = profile.report()
        assert [p.id for p in report.failed_pages()] == ["op_stats"]
        assert len(calls) == 1
        assert "ZeroDivisionError: by hand" in terminal.render(report, width=80, details=True)
        assert "ZeroDivisionError: by hand" in html.render(report)
        with pytest.raises(ZeroDivisionError):
            profile.op_stats()


def test_a_closed_profile_has_let_go_of_its_events() -> None:
    with api.open(PROFILE) as profile:
        page, trace = profile.overview(), profile.run.hosts[0].trace
        released: list[bool] = []
        import weakref

        weakref.finalize(trace, released.append, True)
        del trace
    assert released == [True], "nothing else holds the events"
    assert page.headline and page.tables(), "pages stay"
    assert repr(profile).endswith(", closed>")
    for use in (profile.report, profile.overview, lambda: profile.run):
        with pytest.raises(UsageError, match=r"The profile is closed. Open it again"):
            use()
    profile.close()
