"""The loop in the user's source: found in the stack, and run again."""

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


def test_a_loop_in_a_module_runs_again_with_what_it_counts(tmp_path: Path) -> None:
    text = "step = 0\nwhile step < 3:\n    step += 1\n    made.append(step)\n    tick()\n"
    assert again(tmp_path, text, times=2) == [1, 2, 3, 2, 3]  # twice from the first step on; its own end is reached then


def test_a_loop_in_a_function_with_return_and_closure(tmp_path: Path) -> None:
    text = """
def main(last):
    weights = [0]

    def step(x):
        weights[0] += 1
        tick()

    for x in range(10):
        made.append(x)
        step(x)
        if x == last:
            return weights[0]

assert main(2) == 9
"""
    assert again(tmp_path, text, times=2) == [0, 0, 1, 2, 0, 1, 2, 1, 2]


def test_global_names_stay_global(tmp_path: Path) -> None:
    text = """
count = 0

def main():
    global count
    for x in range(2):
        count += 1
        tick()

main()
made.append(count)
"""
    assert again(tmp_path, text, times=1) == [4]


def again(tmp_path: Path, text: str, times: int) -> list[int]:
    """What a program appends to `made` whose loop is run again, so often, from inside of its first step."""
    made: list[int] = []
    left = [times]

    def once() -> None:
        if left[0] == times:
            left[0] -= 1
            statement = Statement.around(sys._getframe(1))
            assert statement is not None
            statement.run()
            for _ in range(times - 1):
                statement.run()

    path = tmp_path / "train.py"
    path.write_text(text)
    runpy.run_path(str(path), {"tick": once, "made": made})
    return made


def test_what_a_second_run_would_not_go_over_again(tmp_path: Path) -> None:
    def overwritten(head: str, loop: str) -> str:
        run(tmp_path, f"{head}\n{loop}\n    tick()\n")
        assert found[0] is not None
        return found[0].overwritten

    assert overwritten("data = [[1], [2]]", "for step, data in zip(range(2), iter(data)):") == "data"
    assert overwritten("data = [[1], [2]]", "for batch in data:\n    data = [3]") == "data"
    assert overwritten("data = [[1], [2]]", "for batch in [x for x in data]:\n    x = 3") == ""
    assert overwritten("first = 0", "for first in range(first, 3):") == "", "a number is what it was when the loop was found"
