"""Each way to capture over each kind of program: a profile, whole steps, and the right word for
what program it is.

The cells of the table that CI runs take each way and each kind once; `make verify` runs them all.
"""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import outpace
from outpace.metrics.facts.workload import Framework, find_workload
from outpace.timeline import Run
from tests.integration.programs import run_python, started

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")
    for name in ("tensorflow", "jax", "IPython", "grpc")
]

KERAS = """
import keras, numpy as np, time

class Until(keras.callbacks.Callback):
    def __init__(self, seconds):
        super().__init__()
        self.end = time.time() + seconds
    def on_train_batch_end(self, batch, logs=None):
        if time.time() > self.end:
            self.model.stop_training = True

model = keras.Sequential([keras.Input((264,)), keras.layers.Dense(264, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse"{options})
x, y = np.ones((6400, 264), "float32"), np.ones((6400, 1), "float32")

def train(seconds, *callbacks):
    model.fit(x, y, batch_size=64, epochs=1000, verbose=0, callbacks=[Until(seconds), *callbacks])
"""
ON_JAX = 'import os\nos.environ["KERAS_BACKEND"] = "jax"\n'
LOOP = """
def train(seconds):
    global w
    begun, number = time.time(), 0
    while time.time() - begun < seconds:
        number += 1
        {step}
"""
TENSORFLOW = """
import tensorflow as tf, time

w, x = tf.Variable(tf.ones((264, 264)) / 264), tf.ones((128, 264))
batches = iter(tf.data.Dataset.from_tensors(x).repeat())

{decorator}
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.tanh(x @ w) ** 2)
    w.assign_sub(1e-3 * tape.gradient(loss, w))
    return loss
"""
JAX = """
import jax, jax.numpy as jnp, time

w, x = jnp.ones((264, 264)) / 264, jnp.ones((512, 264))
train_step = jax.jit(lambda w, x: w - 1e-3 * jax.grad(lambda w: (jnp.tanh(x @ w) ** 2).mean())(w))

@jax.jit
def predict(x, w):
    return jnp.tanh(jnp.tanh(x @ w) @ w)
"""
MARKED = (
    'with jax.profiler.StepTraceAnnotation("train", step_num=number):\n            w = train_step(w, x).block_until_ready()'
)


@dataclass(frozen=True)
class Kind:
    """A kind of program: its text, which defines `train(seconds)`, and what it is called."""

    text: str
    framework: Framework
    predicts: bool = False

    @property
    def keras(self) -> bool:
        return self.framework in (Framework.KERAS, Framework.KERAS_JAX)

    @property
    def jax(self) -> bool:
        return self.framework in (Framework.JAX, Framework.KERAS_JAX)


KINDS = {
    "Keras": Kind(KERAS.format(options=""), Framework.KERAS),
    "Keras on JAX": Kind(ON_JAX + KERAS.format(options=""), Framework.KERAS_JAX),
    "Keras on JAX, op by op": Kind(ON_JAX + KERAS.format(options=", jit_compile=False"), Framework.KERAS_JAX),
    "a loop of a tf.function": Kind(
        TENSORFLOW.format(decorator="@tf.function") + LOOP.format(step="train_step(next(batches))"), Framework.TENSORFLOW
    ),
    "eager TensorFlow": Kind(
        TENSORFLOW.format(decorator="") + LOOP.format(step="train_step(next(batches))"), Framework.TENSORFLOW
    ),
    "JAX, marked": Kind(JAX + LOOP.format(step=MARKED), Framework.JAX),
    "JAX": Kind(JAX + LOOP.format(step="w = train_step(w, x)\n        w.block_until_ready()"), Framework.JAX),
    "JAX, inference": Kind(
        JAX.replace("train_step", "unused") + LOOP.format(step="predict(x, w).block_until_ready()"),
        Framework.JAX,
        predicts=True,
    ),
}


def profiled(kind: Kind, folder: Path) -> None:
    ended(kind, folder, kind.text + "train(60)\n", "-m", "outpace.cli", "profile", "--logdir", "logs")


