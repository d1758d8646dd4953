"""The memory that a process may use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from outpace import _memory
from outpace._memory import free_memory, memory_limit


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_what_is_free_is_less_than_there_is() -> None:
    with open("/proc/meminfo", encoding="ascii") as file:
        total = int(file.readline().split()[1]) * 1024
    granted = memory_limit()
    assert granted is not None and 0 < free_memory() < total and free_memory() < granted <= total


def test_a_control_group_may_have_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [(str(tmp_path / f"{name}.max"), str(tmp_path / f"{name}.current")) for name in ("one", "two", "none")]
    monkeypatch.setattr(_memory, "_GROUPS", tuple(files))
    for (limit, usage), most, used in ((files[0], "max", "5"), (files[1], "1000", "300")):
        Path(limit).write_text(f"{most}\n", encoding="ascii")
        Path(usage).write_text(f"{used}\n", encoding="ascii")
    assert memory_limit() == 1000
    if sys.platform == "linux":
        assert free_memory() == 700
