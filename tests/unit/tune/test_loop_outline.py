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


def replaced(tmp_path: Path, text: str, *given: str) -> tuple[Outline, list[Any]]:
    """An outline that is given these names, and what the loop applies with it: what it did."""
    outline, made = run(tmp_path, text)
    assert outline is not None and (not given or outline.given == given), outline
    assert again(tmp_path, outline) == made
    return outline, made


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
    outline, made = replaced(tmp_path, LOOP, "x", "y")
    assert outline.returned == ("loss",) and written(tmp_path, outline) == HEAD + WRITTEN
    assert made == [2, 12, 2, 12] and called == [(1, 2), (3, 4)] * 2


def test_what_only_looks_follows_the_step(tmp_path: Path) -> None:
    between = LOOP.replace("            loss = x * y\n", "            loss = x * y\n            print('loss', loss)\n")
    between = between.replace("        optimizer.apply", "        if epoch:\n            tick\n        optimizer.apply")
    outline, _ = replaced(tmp_path, between, "x", "y")
    call, looks = "        loss = train_step(x, y)\n", "        print('loss', loss)\n        if epoch:\n            tick\n"
    assert outline.returned == ("loss",) and written(tmp_path, outline) == HEAD + WRITTEN.replace(call, call + looks)


def test_a_loop_in_a_function(tmp_path: Path) -> None:
    body = "".join(f"    {line}\n" if line else "\n" for line in LOOP.splitlines())
    _, made = replaced(tmp_path, f"def main(optimizer):\n    seen = 0\n{body}\nmain(optimizer)\n", "x", "y")
    assert made == [2, 12, 2, 12] and len(called) == 4


def test_gradients_of_a_function_that_is_called(tmp_path: Path) -> None:
    tape = "    with tf.GradientTape() as tape:\n        loss = x * y\n"
    with_call = LOOP.replace(
        "        with tf.GradientTape() as tape:\n            loss = x * y\n        gradient = tape.gradient(loss)\n",
        "        loss, gradient = grad(x, y)\n",
    )
    outline, made = replaced(tmp_path, f"def grad(x, y):\n{tape}    return loss, tape.gradient(loss)\n\n{with_call}")
    assert "loss, gradient = grad(x, y)" in outline.text and made == [2, 12, 2, 12] and len(called) == 4


METRIC = "class Metric:\n    def update_state(self, x, loss):\n        made.append(loss)\n\n"


def test_a_metric_behind_the_gradients_is_part_of_the_step(tmp_path: Path) -> None:
    updated = LOOP.replace("(gradient)\n\n", "(gradient)\n        metric.update_state(x, loss)\n        print(loss)\n\n")
    outline, made = replaced(tmp_path, f"{METRIC}metric = Metric()\n{updated}")
    assert outline.text.endswith("    metric.update_state(x, loss)\n    return loss\n"), outline
    assert "print" not in outline.text and made == [2, 2, 12, 12] * 2


def test_a_metric_that_each_epoch_makes_anew_stays_outside(tmp_path: Path) -> None:
    """A graph that is given another object is built again."""
    updated = LOOP.replace("(gradient)\n\n", "(gradient)\n        metric.update_state(x, loss)\n\n")
    updated = updated.replace("for epoch in range(2):\n", "for epoch in range(2):\n    metric = Metric()\n")
    assert "metric" not in replaced(tmp_path, METRIC + updated)[0].text


@pytest.mark.parametrize(
    "text",
    [
        "for x in [1]:\n    tick()\n",
        LOOP.replace("        gradient = tape", "        loss = loss + epoch\n        gradient = tape", 1),
        LOOP.replace("        gradient = tape", "        if x > 5:\n            break\n        gradient = tape"),
    ],
    ids=["no tape", "a number of the epoch", "the loop is left"],
)
def test_other_loops_are_left_alone(tmp_path: Path, text: str) -> None:
    assert run(tmp_path, text)[0] is None


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
FIT = HELPER[HELPER.index("            with") : HELPER.index("            tick")]
WRITTEN_STEP = "".join(line.removeprefix("        ") for line in FIT.splitlines(keepends=True))
HELPER_WRITTEN = f"@tf.function\ndef train_step(x, y, factor, optimizer):\n{WRITTEN_STEP}\n\n" + HELPER.replace(
    FIT, "            train_step(x, y, factor, optimizer)\n"
)


def test_the_loop_of_a_function_that_the_loop_calls(tmp_path: Path) -> None:
    outline, made = replaced(tmp_path, HELPER, "x", "y", "factor", "optimizer")
    assert not outline.returned and made == [6, 36, 6, 36] and len(called) == 4
    assert written(tmp_path, outline).removeprefix(HEAD).lstrip("\n") == HELPER_WRITTEN


TAPED = "".join(f"{line}\n" for line in LOOP.splitlines()[3:7])


def test_a_step_that_only_some_rounds_make(tmp_path: Path) -> None:
    some = (
        f"for number in range(4):\n    draw = number\n    if number % 2 == 1:\n        x, y = draw, 2\n{TAPED}        tick()\n"
    )
    outline, made = replaced(tmp_path, some, "x", "y")
    assert "draw" not in outline.text and made == [2, 6] and called == [(1, 2), (3, 2)]


def test_a_branch_that_does_not_run_is_no_step(tmp_path: Path) -> None:
    outline, _ = run(tmp_path, f"for x, y in [(1, 2), (3, 4)]:\n    if x < 0:\n{TAPED}    else:\n        tick()\n")
    assert outline is None or "if x < 0" in outline.text, "the whole condition, or nothing"
