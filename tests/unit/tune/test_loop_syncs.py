"""Statements of a loop that read values: which may come later, and do what they did then."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from outpace.tune.loop.later import Later, later_of
from outpace.tune.loop.statement import innermost_around


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


def looked(folder: Path, text: str) -> tuple[Later, dict[str, Any]]:
    """Run a program to its end; its second `look()` is where its loop is looked at."""
    path = folder / "program.py"
    path.write_text(text)
    made: list[Later] = []

    def look() -> None:
        if len(made) < 2:
            found = innermost_around(sys._getframe(1))
            assert found is not None
            made.append(later_of(*found, lambda _: False))

    names: dict[str, Any] = {"Tensor": Tensor, "metric": Metric(), "out": Out(), "look": look, "losses": [], "said": []}
    exec(compile(text, str(path), "exec"), names)
    return made[1], names


def patched(later: Later) -> str:
    from outpace.tune.patch.loop_edit import write_later
    from outpace.tune.patch.source import SourceFile
    from outpace.tune.patch.written import Edits

    edits = Edits(SourceFile(later.file))
    write_later(later, lambda path: edits)
    return edits.text()


def test_what_is_read_in_every_step_is_found(tmp_path: Path) -> None:
    syncs, _ = looked(tmp_path, LOOP)
    assert [each.said for each in syncs.found] == ["float(loss)", "loss.numpy()", "metric.result().numpy()"]
    assert len(syncs.moved) == 2 and not syncs.stay


def test_the_patch_does_the_same(tmp_path: Path) -> None:
    """70 steps are no multiple of what is read at once."""
    pytest.importorskip("libcst")
    syncs, names = looked(tmp_path, LOOP)
    text = patched(syncs)
    assert "kept.append((loss, step, metric.result()))" in text and "if len(kept) == 50:" in text, text
    losses: list[float] = []
    again = {**names, "losses": losses, "metric": Metric(), "out": Out()}
    exec(compile(text, "patched", "exec"), again)
    assert again["out"].text == names["out"].text and losses == names["losses"] and len(losses) == 140


def test_train_on_batch_gives_numbers(tmp_path: Path) -> None:
    text = "class Model:\n    def train_on_batch(self): return 1.5\nmodel = Model()\nfor step in range(3):\n    look()\n"
    syncs = looked(tmp_path, f"{text}    losses.append(model.train_on_batch())\n")[0]
    assert [(each.line, each.said) for each in syncs.found] == [(6, "model.train_on_batch(...)")]
    assert "fit reads them once an epoch" in syncs.stay[0][1] and not syncs.moved


SERVED = {
    "added up": "        total = total + float(loss)\n",
    "a method": "        said.extend([float(loss)])\n",
    "a name in between": "        value = float(loss)\n        said.append(value)\n",
    "the state of a moment": "        said.append((metric.result().numpy(), 1))\n        metric.update()\n        total += float(loss)\n",
    "a part": "        both = {'loss': loss}\n        said.append(float(both['loss']))\n",
    "a part of what is read": "        values = loss.numpy(), 2\n        said.append(values[0])\n",
    "a place": "        said[len(said):] = [float(loss)]\n        places[step] = float(loss)\n",
    "names of their own": "        said.append([loss.numpy() + other for other in (1, 2)])\n",
}


@pytest.mark.parametrize("name", SERVED)
def test_what_may_come_later(tmp_path: Path, name: str) -> None:
    pytest.importorskip("libcst")
    text = (
        "total, places = 0, {}\nfor step in range(60):\n    for each in range(2):\n        loss = Tensor(step + each / 4)\n"
        f"        look()\n{SERVED[name]}outcome = total, said, places\n"
    )
    later, names = looked(tmp_path, text)
    assert later.moved and not later.stay, later
    changed = patched(later)
    again = {**names, "said": [], "metric": Metric()}
    exec(compile(changed, "patched", "exec"), again)
    assert again["outcome"] == names["outcome"], changed


KEPT = {
    "read": (
        "        losses.append(float(loss))\n        if len(losses) > 3: metric.update()\n",
        "losses, which line 6 changes, is needed",
    ),
    "needed": ("        each = each + float(loss)\n", "each, which line 6 changes, is needed"),
    "a decision": ("        total = float(loss)\n        if total > 9: break\n", "line 7 decides what the loop does"),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_stays_is_named(tmp_path: Path, name: str) -> None:
    text, why = KEPT[name]
    head = "total = 0\nfor step in range(3):\n    for each in range(2):\n        loss = Tensor(1.5)\n        look()\n"
    syncs = looked(tmp_path, head + text)[0]
    assert not syncs.moved and len(syncs.stay) == 1
    assert why in syncs.stay[0][1] and syncs.found[0].said == "float(loss)"


def test_a_step_without_reads(tmp_path: Path) -> None:
    text = "for step in range(3):\n    loss = Tensor(2.5)\n    look()\n    if step % 100 == 5:\n        print(float(loss))\n"
    assert not looked(tmp_path, text)[0].found
