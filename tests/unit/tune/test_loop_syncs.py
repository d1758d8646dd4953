"""Statements of a loop that read values: which are found, which may come later, and that they do what they did as they are written then."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from outpace.tune.loop.later import Syncs, syncs_of
from outpace.tune.loop.statement import Statement


class Tensor:
    """Stands for one."""

    dtype, shape = "float32", ()

    def __init__(self, value: float) -> None:
        self.value = value

    def numpy(self) -> float:
        return self.value

    def __float__(self) -> float:
        return self.value


class Metric:
    """Counts, as a metric does."""

    def __init__(self) -> None:
        self.count = 0

    def update(self) -> None:
        self.count += 1

    def result(self) -> Tensor:
        return Tensor(float(self.count))


LOOP = """
for epoch in range(2):
    for step in range(70):
        loss = Tensor(epoch + step / 4)
        metric.update()
        look()
        losses.append(float(loss))
        print(f"{step} {loss.numpy():.2f} {metric.result().numpy()}", file=out)
"""


class Out:
    """A file that keeps what is written."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text


def looked(folder: Path, text: str) -> tuple[Syncs, dict[str, Any]]:
    """Run a program to its end; its `look()` is where its loop is looked at."""
    path = folder / "program.py"
    path.write_text(text)
    made: list[Syncs] = []

    def look() -> None:
        if not made:
            statement = Statement.around(sys._getframe(1))
            assert statement is not None
            made.append(syncs_of(statement))

    names: dict[str, Any] = {"Tensor": Tensor, "metric": Metric(), "out": Out(), "look": look, "losses": [], "said": []}
    exec(compile(text, str(path), "exec"), names)
    return made[0], names


def test_what_is_read_in_every_step_is_found(tmp_path: Path) -> None:
    syncs, _ = looked(tmp_path, LOOP)
    assert [each.said for each in syncs.found] == ["float(loss)", "loss.numpy()", "metric.result().numpy()"]
    assert len(syncs.movable) == 2 and not syncs.kept


def test_the_patch_does_the_same(tmp_path: Path) -> None:
    """70 steps are no multiple of what is read at once."""
    pytest.importorskip("libcst")
    from outpace.tune.patch.source import SourceFile
    from outpace.tune.patch.step_edit import write_reads
    from outpace.tune.patch.written import Edits

    syncs, names = looked(tmp_path, LOOP)
    edits = Edits(SourceFile(syncs.file))
    write_reads(syncs, lambda path: edits)
    text = edits.text()
    assert "kept2.append((step, loss, metric.result()))" in text and "if len(kept) == 50:" in text, text
    losses: list[float] = []
    again = {**names, "losses": losses, "metric": Metric(), "out": Out()}
    exec(compile(text, "patched", "exec"), again)
    assert again["out"].text == names["out"].text and losses == names["losses"] and len(losses) == 140


def test_train_on_batch_gives_numbers(tmp_path: Path) -> None:
    text = "class Model:\n    def train_on_batch(self): return 1.5\nmodel = Model()\nfor step in range(3):\n    look()\n"
    syncs = looked(tmp_path, f"{text}    losses.append(model.train_on_batch())\n")[0]
    assert [(each.line, each.said) for each in syncs.found] == [(6, "model.train_on_batch(...)")]
    assert "fit reads them once an epoch" in syncs.kept[0][1] and not syncs.movable


KEPT = {
    "needed": ("        total = total + float(loss)\n", "needed in the step, or is added up"),
    "read": ("        losses.append(float(loss))\n        if len(losses) > 3: metric.update()\n", "losses is read in the loop"),
    "a call": ("        said.extend([float(loss)])\n", "said.extend is a call whose effect"),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_stays_is_named(tmp_path: Path, name: str) -> None:
    text, why = KEPT[name]
    syncs = looked(
        tmp_path,
        f"total = 0\nfor step in range(3):\n    for each in range(2):\n        loss = Tensor(1.5)\n        look()\n{text}",
    )[0]
    assert not syncs.movable and len(syncs.kept) == 1
    assert why in syncs.kept[0][1] and syncs.found[0].said == "float(loss)"


def test_a_step_without_reads(tmp_path: Path) -> None:
    text = "for step in range(3):\n    loss = Tensor(2.5)\n    look()\n    if step % 100 == 5:\n        print(float(loss))\n"
    assert not looked(tmp_path, text)[0].found
