"""The files of `outpace tune`: where they are is said, and one that cannot be written keeps no other from being written."""

from __future__ import annotations

import functools
from pathlib import Path

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
