"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outpace.model.files import whole


def test_an_interruption_in_the_moment_in_which_the_file_is_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = os.open

    def told(path: str, flags: int, mode: int) -> int:
        os.close(made(path, flags, mode))
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "open", told)
    with pytest.raises(KeyboardInterrupt), whole(tmp_path / "file", "The file"):
        pass
    assert list(tmp_path.iterdir()) == []
