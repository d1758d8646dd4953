"""The files of `outpace tune`: where they are is said, and one that cannot be written keeps no other from being written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outpace.model.report import Report
from outpace.tune import handing, written

REPORT = Report("train.py", "Nothing to change.", (), (), ())


def test_a_report_that_cannot_be_written_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    made = written._html(REPORT, tmp_path / "private", str(tmp_path / "file" / "tune.html"))
    handing.hand_over(str(tmp_path), made, "the last line")
    assert not handing.delivered(str(tmp_path))
    said = capfd.readouterr().err
    assert "The report cannot be written to" in said and said.rstrip().endswith("the last line")


def test_a_report_is_written_with_its_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = written._html(REPORT, tmp_path / "private", str(tmp_path / "new" / "tune.html"))
    handing.hand_over(str(tmp_path), made, "")
    assert handing.delivered(str(tmp_path))
    assert f"the HTML report is {tmp_path}/new/tune.html" in capfd.readouterr().err
    assert "Nothing to change." in (tmp_path / "new" / "tune.html").read_text(encoding="utf-8")


def test_a_patch_is_not_written_over_what_stands_there_by_now(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("private", "there"):
        (tmp_path / name).write_text(name)
    patch = handing.Handed(str(tmp_path / "private"), str(tmp_path / "there"), "The patch", "the patch is there", new=True)
    handing.hand_over(str(tmp_path), [patch], "")
    assert not handing.delivered(str(tmp_path))
    assert "exists and is not overwritten" in capfd.readouterr().err and (tmp_path / "there").read_text() == "there"


def test_a_process_that_left_nothing_is_no_error(tmp_path: Path) -> None:
    assert handing.delivered(str(tmp_path))


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
