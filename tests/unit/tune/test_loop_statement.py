"""The loop in the user's source, found in the stack."""

from __future__ import annotations

import linecache
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

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


STEPS = "for step in range(2):\n    tick()\n"
INSIDE = "".join(f"    {line}\n" for line in STEPS.splitlines())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"for epoch in range(1):\n{INSIDE}", 1),
        (f"def epoch():\n{INSIDE}\nfor number in range(1):\n    epoch()\n", 5),
        (f"def batches():\n{INSIDE}        yield step\n\nfor batch in batches():\n    pass\n", 6),
    ],
    ids=["the outermost", "around the call of a function", "not a generator's"],
)
def test_the_trainings_loop_is_found_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    run(tmp_path, text)
    assert found[0] is not None and found[0].line == line and found[0].file.endswith("train.py")


def test_without_a_loop_there_is_none(tmp_path: Path) -> None:
    run(tmp_path, "tick()\n")
    assert found == [None]
