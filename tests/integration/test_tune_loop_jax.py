"""`outpace tune` on loops of JAX that read no tf.data."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.programs import environment

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


def run(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "outpace", "tune", *options, "train.py"]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False, env=environment(jax=True)
    )


@pytest.mark.verify
def test_an_eager_step_is_raced_compiled(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPT, "--budget", "12s", "--details", "--patch", "fast.patch")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "tuning the loop at train.py:18" in done.stderr and "Racing jax.jit" in done.stderr
    assert "train.py:14 update, runs eagerly" in " ".join(done.stdout.split())
    assert not (tmp_path / "params.npy").exists()
    if "with: jax.jit" in done.stdout:
        assert "+@jax.jit" in (tmp_path / "fast.patch").read_text()


IN_THE_LOOP = SCRIPT.replace(
    "        params = update(params, x[at : at + 64], y[at : at + 64])",
    "        gradients = jax.grad(loss)(params, x[at : at + 64], y[at : at + 64])\n"
    "        params = jax.tree.map(lambda leaf, gradient: leaf - 0.1 * gradient, params, gradients)",
)


@pytest.mark.verify
def test_a_step_that_stands_in_the_loop_becomes_a_compiled_function(tmp_path: Path) -> None:
    done = run(tmp_path, IN_THE_LOOP, "--budget", "12s", "--details", "--patch", "fast.patch")
    assert done.returncode == 0, done.stderr[-3000:]
    said = " ".join(done.stdout.split())
    assert "train.py:20 to 21, runs eagerly" in said and "several steps per call" in said
    if "with: jax.jit" in done.stdout:
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
    done = run(tmp_path, text, "--budget", "5s", "--details")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "tuning the loop at train.py:22" in done.stderr and "The step is compiled already" in done.stdout
    said = " ".join(done.stdout.split())
    found = re.search(r"A step spends (\d+)% in train\.py:15 \(collect", said)
    assert found is not None and int(found[1]) > 50 and "Where a step's time goes" in said, said
    assert "an evaluation" not in said, said


COMPILED = SCRIPT.replace("def update", "@jax.jit\ndef update").replace(
    "    gradients = jax.grad(loss)(params, x, y)\n    return [",
    "    value, gradients = jax.value_and_grad(loss)(params, x, y)\n    return [",
)
COMPILED = COMPILED.replace("zip(params, gradients)]", "zip(params, gradients)], value").replace(
    "        params = update(params, x[at : at + 64], y[at : at + 64])",
    "        params, value = update(params, x[at : at + 64], y[at : at + 64])\n        print(float(value))",
)


def test_what_fits_a_compiled_step_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, COMPILED, "--dry-run")
    assert done.returncode == 0, done.stderr[-3000:]
    said = " ".join(done.stdout.split())
    for title in ("several steps per call", "values read later", "donated arguments"):
        assert f"would try: {title}: " in said
    assert "advice: Batches made ahead: " in said
    assert re.search(r"waits to read values \(train\.py:\d+ float\(value\)\)", said)


@pytest.mark.verify
def test_several_steps_per_call_are_raced_and_written(tmp_path: Path) -> None:
    done = run(tmp_path, COMPILED.replace("print(float(value))", "last = value"), "--budget", "30s", "--patch", "fast.patch")
    assert done.returncode == 0, done.stderr[-3000:]
    raced = next(line for line in done.stderr.splitlines() if "Racing " in line)
    assert "several steps per call" in raced and "unsafe" not in done.stdout
    said = " ".join(done.stdout.split())
    if re.search(r"Speed-up [\d.]+x.*, with: .*several steps per call", said):
        assert "+def several_steps(" in (tmp_path / "fast.patch").read_text()
        assert "No difference was found: " in said


@pytest.mark.verify
def test_a_loop_in_a_function_whose_step_gives_its_state_away_begins_anew(tmp_path: Path) -> None:
    head, loop = COMPILED.split("for epoch in range(100_000):\n")
    inside = (
        "def main(params):\n    for epoch in range(2):\n"
        + "".join(f"    {line}\n" for line in loop.splitlines()[:3])
        + "\nmain(params)\n"
    )
    done = run(tmp_path, head.replace("@jax.jit", "@jax.jit(donate_argnums=(0,))") + inside, "--budget", "8s", "--details")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "state is given away already" in " ".join(done.stdout.split())
