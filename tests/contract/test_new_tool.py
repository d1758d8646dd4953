"""A new tool is one folder: the command line, JSON, CSV, HTML and the facade show it without
another change.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import outpace
import outpace.tools
from outpace.cli import app
from outpace.testing import training_run

TOOL = """
from outpace.tools.tool import Tool

TOOL = Tool(__name__, title="Throw-away", question="How many events are there?", order=990)
"""
PAGE = """
from outpace.model import Field, TableView, Table, Unit
from outpace.tools.throwaway import TOOL

FIELDS = (Field("host", Unit.TEXT, "host that was looked at"), Field("events", Unit.COUNT, "events that it recorded"))


def analyse(run):
    rows = [(t.host, len(t.trace)) for t in run.hosts]
    table = Table.from_rows("heads", "Heads", FIELDS, rows)
    return TOOL.page(f"{run.events} events were counted.", (TableView(table),))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A second folder of tools with one tool in it."""
    (tmp_path / "more" / "throwaway").mkdir(parents=True)
    (tmp_path / "more" / "throwaway" / "__init__.py").write_text(TOOL, encoding="utf-8")
    (tmp_path / "more" / "throwaway" / "page.py").write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr(outpace.tools, "__path__", [*outpace.tools.__path__, str(tmp_path / "more")])
    outpace.tools.discover_tools.cache_clear()
    yield tmp_path
    outpace.tools.discover_tools.cache_clear()
    for name in [name for name in sys.modules if name.startswith("outpace.tools.throwaway")]:
        del sys.modules[name]
    vars(outpace.tools).pop("throwaway", None)


@pytest.fixture
def profile(tmp_path: Path) -> str:
    return str(training_run(steps=3).write(tmp_path))


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_line_lists_it(folder: Path) -> None:
    assert "throwaway" in run("tools")
    assert {"id": "throwaway", "title": "Throw-away", "question": "How many events are there?"} in json.loads(
        run("tools", "--json")
    )


def test_it_is_reported_alone_and_with_the_others(folder: Path, profile: str) -> None:
    alone = json.loads(run("report", profile, "--tool", "throwaway", "--json"))
    assert list(alone["tools"]) == ["throwaway"]
    ((host, events),) = alone["tools"]["throwaway"]["tables"]["heads"]["rows"]
    assert (host, events) == ("vm", outpace.open(profile).run.events)
    assert list(json.loads(run("report", profile, "--json"))["tools"])[-1] == "throwaway", "last, as its order says"
    assert "events were counted" in run("report", profile, "--tool", "throwaway")


def test_html_csv_and_notebooks_have_it(folder: Path, profile: str) -> None:
    run("report", profile, "--html", str(folder / "report.html"), "--csv", str(folder / "tables"))
    assert "How many events are there?" in (folder / "report.html").read_text(encoding="utf-8")
    assert (folder / "tables" / "throwaway.heads.csv").read_text(encoding="utf-8").startswith("host,events")
    opened = outpace.open(profile)
    assert "throwaway" in dir(opened)
    assert opened.throwaway().headline.endswith("events were counted.")
    assert "events were counted" in opened.throwaway()._repr_html_()


def test_without_its_folder_it_is_gone(profile: str) -> None:
    assert "throwaway" not in run("tools")
    result = CliRunner().invoke(app, ["report", profile, "--tool", "throwaway"])
    assert "There is no tool 'throwaway'" in str(result.exception)
