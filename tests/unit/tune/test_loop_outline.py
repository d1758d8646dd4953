"""Statements of a loop that become a function of their own."""

from __future__ import annotations

import linecache
import runpy
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("libcst")

from outpace.tune.loop.outline import outlined
from outpace.tune.loop.statement import Statement
from outpace.tune.loop.step import Outline
from outpace.tune.patch.source import SourceFile
from outpace.tune.patch.step_edit import write_outline
from outpace.tune.patch.written import Edits

HEAD = """import tensorflow as tf

class Tape:
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass
    def gradient(self, loss):
        return loss

class Optimizer:
    def apply_gradients(self, gradient):
        made.append(gradient)

tf.GradientTape = Tape
optimizer = Optimizer()
seen = 0
"""
LOOP = """for epoch in range(2):
    for x, y in [(1, 2), (3, 4)]:
        # forward
        with tf.GradientTape() as tape:
            loss = x * y
        gradient = tape.gradient(loss)
        optimizer.apply_gradients(gradient)

        seen = seen + loss  # what the loop keeps
    tick()
"""
WRITTEN = """
@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = x * y
    gradient = tape.gradient(loss)
    optimizer.apply_gradients(gradient)
    return loss

for epoch in range(2):
    for x, y in [(1, 2), (3, 4)]:
        # forward
        loss = train_step(x, y)

        seen = seen + loss  # what the loop keeps
    tick()
"""


called = list[tuple[Any, ...]]()  # what stood for the statements, by its arguments


def function(python: Callable[..., Any]) -> Callable[..., Any]:
    """Stands for `tf.function`."""

    def counted(*args: Any) -> Any:
        called.append(args)
        return python(*args)

    return counted


@pytest.fixture(autouse=True)
def tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of that name, of which nothing is needed but a decorator."""
    module: Any = types.ModuleType("tensorflow")
    module.function = function
    monkeypatch.setitem(sys.modules, "tensorflow", module)


def run(tmp_path: Path, text: str) -> tuple[Outline | None, list[Any]]:
    """The outline that is made in the first `tick`, and what the loop applies."""
    made: list[Any] = []
    found: list[Outline | None] = []

    def tick() -> None:
        if not found:
            statement = Statement.around(sys._getframe(1))
            assert statement is not None
            found.append(outlined(statement, sys._getframe(1)))

    linecache.clearcache()
    (tmp_path / "train.py").write_text(HEAD + text)
    runpy.run_path(str(tmp_path / "train.py"), {"tick": tick, "made": made})
    return found[0], made


def written(tmp_path: Path, outline: Outline) -> str:
    """The file with it."""
    edits = Edits(SourceFile(str(tmp_path / "train.py")))
    write_outline(outline, lambda _: edits)
    return edits.text()


def again(tmp_path: Path, outline: Outline) -> list[Any]:
    """What the loop of the file with it applies, each time by the function."""
    made: list[Any] = []
    called.clear()
    (tmp_path / "edited.py").write_text(written(tmp_path, outline))
    runpy.run_path(str(tmp_path / "edited.py"), {"tick": lambda: None, "made": made})
    return made


def test_the_step_is_cut_out_and_runs_in_its_place(tmp_path: Path) -> None:
    outline, made = run(tmp_path, LOOP)
    assert outline is not None and outline.given == ("x", "y") and outline.returned == ("loss",)
    assert again(tmp_path, outline) == made == [2, 12, 2, 12] and called == [(1, 2), (3, 4)] * 2


def test_what_only_looks_follows_the_step(tmp_path: Path) -> None:
    between = LOOP.replace("            loss = x * y\n", "            loss = x * y\n            print('loss', loss)\n")
    between = between.replace("        optimizer.apply", "        if epoch:\n            tick\n        optimizer.apply")
    outline, made = run(tmp_path, between)
    assert outline is not None and outline.given == ("x", "y") and outline.returned == ("loss",)
    assert written(tmp_path, outline) == HEAD + WRITTEN.replace(
        "        loss = train_step(x, y)\n",
        "        loss = train_step(x, y)\n        print('loss', loss)\n        if epoch:\n            tick\n",
    )
    assert again(tmp_path, outline) == made


def test_the_file_with_it(tmp_path: Path) -> None:
    outline, _ = run(tmp_path, LOOP)
    assert outline is not None and written(tmp_path, outline) == HEAD + WRITTEN


def test_a_loop_in_a_function(tmp_path: Path) -> None:
    inside = (
        "def main(optimizer):\n    seen = 0\n"
        + "".join(f"    {line}\n" if line else "\n" for line in LOOP.splitlines())
        + "\nmain(optimizer)\n"
    )
    outline, made = run(tmp_path, inside)
    assert outline is not None and outline.given == ("x", "y")
    assert again(tmp_path, outline) == made == [2, 12, 2, 12] and len(called) == 4


def test_gradients_of_a_function_that_is_called(tmp_path: Path) -> None:
    head = (
        "def grad(x, y):\n    with tf.GradientTape() as tape:\n        loss = x * y\n    return loss, tape.gradient(loss)\n\n"
    )
    with_call = LOOP.replace(
        "        with tf.GradientTape() as tape:\n            loss = x * y\n        gradient = tape.gradient(loss)\n",
        "        loss, gradient = grad(x, y)\n",
    )
    outline, made = run(tmp_path, head + with_call)
    assert outline is not None and "loss, gradient = grad(x, y)" in outline.text
    assert again(tmp_path, outline) == made == [2, 12, 2, 12] and len(called) == 4


def test_a_metric_behind_the_gradients_is_part_of_the_step(tmp_path: Path) -> None:
    head = "class Metric:\n    def update_state(self, x, loss):\n        made.append(loss)\n\nmetric = Metric()\n"
    updated = LOOP.replace("(gradient)\n\n", "(gradient)\n        metric.update_state(x, loss)\n        print(loss)\n\n")
    outline, made = run(tmp_path, head + updated)
    assert outline is not None and outline.text.endswith("    metric.update_state(x, loss)\n    return loss\n"), outline
    assert "print" not in outline.text and again(tmp_path, outline) == made == [2, 2, 12, 12] * 2


def test_a_metric_that_each_epoch_makes_anew_stays_outside(tmp_path: Path) -> None:
    """A graph that is given another object is built again."""
    head = "class Metric:\n    def update_state(self, x, loss):\n        made.append(loss)\n\n"
    updated = LOOP.replace("(gradient)\n\n", "(gradient)\n        metric.update_state(x, loss)\n\n")
    updated = updated.replace("for epoch in range(2):\n", "for epoch in range(2):\n    metric = Metric()\n")
    outline, made = run(tmp_path, head + updated)
    assert outline is not None and "metric" not in outline.text, outline
    assert again(tmp_path, outline) == made


def test_a_number_of_the_epoch_leaves_the_step_as_it_is(tmp_path: Path) -> None:
    outline, _ = run(
        tmp_path, LOOP.replace("        gradient = tape", "        loss = loss + epoch\n        gradient = tape", 1)
    )
    assert outline is None


def test_what_stands_in_a_function_or_leaves_the_loop_is_left_alone(tmp_path: Path) -> None:
    assert run(tmp_path, "for x in [1]:\n    tick()\n")[0] is None
    leaving = LOOP.replace("        gradient = tape", "        if x > 5:\n            break\n        gradient = tape")
    assert run(tmp_path, leaving)[0] is None


HELPER = """class Trainer:
    def fit_epoch(self, optimizer, data, *, factor=1):
        for x, y in data:
            with tf.GradientTape() as tape:
                loss = x * y * factor
            gradient = tape.gradient(loss)
            optimizer.apply_gradients(gradient)
            tick()


