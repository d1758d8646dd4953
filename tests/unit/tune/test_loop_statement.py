"""The loop in the user's source, found in the stack."""

from __future__ import annotations

import linecache
import runpy
import sys
from pathlib import Path
from typing import Any

from outpace.tune.loop.statement import Statement

found: list[Statement | None] = []


def tick() -> None:
    """Stands for what a step calls: the loop is looked for from inside of it."""
    found.append(Statement.around(sys._getframe(1)))


def run(tmp_path: Path, text: str) -> dict[str, Any]:
    found.clear()
    linecache.clearcache()
    path = tmp_path / "train.py"
    path.write_text(text)
    return runpy.run_path(str(path), {"tick": tick})


def test_the_outermost_loop_is_found_with_its_line(tmp_path: Path) -> None:
    run(tmp_path, "for epoch in range(1):\n    for step in range(2):\n        tick()\n")
    assert found[0] is not None and found[0].line == 1 and found[0].file.endswith("train.py")


def test_a_loop_around_the_call_of_a_function(tmp_path: Path) -> None:
    run(tmp_path, "def epoch():\n    for step in range(2):\n        tick()\n\nfor number in range(1):\n    epoch()\n")
    assert found[0] is not None and found[0].line == 5


def test_loops_of_generators_are_not_the_trainings(tmp_path: Path) -> None:
    text = "def batches():\n    for at in range(3):\n        tick()\n        yield at\n\nfor batch in batches():\n    pass\n"
    run(tmp_path, text)
    assert found[0] is not None and found[0].line == 6


def test_without_a_loop_there_is_none(tmp_path: Path) -> None:
    run(tmp_path, "tick()\n")
    assert found == [None]
