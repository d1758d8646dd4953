"""What a tuning of a loop kept, turned on in the process that trains: the same batches in the same order, the same variables bit by bit."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.integration.programs import environment, needs_jax, needs_tensorflow

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
print("sizes", [float(np.linalg.norm(np.asarray(v))) for v in STATE])
"""
TENSORFLOW = {
    "IMPORTS": "import keras\nkeras.utils.set_random_seed(7)",
    "STEP": """
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.2), keras.layers.Dense(3)])
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam(0.01)

DECORATOR
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

DECORATOR
def update(w, a, b):
    return w - 0.1 * jax.grad(loss)(w, a, b)
""",
    "READ": "data.as_numpy_iterator()",
    "TRAIN": "w = update(w, a, b)",
    "STATE": "[w]",
}
PARTS = {"tensorflow": TENSORFLOW, "jax": JAX}
READS = (
    "_BatchDataset _ShuffleDataset _MapDataset _TensorSliceDataset "
    "(TensorSpec(shape=(None, 6), dtype=tf.float32, name=None), TensorSpec(shape=(None,), dtype=tf.int32, name=None))"
)
FRAMEWORKS = [pytest.param("tensorflow", marks=needs_tensorflow), pytest.param("jax", marks=[needs_jax, pytest.mark.verify])]


def script(folder: Path, framework: str, decorator: str) -> None:
    text = DATA
    for name, part in (*PARTS[framework].items(), ("DECORATOR", decorator)):
        text = text.replace(name, part)
    (folder / "train.py").write_text(textwrap.dedent(text), encoding="utf-8")


def trained(folder: Path, framework: str, practices: tuple[str, ...] | None = None) -> tuple[dict[str, str], str]:
    """What the script prints, by its first word, and what Outpace said: plain, or with practices applied."""
    command = [sys.executable, "train.py"]
    if practices is not None:
        recipe = {"practices": practices, "step_seconds": 0.001, "loop": True, "reads": READS}
        plan = {"script": "train.py", "argv": [], "module": False, "fit": 1, "recipe": recipe, "then": "apply"}
        command = [sys.executable, "-m", "outpace.tune.hosted", json.dumps(plan)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment(jax=framework == "jax"), timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(line.split(" ", 1) for line in done.stdout.splitlines()), done.stderr


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_rewritten_input_leaves_batches_and_variables_bit_equal(framework: str, tmp_path: Path) -> None:
    script(tmp_path, framework, "@tf.function" if framework == "tensorflow" else "@jax.jit")
    plain, _ = trained(tmp_path, framework)
    changed, said = trained(tmp_path, framework, ("cache", "thread_pool"))
    assert changed == plain
    assert "applied to the input" in said and "not applied" not in said, said[-3000:]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_step_that_becomes_a_graph_learns_the_same(framework: str, tmp_path: Path) -> None:
    script(tmp_path, framework, "")
    plain, _ = trained(tmp_path, framework)
    knob, title = ("loop_graph", "tf.function") if framework == "tensorflow" else ("loop_jit", "jax.jit")
    changed, said = trained(tmp_path, framework, (knob,))
    assert f"applied to the step: {title}" in said, said[-3000:]
    assert changed["batches"] == plain["batches"]
    assert json.loads(changed["sizes"]) == pytest.approx(json.loads(plain["sizes"]), rel=1e-3)


@needs_tensorflow
def test_what_cannot_be_turned_on_is_said(tmp_path: Path) -> None:
    """A step that stands in the loop is a matter for the patch, and another pipeline than the tuned one is left alone."""
    script(tmp_path, "tensorflow", "")
    text = (tmp_path / "train.py").read_text().replace("data.shuffle(160, seed=5)", "data.repeat(1)")
    body = text.split("def train_step(a, b):\n")[1].split("    return loss")[0]
    text = text.replace("        loss = train_step(a, b)\n", textwrap.indent(body, "    "))
    (tmp_path / "train.py").write_text(text)
    _, said = trained(tmp_path, "tensorflow", ("cache", "loop_graph"))
    assert "not applied here: tf.function, because the step stands in the loop at train.py:" in said, said[-3000:]
    assert "reads no pipeline that is built as the tuned one was" in said and "applied to" not in said
