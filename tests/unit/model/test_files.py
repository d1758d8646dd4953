"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from outpace.model.files import write_atomically


def test_an_interruption_in_the_moment_in_which_the_file_is_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = os.open

    def told(path: str, flags: int, mode: int) -> int:
        os.close(made(path, flags, mode))
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "open", told)
    with pytest.raises(KeyboardInterrupt), write_atomically(tmp_path / "file", "The file"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_a_kill_left_of_a_file_goes_with_its_next_write(tmp_path: Path) -> None:
    def leave(target: str, seconds: int) -> Path:
        with write_atomically(tmp_path / target, "The file"):
            (left,) = set(tmp_path.glob(".writing-*")) - kept
            copy = left.with_name(left.name.replace(left.name[9:25], os.urandom(8).hex()))
            copy.touch()
        os.utime(copy, (time.time() - seconds,) * 2)
        return copy

    kept = set[Path]()
    kept |= {leave("a", 60)}
    kept |= {leave("b", 7200)}
    kept |= {leave("b-a", 7200)}
    (tmp_path / ".writing-mine.tmp").touch()
    kept |= {tmp_path / ".writing-mine.tmp"}
    leave("a", 7200)
    with write_atomically(tmp_path / "a", "The file"):
        pass
    assert set(tmp_path.glob(".writing-*")) == kept


def test_a_name_may_be_as_long_as_the_file_system_lets_it(tmp_path: Path) -> None:
    for name in ("a" * 255, "\U0001f680" * 63):
        with write_atomically(tmp_path / name, "The file") as file:
            file.write(b"x")
        assert (tmp_path / name).read_bytes() == b"x"
