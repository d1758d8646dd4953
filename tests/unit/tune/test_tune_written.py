"""The files of `outpace tune`: where they are is said, and one that cannot be written keeps no other from being written."""

from __future__ import annotations

import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outpace.model.report import Report
from outpace.tune import written

REPORT = Report("train.py", "Nothing to change.", (), (), ())


def test_a_report_that_cannot_be_written_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert not written._told(functools.partial(written._html, REPORT), tmp_path / "file" / "tune.html")
    assert "The report cannot be written to" in capfd.readouterr().err


def test_a_report_is_written_with_its_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert written._told(functools.partial(written._html, REPORT), tmp_path / "new" / "tune.html")
    assert f"the HTML report is {tmp_path}/new/tune.html" in capfd.readouterr().err
    assert "Nothing to change." in (tmp_path / "new" / "tune.html").read_text(encoding="utf-8")


def test_the_last_line_says_where_the_time_went(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([114.0, 114.0, 294.5, 323.0])  # at the fit, before and after the tuning, at the end
    monkeypatch.setattr("outpace.tune.written.time.monotonic", lambda: next(now))
    clock = written.Clock({"began": 100.0, "budget": 180.0})
    with clock.tuning():
        pass
    tuned: Any = SimpleNamespace(climbed=SimpleNamespace(added=0.0))
    said = "tuning took 180 s of 180 s; the whole command took 223 s (14 s before, 28 s afterwards)"
    assert clock.sentence(tuned) == said


def test_the_last_line_says_what_the_last_race_got_beyond_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([100.2, 100.2, 170.0, 170.4])
    monkeypatch.setattr("outpace.tune.written.time.monotonic", lambda: next(now))
    clock = written.Clock({"began": 100.0, "budget": 60.0})
    with clock.tuning():
        pass
    tuned: Any = SimpleNamespace(climbed=SimpleNamespace(added=9.0))
    assert clock.sentence(tuned) == "tuning took 70 s of 60 s, extended by 9 s for its last race; the whole command took 70 s"
