"""What a real `outpace.Monitor` writes, in the workbench, while it watches and afterwards."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import outpace
from outpace.model.input_files import FileKind
from outpace.ui import trainings
from outpace.ui.http import Request
from outpace.ui.run_summaries import SummaryCache
from outpace.ui.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site([str(tmp_path)], SummaryCache(tmp_path / "cache"))
    yield made
    made.close()


def ask(site: Site, path: str) -> Any:
    answer = site.answer(Request(path))
    assert answer.status == 200 and isinstance(answer.body, bytes), answer
    return json.loads(answer.body)


def test_a_training_is_shown_while_it_runs_and_when_it_has_ended(site: Site, tmp_path: Path) -> None:
    monitor = outpace.Monitor(str(tmp_path / "exp" / "a"), every_steps=5)
    for _ in range(40):
        time.sleep(0.002)
        monitor.step_done()
    (line,) = ask(site, "watched")
    assert (line["state"], line["place"]) == ("running", "exp/a") and line["step"] > 20 and "per step" in line["text"]
    curves = ask(site, f"watched/{line['id']}/curves")
    assert len(curves["step"]) >= 3 and curves["step"] == sorted(curves["step"])
    assert all(1.9e9 < value < 1e11 for value in curves["p50"]) and all(value > 1e6 for value in curves["memory"])
    monitor.close()
    (line,) = ask(site, "watched")
    assert line["state"] == "ended"
    page = site.answer(Request(f"watched/{line['id']}/"))
    assert page.status == 200 and line["name"].encode() in bytes(page.body)  # type: ignore[arg-type]  # a page


def test_many_intervals_are_taken_together_and_captures_lead_to_their_run(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "outpace-monitor"
    folder.mkdir()
    lines = [
        {"event": "interval", "step": 10 * at, "step_ms": {"p50": 5.0, "p95": 9.0}, "input_wait_ms": 1.0} for at in range(5000)
    ]
    lines.insert(3, {"event": "slowdown", "step": 30, "since": 20, "before_ms": 5.0, "now_ms": 12.0})
    lines.insert(4, {"event": "capture", "step": 30, "steps": 10, "run": str(tmp_path / "plugins" / "profile" / "r")})
    (folder / "host-1.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"event": "inter')
    (line,) = ask(site, "watched")
    curves = ask(site, f"watched/{line['id']}/curves")
    assert len(curves["step"]) <= 600 and curves["step"][-1] == 49990
    assert set(curves["p50"]) == {5e9} and set(curves["memory"]) == {None}
    slowdown, capture = curves["events"]
    assert "12.0 ms instead of 5.00 ms since step 20" in slowdown["text"] and len(capture["run"]) == 12


@pytest.mark.parametrize(
    "text",
    [
        "", "null\n[]\n7\n", '{"event": 3}\n', '{"event": "interval"}\n', '{"event": "interval", "step": "x", "step_ms": 7, "memory": []}\n',
        '{"event": "interval", "step": NaN, "step_ms": {"p50": Infinity}}\n', '{"event": "slowdown"}\n{"event": "capture", "run": null}\n',
        '{"event": "interval", "step": {"toLocaleString": 1}, "step_ms": {"p50": 1e305}}\n', '{"event": "capture", "run": "\\ud800"}\n',
        '{"event": "interval", "step": ' + "9" * 401 + "}\n", "[" * 100_000, '{"event": "note", "text": {"a": 1}}\n',
    ],
)  # fmt: skip
def test_a_damaged_file_is_shown_as_far_as_it_goes(site: Site, tmp_path: Path, text: str) -> None:
    (tmp_path / "outpace-monitor").mkdir()
    (tmp_path / "outpace-monitor" / "host-1.jsonl").write_text(text)
    (line,) = ask(site, "watched")
    assert line["step"] is None or isinstance(line["step"], int)
    assert ask(site, f"watched/{line['id']}/curves")["name"] == "host-1"


def test_nothing_else_is_read(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outpace-monitor").mkdir()
    (tmp_path / "outpace-monitor" / "events.txt").write_text("x")
    monkeypatch.setattr(trainings, "MONITOR_SERIES", FileKind("file of a monitor", 10))
    (tmp_path / "outpace-monitor" / "host-1.jsonl").write_text("x" * 10)
    assert [one["name"] for one in ask(site, "watched")] == ["host-1"]
    (tmp_path / "outpace-monitor" / "host-1.jsonl").write_text("x" * 11)
    assert ask(site, "watched") == []
    assert site.answer(Request("watched/000000000000/")).status == 404