trainer = Trainer()
for epoch in range(2):
    trainer.fit_epoch(optimizer, [(1, 2), (3, 4)], factor=3)
"""
HELPER_WRITTEN = """@tf.function
def train_step(x, y, factor, optimizer):
    with tf.GradientTape() as tape:
        loss = x * y * factor
    gradient = tape.gradient(loss)
    optimizer.apply_gradients(gradient)


class Trainer:
    def fit_epoch(self, optimizer, data, *, factor=1):
        for x, y in data:
            train_step(x, y, factor, optimizer)
            tick()


trainer = Trainer()
for epoch in range(2):
    trainer.fit_epoch(optimizer, [(1, 2), (3, 4)], factor=3)
"""


def test_the_loop_of_a_function_that_the_loop_calls(tmp_path: Path) -> None:
    outline, made = run(tmp_path, HELPER)
    assert outline is not None and outline.given == ("x", "y", "factor", "optimizer") and not outline.returned
    assert again(tmp_path, outline) == made == [6, 36, 6, 36] and len(called) == 4
    assert written(tmp_path, outline).removeprefix(HEAD).lstrip("\n") == HELPER_WRITTEN


def test_a_step_that_only_some_rounds_make(tmp_path: Path) -> None:
    updated = "".join(f"{line}\n" for line in LOOP.splitlines()[3:7])
    some = f"for number in range(4):\n    draw = number\n    if number % 2 == 1:\n        x, y = draw, 2\n{updated}        tick()\n"
    outline, made = run(tmp_path, some)
    assert outline is not None and outline.given == ("x", "y") and "draw" not in outline.text
    assert again(tmp_path, outline) == made == [2, 6] and called == [(1, 2), (3, 2)]


def test_a_branch_that_does_not_run_is_no_step(tmp_path: Path) -> None:
    taped = "".join(f"{line}\n" for line in LOOP.splitlines()[3:7])
    outline, _ = run(tmp_path, f"for x, y in [(1, 2), (3, 4)]:\n    if x < 0:\n{taped}    else:\n        tick()\n")
    assert outline is None or "if x < 0" in outline.text, "the whole condition, or nothing"