def captured(kind: Kind, folder: Path) -> None:
    ended(kind, folder, kind.text + "import outpace\ntrain(1)\nwith outpace.capture('logs'):\n    train(2)\n")


AFTER = """import outpace
class After(keras.callbacks.Callback):  # however long the first batch takes on a busy machine
    def on_train_batch_end(self, batch, logs=None):
        self.model.stop_training = self.model.stop_training or batch == 40
train(100, outpace.ProfilerCallback('logs', (10, 30)), After())
"""


def by_callback(kind: Kind, folder: Path) -> None:
    ended(kind, folder, kind.text + AFTER)


def served(kind: Kind, folder: Path) -> None:
    asked(kind, folder, "import outpace\nprint(outpace.serve(0).address, flush=True)\n")


def at_the_frameworks_server(kind: Kind, folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    start = f"jax.profiler.start_server({port})" if kind.jax else f"tf.profiler.experimental.server.start({port})"
    imports = "import jax" if kind.jax else "import tensorflow as tf"
    asked(kind, folder, f"{imports}\nserver = {start}\nprint('localhost:{port}', flush=True)\n")


def in_a_notebook(kind: Kind, folder: Path) -> None:
    shell = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "outpace")
for cell in json.loads(sys.argv[1]):
    shell.run_cell(cell, store_history=True)
"""
    cells = json.dumps([kind.text + "train(1)", "%%outpace --logdir logs\ntrain(2)"])
    ran(kind, folder, "-c", shell, cells)


def ended(kind: Kind, folder: Path, text: str, *command: str) -> None:
    """Run a script, by a command of ours where one is given."""
    (folder / "train.py").write_text(text)
    ran(kind, folder, *command, "train.py")


def ran(kind: Kind, folder: Path, *arguments: str) -> None:
    """Run Python to its end."""
    done = run_python(*arguments, cwd=folder, jax=kind.jax)
    assert done.code == 0, done.err[-2000:]


def asked(kind: Kind, folder: Path, server: str) -> None:
    """Capture a process that has started a server while it trains."""
    (folder / "train.py").write_text(
        f"{kind.text}{server}import os, time\nbegun = time.time()\n"
        "while not os.path.exists('end') and time.time() - begun < 100:\n    train(2)\nos._exit(0)\n"
    )
    with started("train.py", jax=kind.jax, cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        asking = ("-m", "outpace.cli", "capture", address, "--logdir", "logs", "--duration", "2")
        done = run_python(*asking, cwd=folder, timeout=100)
        (folder / "end").touch()
        process.communicate(timeout=60)
    assert done.code == 0, done.err[-2000:]


WAYS: dict[str, Callable[[Kind, Path], None]] = {
    "outpace profile": profiled,
    "outpace.capture()": captured,
    "a callback": by_callback,
    "outpace.serve()": served,
    "the framework's server": at_the_frameworks_server,
    "a notebook": in_a_notebook,
}
IN_CI = {
    ("outpace profile", "JAX, inference"),
    ("outpace.capture()", "eager TensorFlow"),
    ("a callback", "Keras on JAX, op by op"),
    ("outpace.serve()", "JAX"),
    ("the framework's server", "Keras on JAX"),
    ("a notebook", "Keras"),
}


@pytest.mark.parametrize(
    ("way", "name"),
    [
        pytest.param(way, name, marks=() if (way, name) in IN_CI else pytest.mark.verify)
        for way in WAYS
        for name in KINDS
        if way != "a callback" or KINDS[name].keras
    ],
)
def test_what_is_captured_is_the_programs_steps(way: str, name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    WAYS[way](kind, tmp_path)
    run: Run = outpace.open(tmp_path / "logs").run
    found, (host,) = find_workload(run), run.hosts
    assert (found.framework, found.is_inference) == (kind.framework, kind.predicts), found.name
    assert int(host.steps.complete.sum()) >= 3, host.steps.explanation
    if way == "outpace profile":
        noted = run.record(host.host)["overhead"]
        assert noted["during_ns"] and (noted["before_ns"] or noted["after_ns"]), "the price is known"
