"""Scripts that run out of memory, and their output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.programs import Ended, needs_jax, needs_tensorflow, run_python

JAX = """import jax, jax.numpy as jnp
@jax.jit
def step(w, x):
    a = jnp.sin(x[:, :1] * x[:, 0])
    return w - 0.1 * (a @ a).sum()
w = jnp.ones((8, 8))
for i in range(40):
    w = step(w, jnp.ones((500 if i < 35 else 3_000_000, 8)))
    w.block_until_ready()
"""
TENSORFLOW = """import tensorflow as tf
x = tf.ones((2_000_000,))
print(tf.reduce_sum(x[:, None] * x[None, :]))
"""


def _outpace(folder: Path, *words: str, code: int, jax: bool = True) -> Ended:
    done = run_python("-m", "outpace", *words, cwd=folder, jax=jax)
    assert done.code == code, done.err[-3000:]
    return done


@needs_jax
def test_profile_tells_what_stood_there_by_the_program_that_failed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(JAX)
    done = _outpace(tmp_path, "profile", "train.py", code=1)
    assert (
        "Memory ran out: a program needs 32.7 TiB; 32.7 TiB are temporaries; the largest array is f32[3000000,3000000]"
        in done.words
    )
    assert "One array, f32[3000000,3000000], takes 32.7 TiB" in done.words and "train.py:4" in done.words
    assert "RESOURCE_EXHAUSTED" in done.err and "Traceback" in done.err  # the script's own


@pytest.mark.parametrize(
    ("script", "what"),
    [
        pytest.param(JAX, "32.7 TiB were asked for", marks=needs_jax),
        pytest.param(TENSORFLOW, "14.6 TiB were asked for (float[2000000,2000000])", marks=needs_tensorflow),
    ],
)
def test_the_output_of_a_script_is_read_alone(tmp_path: Path, script: str, what: str) -> None:
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "oom.log").write_text(run_python("train.py", cwd=tmp_path, jax=True).err)
    assert what in _outpace(tmp_path, "report", "oom.log", code=0).words
    (page,) = json.loads(_outpace(tmp_path, "memory_viewer", "oom.log", "--json", code=0).out)["tools"].values()
    assert page["findings"][0]["id"] == "allocation_too_large"
    refused = _outpace(tmp_path, "report", "oom.log", "--steps", "3", code=2)
    assert "A log cannot be divided" in refused.err
    other = _outpace(tmp_path, "report", "oom.log", "--tool", "overview", code=2)
    assert "oom.log holds no page of overview." in other.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["oom.log", "train.py"]


def test_a_text_that_says_nothing_of_memory_is_no_profile(tmp_path: Path) -> None:
    (tmp_path / "fine.log").write_text("loss 0.5\n" * 100)
    assert "it is a text file" in _outpace(tmp_path, "report", "fine.log", code=3).err
