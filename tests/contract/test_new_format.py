"""A new format of profiles is one folder: the command line finds its files, and every tool reports
on them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import outpace
import outpace.trace.formats as formats
from outpace.cli import app
from outpace.tools import discover_tools
from outpace.trace import StatColumn, dialect

INIT = """
from outpace.trace.formats import ProfileFormat

FORMAT = ProfileFormat(__name__, endings=(".events.csv",))
"""
READER = '''
"""Events as lines of `thread,name,start in us,duration in us,step or nothing`."""

import csv

from outpace.trace import Event, build_trace, dialect

US = 10**6  # ps


def open_trace(path, host, limits):
    events = []
    with open(path, newline="", encoding="utf-8") as file:
        for thread, name, start, us, step in csv.reader(file):
            mark = {dialect.STEP_NUM: int(step), dialect.IS_ROOT: 1} if step else {}
            events.append(Event(dialect.HOST_PLANE, thread, name, int(start) * US, int(us) * US, mark))
    return build_trace(events, host=host, source=str(path), size=path.stat().st_size)
'''
STEPS = 12


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A second folder of formats with one in it."""
    (tmp_path / "more" / "csvevents").mkdir(parents=True)
    (tmp_path / "more" / "csvevents" / "__init__.py").write_text(INIT, encoding="utf-8")
    (tmp_path / "more" / "csvevents" / "reader.py").write_text(READER, encoding="utf-8")
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path / "more")])
    formats.discover.cache_clear()
    yield tmp_path
    formats.discover.cache_clear()
    for name in [name for name in sys.modules if name.startswith("outpace.trace.formats.csvevents")]:
        del sys.modules[name]
    vars(formats).pop("csvevents", None)


@pytest.fixture
def profile(folder: Path) -> Path:
    """Steps of 10 ms, of which an op takes six."""
    lines = []
    for step in range(STEPS):
        lines.append(f"python,train,{step * 10_000},10000,{step}")
        lines.append(f"python,layer/dense/MatMul:MatMul,{step * 10_000 + 1_000},6000,")
    file = folder / "run" / "worker.events.csv"
    file.parent.mkdir()
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def test_every_tool_reports_on_it(profile: Path) -> None:
    for given in (profile, profile.parent):
        with outpace.open(given) as opened:
            assert [t.host for t in opened.run.hosts] == ["worker"]
            report = opened.report()
        assert [page.id for page in report.pages] == [tool.id for tool in discover_tools()]
        assert not report.failed_pages()
        steps = report.page("overview").table("steps")
        assert steps["duration_ps"].tolist() == [10 * 10**9] * STEPS
        ops = {row["name"]: row for row in report.page("op_stats").table("ops").records()}
        assert ops["layer/dense/MatMul"]["self_ps"] == STEPS * 6 * 10**9


def test_the_command_line_shows_it_and_its_timeline(profile: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    done = runner.invoke(app, ["report", str(profile.parent), "--json"])
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["tools"]["overview"]["tables"]["steps"]["rows"]) == STEPS
    done = runner.invoke(app, ["trace", str(profile), "--arguments", "all", "--out", str(tmp_path / "trace.json")])
    assert done.exit_code == 0, done.output
    events = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    assert sum(event.get("name") == "layer/dense/MatMul:MatMul" for event in events) == STEPS


def test_it_is_redacted_as_any_other(profile: Path) -> None:
    profile.write_text("/home/ann/train.py,/home/ann/work,0,10,3\n", encoding="utf-8")
    with outpace.open(profile, redact=True) as opened:
        trace = opened.run.hosts[0].trace
        texts = (*trace.names, *trace.lines.names, *trace.hostnames, trace.host, trace.source)
        assert not [text for text in texts if "ann" in text or "worker" in text]
        assert trace.stat(dialect.STEP_NUM).ints.tolist() == [3]


def test_values_of_a_column_are_those_that_were_given() -> None:
    given: list[int | float | str | bytes] = [3, -4, 2.5, "text", b"bytes", "text", 2**63 + 1]
    column = StatColumn.from_values("mixed", range(len(given)), given)
    assert [column.value(at) for at in range(len(given))] == [3, -4, 2.5, "text", b"bytes", "text", 2**63 + 1 - 2**64]
    assert column.encode_texts(np.array([3, 5]))[0].tolist() == [0, 0]
    assert column.slice(2, 4).texts() == ["2.5", "text"]


def test_columns_of_a_trace_cannot_be_written_to(profile: Path) -> None:
    with outpace.open(profile) as opened:
        trace = opened.run.hosts[0].trace
        for column in (trace.name, trace.start, trace.duration, trace.parent):
            with pytest.raises(TypeError):
                column[0] = 1  # type: ignore[index]  # what is tested: there is no such method
        with pytest.raises(ValueError, match="read-only"):
            trace.lines.first_event[0] = 1
