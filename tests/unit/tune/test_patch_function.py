"""Options of a `tf.function`, and its decorator, written into the source."""

from __future__ import annotations

from pathlib import Path
from types import CodeType

import pytest

pytest.importorskip("libcst")

from outpace.tune.patch.calls import Unpatchable
from outpace.tune.patch.source import SourceFile
from outpace.tune.patch.step_edit import decorate, edit_function
from outpace.tune.patch.written import Edits

JIT = {"jit_compile": "True"}


def edited(tmp_path: Path, text: str, *, graph: bool = False) -> str:
    path = tmp_path / "train.py"
    path.write_text(text)
    whole = compile(text, str(path), "exec")
    code = next(each for each in _all(whole) if each.co_name == "step")
    edits = Edits(SourceFile(str(path)))
    if graph:
        decorate(code, lambda _: edits)
    else:
        edit_function(code, JIT, lambda _: edits)
    return edits.text()


def _all(code: CodeType) -> list[CodeType]:
    return [code, *(inner for each in code.co_consts if isinstance(each, CodeType) for inner in _all(each))]


IMPORT, PLAIN = "import tensorflow as tf\n\n", "def step(x):\n    return x\n"
WRITTEN = {
    "a decorator": (f"{IMPORT}@tf.function\n{PLAIN}", "@tf.function", "@tf.function(jit_compile=True)"),
    "a decorator with options, which it keeps": (
        f"from tensorflow import function\n\n@function(reduce_retracing=True)\n{PLAIN}",
        "@function(reduce_retracing=True)",
        "@function(reduce_retracing=True, jit_compile=True)",
    ),
    "a call that makes it": (f"{IMPORT}{PLAIN}\nrun = tf.function(step)\n", "(step)", "(step, jit_compile=True)"),
    "a method inside of a class": (
        f"{IMPORT}class T:\n    @tf.function\n    def step(self, x):\n        return x\n",
        "@tf.function",
        "@tf.function(jit_compile=True)",
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_graph_gets_the_option(tmp_path: Path, name: str) -> None:
    text, old, new = WRITTEN[name]
    assert edited(tmp_path, text) == text.replace(old, new)


def test_an_eager_function_becomes_a_graph(tmp_path: Path) -> None:
    text = f"{IMPORT}\n{PLAIN}"
    assert edited(tmp_path, text, graph=True) == text.replace("def step", "@tf.function\ndef step")


def test_a_file_without_a_name_for_it_gets_an_import(tmp_path: Path) -> None:
    text = edited(tmp_path, f"import keras\n\n{PLAIN}", graph=True)
    assert "import tensorflow\n" in text and "@tensorflow.function\ndef step" in text


def test_what_cannot_be_written_says_why(tmp_path: Path) -> None:
    with pytest.raises(Unpatchable, match="decorated already"):
        edited(tmp_path, f"{IMPORT}@note\n{PLAIN}", graph=True)
    with pytest.raises(Unpatchable, match=r"by no call of tensorflow\.function"):
        edited(tmp_path, f"import keras\n\n{PLAIN}")
    with pytest.raises(Unpatchable, match="no call of"):
        edited(tmp_path, IMPORT + PLAIN)


def test_a_function_of_a_library_is_never_edited(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages" / "library"
    folder.mkdir(parents=True)
    with pytest.raises(Unpatchable, match="a function of a library"):
        edited(folder, f"{IMPORT}@tf.function\n{PLAIN}")
