"""`outpace tune` on loops of JAX that read no tf.data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.programs import run_tune

pytest.importorskip("jax")

SCRIPT = """
import numpy as np, jax, jax.numpy as jnp

rng = np.random.default_rng(0)
x = rng.standard_normal((512, 16)).astype("float32")
y = rng.integers(0, 4, 512)
params = [(jnp.ones((16, 32)) * 0.1, jnp.zeros(32)), (jnp.ones((32, 4)) * 0.1, jnp.zeros(4))]

def loss(params, x, y):
    for w, b in params:
        x = jnp.tanh(x @ w + b)
    return -jnp.mean(jax.nn.log_softmax(x)[jnp.arange(len(y)), y])

def update(params, x, y):
    gradients = jax.grad(loss)(params, x, y)
    return [(w - 0.1 * dw, b - 0.1 * db) for (w, b), (dw, db) in zip(params, gradients)]

for epoch in range(100_000):
    for at in range(0, 512, 64):
        params = update(params, x[at : at + 64], y[at : at + 64])
np.save("params.npy", np.asarray(params[0][0]))
"""


@pytest.mark.verify
def test_an_eager_step_is_raced_compiled(tmp_path: Path) -> None:
    done = run_tune(tmp_path, SCRIPT, "--budget", "60s", "--details", "--patch", "fast.patch", jax=True)
    assert "tuning the loop at train.py:18" in done.err and "Racing jax.jit" in done.err
    assert "train.py:14 update, runs eagerly" in done.words
    assert not (tmp_path / "params.npy").exists()
    if "with: jax.jit" in done.out:
        assert "+@jax.jit" in (tmp_path / "fast.patch").read_text()


IN_THE_LOOP = SCRIPT.replace(
    "        params = update(params, x[at : at + 64], y[at : at + 64])",
    "        gradients = jax.grad(loss)(params, x[at : at + 64], y[at : at + 64])\n"
    "        params = jax.tree.map(lambda leaf, gradient: leaf - 0.1 * gradient, params, gradients)",
)


@pytest.mark.verify
def test_a_step_that_stands_in_the_loop_becomes_a_compiled_function(tmp_path: Path) -> None:
    done = run_tune(tmp_path, IN_THE_LOOP, "--budget", "60s", "--details", "--patch", "fast.patch", jax=True)
    assert "train.py:20 to 21, runs eagerly" in done.words and "several steps per call" in done.words
    if "with: jax.jit" in done.out:
        text = (tmp_path / "fast.patch").read_text()
        assert "+@jax.jit" in text and ("train_step(params, at)" in text or "train_step(params, x[" in text)


BESIDE = """
def collect():
    return sum([number * number for number in range(20_000)])

@jax.jit
def update"""


def test_a_compiled_step_is_found_by_its_calls_and_the_lines_that_take_the_rest_of_the_time_by_samples(tmp_path: Path) -> None:
    """What an epoch's end takes is no part of a step."""
    text = SCRIPT.replace("\ndef update", BESIDE).replace(
        "        params = update", "        collect()\n        params = update"
    )
    text = text.replace(
        'np.save("params', '    time.sleep(0.1)  # an evaluation at the end of an epoch\nnp.save("params'
    ).replace("import n", "import time, n", 1)
    done = run_tune(tmp_path, text, "--budget", "5s", "--details", jax=True)
    assert "tuning the loop at train.py:22" in done.err and "The step is compiled already" in done.out
    found = re.search(r"A step spends (\d+)% in train\.py:15 \(collect", done.words)
    assert found is not None and int(found[1]) > 50 and "Where a step's time goes" in done.words, done.words
    assert "an evaluation" not in done.words, done.words


COMPILED = SCRIPT.replace("def update", "@jax.jit\ndef update").replace(
    "    gradients = jax.grad(loss)(params, x, y)\n    return [",
    "    value, gradients = jax.value_and_grad(loss)(params, x, y)\n    return [",
)
COMPILED = COMPILED.replace("zip(params, gradients)]", "zip(params, gradients)], value").replace(
    "        params = update(params, x[at : at + 64], y[at : at + 64])",
    "        params, value = update(params, x[at : at + 64], y[at : at + 64])\n        print(float(value))",
)


def test_what_fits_a_compiled_step_is_named(tmp_path: Path) -> None:
    done = run_tune(tmp_path, COMPILED, "--dry-run", jax=True)
    assert "would try: several steps per call: " in done.words
    assert "advice: Batches made ahead: " in done.words


@pytest.mark.verify
def test_several_steps_per_call_are_raced_and_written(tmp_path: Path) -> None:
    done = run_tune(
        tmp_path, COMPILED.replace("print(float(value))", "last = value"), "--budget", "60s", "--patch", "fast.patch", jax=True
    )
    raced = next(line for line in done.err.splitlines() if "Racing " in line)
    assert "several steps per call" in raced and "unsafe" not in done.out
    if re.search(r"Speed-up [\d.]+x.*, with: .*several steps per call", done.words):
        assert "+def several_steps(" in (tmp_path / "fast.patch").read_text()
        assert "No difference was found: " in done.words
