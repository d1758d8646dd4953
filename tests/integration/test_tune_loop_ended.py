"""A loop's tuning that is interrupted or killed: what is said, what ends, what files stay."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import textwrap
import time
from pathlib import Path

import pytest

from tests.integration.programs import needs_jax, needs_tensorflow, run_program, started
from tests.integration.test_users_files import hashes, quiet

TENSORFLOW = """
import contextlib, multiprocessing, time
import numpy as np, keras, tensorflow as tf

keras.utils.set_random_seed(7)
x = np.random.rand(640, 6).astype("float32")
y = x[:, :3].argmax(1).astype("int32")
data = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda a, b: (a * 2, b)).cache("kept").shuffle(640).batch(16)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3)])
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam()
manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), "saved", max_to_keep=1)
writer = tf.summary.create_file_writer("events")

def train_step(a, b):
    with tf.GradientTape() as tape:
        loss = loss_fn(b, model(a, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

@contextlib.contextmanager
def summary():
    try:
        yield
    finally:
        open("summary.txt", "w").write("left")

if __name__ == "__main__":
    worker = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,), daemon=False)
    worker.start()
    try:
        with summary():
            for epoch in range(100_000):
                try:
                    for number, (a, b) in enumerate(data):
                        loss = train_step(a, b)
                        if number > 20:
                            manager.save()
                            open("log.csv", "a").write("x")
                            with writer.as_default(step=number):
                                tf.summary.write("loss", loss)  # without TensorBoard
                finally:
                    open("epoch.txt", "w").write(str(epoch))
    finally:
        model.save("model.keras")
"""
JAX = """
import multiprocessing, time
import numpy as np, jax, jax.numpy as jnp

x = np.random.default_rng(0).standard_normal((512, 16)).astype("float32")
w = jnp.ones(16)

def update(w, x):
    return w - 0.1 * jax.grad(lambda w, x: jnp.sum((x @ w) ** 2))(w, x)

if __name__ == "__main__":
    worker = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,), daemon=False)
    worker.start()
    try:
        for epoch in range(100_000):
            for at in range(0, 512, 64):
                w = update(w, x[at : at + 64])
            np.save("model.npy", np.asarray(w))
    finally:
        open("model.keras", "w").write("over")
"""
SCRIPTS = {"tensorflow": TENSORFLOW, "jax": JAX}
FRAMEWORKS = [pytest.param("tensorflow", marks=needs_tensorflow), pytest.param("jax", marks=needs_jax)]
OFTEN = [FRAMEWORKS[0], pytest.param("jax", marks=[needs_jax, pytest.mark.verify])]  # the other in `make verify`
OWN = ("kept", "events/", "tune.html", "fast.patch", "samples/")  # of the script's own first steps, and what was asked for
STAGES = {"tensorflow": "Racing tf.function", "jax": "Racing jax.jit"}


def made(folder: Path, framework: str) -> dict[str, str]:
    """The script with the files of an earlier training; their hashes."""
    (folder / "train.py").write_text(textwrap.dedent(SCRIPTS[framework]), encoding="utf-8")
    for name in ("model.keras", "model.npy", "log.csv", "summary.txt", "epoch.txt"):
        (folder / name).write_text("of an earlier training", encoding="utf-8")
    (folder / "saved").mkdir()
    (folder / "saved" / "ckpt-1.index").write_text("of an earlier training", encoding="utf-8")
    return hashes(folder)


def tuned(folder: Path, framework: str) -> subprocess.Popen[str]:
    """Its tuning, begun."""
    files = ["--out", "samples", "--html", "tune.html", "--patch", "fast.patch"]
    command = ["-m", "outpace", "tune", "--budget", "90s", *files, "train.py"]
    return started(*command, jax=framework == "jax", cwd=folder, stdout=subprocess.PIPE)


def ended(process: subprocess.Popen[str], number: int, folder: Path, before: dict[str, str]) -> tuple[str, str]:
    """Send a signal, and see what is left; what it wrote afterwards, on stdout and stderr."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)
    said = process.communicate(timeout=60)
    assert not quiet(folder), "processes are left"
    assert {name: value for name, value in hashes(folder).items() if not name.startswith(OWN)} == before
    assert not [path for path in os.listdir(folder) if path.startswith("outpace_cache_")]
    return said


def until(process: subprocess.Popen[str], text: str) -> list[str]:
    """Wait for a line on stderr; the lines so far."""
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError("".join(lines))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_ctrl_c_ends_a_loops_tuning_and_nothing_is_left(framework: str, tmp_path: Path) -> None:
    before = made(tmp_path, framework)
    process = tuned(tmp_path, framework)
    until(process, STAGES[framework])
    time.sleep(1.0)
    out, err = ended(process, signal.SIGINT, tmp_path, before)
    assert process.returncode == 130, err[-3000:]
    assert out == "" and "outpace: interrupted" in err and "Traceback" not in err, err[-3000:]


@pytest.mark.parametrize("framework", OFTEN)
def test_a_killed_command_takes_the_loop_with_it(framework: str, tmp_path: Path) -> None:
    before = made(tmp_path, framework)
    process = tuned(tmp_path, framework)
    until(process, STAGES[framework])
    time.sleep(0.5)
    ended(process, signal.SIGKILL, tmp_path, before)


@needs_tensorflow
def test_no_source_of_a_graph_is_left(tmp_path: Path) -> None:
    """What TensorFlow wrote for debuggers is removed though the process ends at once."""
    text = """
    import os, sys, tensorflow as tf
    from outpace.capture.process_exit import end_process

    @tf.function
    def step(x):
        return x + 1 if x > 0 else x

    step(tf.constant(1.0))
    print([name for name in os.listdir(os.environ["TMPDIR"]) if "autograph" in name])
    end_process(0)
    """
    (tmp_path / "temporary").mkdir()
    made = run_program(text, tmp_path, TMPDIR=str(tmp_path / "temporary"))
    assert made.code == 0 and "autograph" in made.out, made
    assert not list((tmp_path / "temporary").glob("*autograph*"))


MOMENTS = [(framework, at) for framework in SCRIPTS for at in range(8)]


@pytest.mark.verify
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill", "ctrl_c"])
@pytest.mark.parametrize(("framework", "moment"), MOMENTS)
def test_no_moment_leaves_a_process_or_a_changed_file(framework: str, moment: int, number: int, tmp_path: Path) -> None:
    pytest.importorskip(framework)
    before = made(tmp_path, framework)
    process = tuned(tmp_path, framework)
    time.sleep(random.Random(f"{framework} {moment}").uniform(0.3, 30.0))
    ended(process, number, tmp_path, before)
    assert process.returncode in ((-number,) if number == signal.SIGKILL else (0, 130, -number, 128 + number))
