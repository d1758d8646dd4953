"""TensorBoard's tab, as TensorBoard asks it."""

from __future__ import annotations

import shutil
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
    assert tab.is_active()
    shutil.rmtree(tmp_path / "train")
    assert tab.is_active()


def test_a_store_that_answers_slowly_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Of a folder with very many folders below it one look is under way, however often TensorBoard asks."""
    import threading

    from outpace.ui.tensorboard import Tab

    for at in range(200):
        (tmp_path / str(at)).mkdir()
        for below in range(100):
            (tmp_path / str(at) / str(below)).mkdir()
    tab, before, began = Tab((str(tmp_path),)), threading.active_count(), time.monotonic()
    found = [tab.is_active() for _ in range(2)]
    assert found == [False, False]
    assert threading.active_count() <= before + 1
    assert time.monotonic() - began < 60
