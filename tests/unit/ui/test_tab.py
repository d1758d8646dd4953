"""TensorBoard's tab, as TensorBoard asks it."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest

from tests.support import profile_path

pytest.importorskip("tensorboard")


def test_the_tab_is_there_as_soon_as_a_run_is_and_asks_no_more_then(tmp_path: Path) -> None:
    from outpace.ui.tensorboard import Tab

    tab = Tab((str(tmp_path / "missing"), str(tmp_path)))
    assert not tab.is_active()
    (tmp_path / "train").mkdir()
    assert not tab.is_active()
    shutil.copytree(profile_path("idle_empty"), tmp_path / "train" / "plugins" / "profile" / "run")
    late = time.monotonic() + 120
    while not tab.is_active() and time.monotonic() < late:  # a look that was under way may have missed it
        time.sleep(0.1)
    shutil.rmtree(tmp_path / "train")
    assert tab.is_active()


def test_a_store_that_answers_slowly_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One look is under way, however often TensorBoard asks, and it gets an answer before that is
    over.
    """
    from outpace.ui import tensorboard

    answers, asked = threading.Event(), []

    def slow(root: str) -> bool:
        asked.append(root)
        return answers.wait(300)

    monkeypatch.setattr(tensorboard, "has_run", slow)
    tab = tensorboard.Tab((str(tmp_path),))
    assert [tab.is_active() for _ in range(2)] == [False, False] and asked == [str(tmp_path)]
    answers.set()
    late = time.monotonic() + 120
    while not tab.is_active() and time.monotonic() < late:
        time.sleep(0.1)
    assert tab.is_active() and asked == [str(tmp_path)]
