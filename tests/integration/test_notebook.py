"""A notebook: `%%outpace` on real cells, `%outpace`, and what a profile shows of itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from outpace import open as open_profile
from outpace.metrics.facts.python_lines import python_lines
from tests.integration.programs import needs_jax, needs_tensorflow
from tests.support import opened, profile_path

pytest.importorskip("IPython")

HOST = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "outpace")
shown = []
for cell in json.loads(sys.stdin.read()):
    with capture_output() as out:
        shell.run_cell(cell, store_history=True)
    shown.append({"outputs": [dict(o.data) for o in out.outputs], "stdout": out.stdout})
print(json.dumps(shown))
"""
JAX = """
import jax, jax.numpy as jnp
step = jax.jit(lambda w, x: w - 1e-3 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w))
w, x = jnp.ones((64, 64)), jnp.ones((8, 64))
for i in range(40):
    w = step(w, x)
w.block_until_ready();
"""
KERAS = """
import keras, numpy as np
model = keras.Sequential([keras.layers.Input((32,)), keras.layers.Dense(16), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((640, 32)), np.ones((640, 1)), batch_size=32, epochs=2, verbose=0);
"""


def cells(folder: Path, *texts: str) -> list[dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-c", HOST], input=json.dumps(texts), capture_output=True, text=True, cwd=folder, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    return found


def html(shown: dict[str, object]) -> str:
    outputs = shown["outputs"]
    assert isinstance(outputs, list)
    return str(next(output["text/html"] for output in outputs if "text/html" in output))


@needs_jax
def test_a_jax_cell_is_captured_and_explained(tmp_path: Path) -> None:
    raising = "%%outpace --logdir logs\nw = step(w, x)\n1 / 0"
    first, second, raises = cells(tmp_path, "%%outpace --logdir logs\n" + JAX, "print(w.shape)", raising)
    assert re.search("(Steady|Mean) step", html(first)) and "Capture" not in html(first)[:300]  # steps of µs are steady or not
    assert second["stdout"] == "(64, 64)\n", "the cell's names are the notebook's"
    assert "ZeroDivisionError" in str(raises["stdout"]) and html(raises)
    assert len(list((tmp_path / "logs" / "plugins" / "profile").iterdir())) == 2


@needs_jax
@pytest.mark.parametrize("kernel", [False, True])
def test_places_are_cells_and_no_files(kernel: bool, tmp_path: Path) -> None:
    """Of Python, of what XLA compiled, and of the capture itself. A kernel of Jupyter's compiles a
    cell under a file's name without number.
    """
    functions = JAX.partition("for i")[0] + "import time\ndef pause():\n    return sum(range(300000))"
    loop = "%%outpace --logdir logs\nfor i in range(60):\n    pause()\n    w = step(w, x)\nw.block_until_ready();"
    as_kernel = """
from IPython import get_ipython
get_ipython().compile.get_code_name = lambda raw, code, number: f"/tmp/ipykernel_9/{abs(hash(code))}.py"
"""
    *_, shown = cells(tmp_path, as_kernel if kernel else "1", functions, loop)
    text = html(shown)
    assert re.search(r"In \[2\], line 6", text) and "ipykernel" not in text and "ipython-input" not in text
    profile = open_profile(str(tmp_path / "logs"))
    assert profile.run.script == ""
    yours = {row["file"] for row in python_lines(profile.run).records() if row["who"] == "yours"}
    assert {"In [2]", "In [3]"} >= yours != set()
    assert all(line.startswith("In [2]:") for line in [profile.run.hosts[0].hlo_modules.find_source_line("<lambda>")])


@needs_tensorflow
@pytest.mark.slow
def test_a_keras_cell_is_captured_and_explained(tmp_path: Path) -> None:
    (shown,) = cells(tmp_path, "%%outpace\n" + KERAS)
    assert "Keras" in html(shown) and re.search("(Steady|Mean) step", html(shown))


def test_a_folder_is_shown_and_mistakes_are_said(tmp_path: Path) -> None:
    texts = (f"%outpace {profile_path('keras_fit')}", "%outpace", "%outpace nowhere", "%%outpace --what\n1", "%%outpace\n1 + 1")
    shown, empty, wrong, option, pure = cells(tmp_path, *texts)
    assert "70% of the 12.7 ms step" in html(shown)
    for each, said in (
        (empty, "LOGDIR"),
        (wrong, "no file or folder nowhere"),
        (option, "usage: %%outpace"),
        (pure, "Import the framework"),
    ):
        assert said in json.dumps(each["outputs"])


def test_a_profile_shows_its_report_once_and_again() -> None:
    """Two outputs have no address in common; each link leads to a place of its own report."""
    first, second = (opened("keras_fit")._repr_html_() for _ in range(2))
    for text in (first, second):
        ids, links = set(re.findall(r' id="([^"]+)"', text)), set(re.findall(r'href="#([^"]+)"', text))
        assert links and links <= ids
        assert "<iframe" not in text and "src=" not in text and "url(" not in text
    assert not set(re.findall(r' id="([^"]+)"', first)) & set(re.findall(r' id="([^"]+)"', second))
