"""Edited texts train as a plain run of the edited script would, and no file changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from outpace.tune.edited import edited_command
from tests.integration.programs import Ended, needs_jax, needs_tensorflow, run_python

DATA = """
import hashlib
import numpy as np, tensorflow as tf
IMPORTS

tf.random.set_seed(3)
rng = np.random.default_rng(0)
x = rng.random((160, 6)).astype("float32")
y = x[:, :3].argmax(1).astype("int32")

def scale(a, b):
    return tf.sqrt(a) * 2.0, b

data = tf.data.Dataset.from_tensor_slices((x, y))
data = data.map(scale)
data = data.shuffle(160, seed=5)
data = data.batch(16)
seen, number = hashlib.sha256(), 0
STEP
while number < 50:
    for a, b in READ:
        seen.update(np.asarray(a).tobytes() + np.asarray(b).tobytes())
        TRAIN
        number += 1
print("batches", seen.hexdigest())
print("variables", hashlib.sha256(b"".join(np.asarray(v).tobytes() for v in STATE)).hexdigest())
"""
TENSORFLOW = {
    "IMPORTS": "import keras\nkeras.utils.set_random_seed(7)",
    "STEP": """
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.2), keras.layers.Dense(3)])
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam(0.01)

def train_step(a, b):
    with tf.GradientTape() as tape:
        loss = loss_fn(b, model(a, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss
""",
    "READ": "data",
    "TRAIN": "loss = train_step(a, b)",
    "STATE": "model.variables + optimizer.variables",
}
JAX = {
    "IMPORTS": "import jax, jax.numpy as jnp",
    "STEP": """
w = jnp.asarray(rng.random((6, 3)).astype("float32"))

def loss(w, a, b):
    return -jnp.mean(jax.nn.log_softmax(a @ w)[jnp.arange(16), b])

def update(w, a, b):
    return w - 0.1 * jax.grad(loss)(w, a, b)
""",
    "READ": "data.as_numpy_iterator()",
    "TRAIN": "w = update(w, a, b)",
    "STATE": "[w]",
}
PARTS = {"tensorflow": TENSORFLOW, "jax": JAX}
STEPS = {"tensorflow": ("def train_step", "@tf.function\ndef train_step"), "jax": ("def update", "@jax.jit\ndef update")}
FRAMEWORKS = [pytest.param("tensorflow", marks=needs_tensorflow), pytest.param("jax", marks=[needs_jax, pytest.mark.verify])]


def script(framework: str) -> str:
    text = DATA
    for name, part in PARTS[framework].items():
        text = text.replace(name, part)
    return textwrap.dedent(text)


def ran(command: list[str], folder: Path, **options: Any) -> Ended:
    """The command of an edited script, run."""
    assert command[0] == sys.executable
    return run_python(*command[1:], cwd=folder, **options)


def trained(folder: Path, command: list[str], jax: bool = False) -> dict[str, str]:
    """What a run prints, by its first word."""
    (folder / "temporary").mkdir(exist_ok=True)
    done = ran(command, folder, jax=jax, TMPDIR=str(folder / "temporary"))
    assert done.code == 0, done.err[-3000:]
    return dict(line.split(" ", 1) for line in done.out.splitlines())


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_edited_texts_train_as_the_edited_script_would(framework: str, tmp_path: Path) -> None:
    """A cache leaves batches and variables; where a step is a graph, edited lines are read."""
    source = script(framework)
    cached = source.replace("data = data.map(scale)", "# kept\ndata = data.map(scale).cache()")
    compiled = cached.replace(*STEPS[framework])
    (tmp_path / "train.py").write_text(source, encoding="utf-8")
    plain = trained(tmp_path, [sys.executable, "train.py"], framework == "jax")
    command = edited_command({str(tmp_path / "train.py"): cached}, "train.py", [], False)
    assert trained(tmp_path, command, framework == "jax") == plain
    command = edited_command({str(tmp_path / "train.py"): compiled}, "train.py", [], False)
    edited = trained(tmp_path, command, framework == "jax")
    assert (tmp_path / "train.py").read_text(encoding="utf-8") == source
    (tmp_path / "train.py").write_text(compiled, encoding="utf-8")
    assert edited == trained(tmp_path, [sys.executable, "train.py"], framework == "jax")
    assert edited["batches"] == plain["batches"]


MAIN = (
    "import sys\nfrom package import parts\nprint('main', __name__, sys.argv[1:], parts.value)\nraise SystemExit(parts.value)\n"
)


@pytest.mark.parametrize("module", [False, True], ids=["script", "-m"])
def test_texts_of_modules_arguments_and_exit_codes(module: bool, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    for name, text in {"__init__.py": "", "parts.py": "value = 1\n"}.items():
        (package / name).write_text(text, encoding="utf-8")
    (tmp_path / "train.py").write_text(MAIN, encoding="utf-8")
    subprocess.run([sys.executable, "train.py"], cwd=tmp_path, check=False, capture_output=True)  # leaves compiled copies
    texts = {str(package / "parts.py"): "value = 7  # ä\n"}
    before = set(os.listdir(tmp_path))
    command = edited_command(texts, "train" if module else "train.py", ["a", "--b"], module)
    done = ran(command, tmp_path)
    assert (done.code, done.out) == (7, "main __main__ ['a', '--b'] 7\n"), done.err
    assert (package / "parts.py").read_text(encoding="utf-8") == "value = 1\n"
    assert set(os.listdir(tmp_path)) - {"__pycache__"} == before


def test_an_exception_is_the_edited_text_s_with_no_line_of_ours(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n", encoding="utf-8")
    command = edited_command({str(tmp_path / "train.py"): "x = 1\nraise ValueError('edited')\n"}, "train.py", [], False)
    folder = Path(json.loads(command[-1])["edition"]).parent
    assert folder.exists()
    done = ran(command, tmp_path)
    assert done.code == 1 and "ValueError: edited" in done.err and "outpace" not in done.err
    assert not folder.exists(), "what was written down for it is gone"
