"""Functions of a step that return numbers: what a graph makes of them, what reads them then."""

from __future__ import annotations

import linecache
import runpy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("libcst")

from outpace.tune.loop.effects import effect_of
from outpace.tune.loop.step import Peeled
from outpace.tune.patch.source import SourceFile
from outpace.tune.patch.step_edit import write_peeled
from outpace.tune.patch.written import Edits

pytestmark = pytest.mark.slow  # its texts import TensorFlow

HEAD = """import tensorflow as tf

class Tensor:
    def __init__(self, value):
        self.value = value
    def numpy(self):
        return self.value
    def __float__(self):
        return float(self.value)

"""
PLAIN = """def step(x, factor=2):
    loss = Tensor(x * factor)
    # of this step
    return loss.numpy()  # a number

"""
SEVERAL = """def step(x, *, factor=2):
    loss = Tensor(x * factor)
    return loss, float(loss), float(loss.numpy()), x

"""
METHOD = """class Model:
    factor = 2

    def step(self, x):
        loss = Tensor(x * self.factor)
        return float(loss)

"""
CLOSURE = """def made(factor, unused):
    def step(x):
        loss = Tensor(x * factor)
        return loss.numpy()

    return step

step = made(2, 5)
"""


def function(tmp_path: Path, text: str, name: str = "train.py") -> Any:
    linecache.clearcache()
    (tmp_path / name).write_text(HEAD + text)
    names = runpy.run_path(str(tmp_path / name))
    return names["Model"].step if "Model" in names else names["step"]


def called(step: Any, *args: Any) -> Any:
    if "." not in step.__qualname__.rpartition("<locals>.")[2]:
        return step(*args)
    model: Any = type("Any", (), {"factor": 2})()
    return step(model, *args)


@pytest.mark.parametrize("text", [PLAIN, SEVERAL, METHOD, CLOSURE], ids=["plain", "several", "method", "closure"])
def test_what_the_return_reads_is_read_of_tensors(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step = function(tmp_path, text)
    peeled = Peeled.of(step)
    assert peeled is not None and effect_of(step) is not None and effect_of(peeled.function) is None
    edits = Edits(SourceFile(str(tmp_path / "train.py")))
    monkeypatch.setattr("outpace.tune.patch.step_edit.is_user_file", lambda _: True)
    write_peeled(step.__code__, peeled, lambda _: edits)
    written = edits.text()
    assert "@tf.function\n" in written and "step_tensors(" in written
    monkeypatch.setitem(__import__("sys").modules, "tensorflow", type("tf", (), {"function": staticmethod(lambda f: f)}))
    again = function(tmp_path, written.removeprefix(HEAD), "patched.py")
    if text is METHOD:
        model: Any = runpy.run_path(str(tmp_path / "patched.py"))["Model"]()
        assert model.step(3) == 6.0
    else:
        assert str(called(again, 3)).partition(" at ")[0] == str(called(step, 3)).partition(" at ")[0]


def test_comments_stay_where_they_stand(tmp_path: Path) -> None:
    step = function(tmp_path, PLAIN)
    peeled = Peeled.of(step)
    assert peeled is not None
    edits = Edits(SourceFile(str(tmp_path / "train.py")))
    write_peeled(step.__code__, peeled, lambda _: edits, {"jit_compile": "True"})
    assert edits.text().removeprefix(HEAD) == (
        "@tf.function(jit_compile=True)\ndef step_tensors(x, factor=2):\n    loss = Tensor(x * factor)\n    # of this step\n    return loss\n"
        "\n\ndef step(x, factor=2):\n    return step_tensors(x, factor).numpy()\n\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("loss.numpy()", "loss"),
        PLAIN.replace("    # of", "    if x < 0:\n        return None\n    # of"),
        PLAIN.replace("factor=2", "factor=2, *more"),
        PLAIN.replace("return loss.numpy()", "return {'loss': loss.numpy()}"),
        PLAIN.replace("    return loss.numpy()", "    print(loss.numpy())"),
    ],
)
def test_what_reads_elsewhere_stays(tmp_path: Path, text: str) -> None:
    assert Peeled.of(function(tmp_path, text)) is None
