"""Edits of loops as the search writes them: refused where a loop counts on what they change."""

from __future__ import annotations

from pathlib import Path

import pytest

from outpace.capture.process_tree import ProcessTree
from outpace.tune.same import Judgement, Original
from outpace.tune.session import tuning
from tests.integration.programs import forks_for, needs_jax, needs_tensorflow

JAX = """import jax, jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
data = rng.standard_normal((10, 4, 4)).astype("float32")
params, momentum = {"w": jnp.ones(4), "b": jnp.zeros(())}, jnp.zeros(4)
rate, losses, total, loss, buffer = 0.1, [], 0.0, jnp.ones(()), np.zeros((4, 4), "float32")

def loss_of(params, x):
    return jnp.mean((x @ params["w"] + params["b"] - 1) ** 2)

@jax.jit
def step(params, momentum, x, rate):
    loss, grads = jax.value_and_grad(loss_of)(params, x)
    momentum = 0.9 * momentum + grads["w"]
    return {"w": params["w"] - rate * momentum, "b": params["b"] - rate * grads["b"]}, momentum, loss

def filled(x):
    buffer[:] += x
    return buffer * 0.1

def report():
    return [float(params[name].sum()) for name in params]

for epoch in range(3):
    for i, x in enumerate(data):
        # before
        params, momentum, loss = step(params, momentum, x, rate)
        total += float(loss)
        losses.append((i, loss.item()))
    rate = rate * 0.5
print(total, losses[-1])
"""
TENSORFLOW = """import io
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
data = tf.data.Dataset.from_tensor_slices(rng.standard_normal((40, 4)).astype("float32")).batch(4)
weights, count = tf.Variable(tf.ones(4)), tf.Variable(0.0)
losses, rate, total, box, mean = [], tf.constant(0.1), 0.0, [0], tf.keras.metrics.Mean()

@tf.function
def step(x, rate):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.linalg.matvec(x, weights) - 1) ** 2) + 0.0 * count
    weights.assign_sub(rate * tape.gradient(loss, weights))
    count.assign_add(1.0)
    return loss

def look():
    return float(weights[0])

for epoch in range(3):
    for i, x in enumerate(data):
        # before
        loss = step(x, rate)
        total += float(loss)
        losses.append((i, float(loss)))
print(total, losses[-1])
"""
NUMBERS = "        losses.append((i, loss.item()))\n"
WRONG_JAX = {
    "the state after each step": (NUMBERS, "        losses.append(np.asarray(params['w']))\n"),
    "the state after each step, by a function": (NUMBERS, "        losses.append(report())\n"),
    "the state in another branch": (
        NUMBERS,
        "        if i % 3 == 0: pass\n        else: losses.append(np.asarray(params['w']))\n",
    ),
    "a wait for each step": (NUMBERS, "        losses.append(loss.block_until_ready())\n"),
    "a buffer": ("momentum, x, rate)\n        total", "momentum, filled(x), rate)\n        total"),
    "a rate that each step changes": ("        total +=", "        rate = rate * 0.9\n        total +="),
    "a list that the loop goes over": ("enumerate(data)", "enumerate(d for d in data if len(losses) < 25)"),
    "the same random numbers": (
        "# before\n",
        "x = x + rng.random()\n        losses.append(rng.random())\n        losses.append(0)\n",
    ),
    "a value that the step needs": ("x, rate)\n        total", "x, float(loss))\n        total"),
}
WRONG_TENSORFLOW = {
    "the weights after each step": ("total += float(loss)", "total += weights.numpy().sum()"),
    "the weights after each step, by a function": ("total += float(loss)", "total += look()"),
    "the weights in another branch": (
        "        total +=",
        "        if i % 3 == 0: pass\n        else: losses.append(look())\n        total +=",
    ),
    "the same random numbers": (
        "# before\n        loss = step(x, rate)\n",
        "x = x + rng.random()\n        loss = step(x, rate)\n        losses.append(rng.random())\n",
    ),
    "variables that are set in between": ("# before", "count.assign(float(i))"),
    "a rate that each step changes": ("        total +=", "        rate = rate * 0.9\n        total +="),
    "a list that is looked at before each step": ("# before", "box.append(len(losses))"),
    "a metric by another name": (
        "        total +=",
        "        other.update_state(loss)\n        print(float(mean.result()))\n        total +=",
    ),
}


def judged(folder: Path, text: str, change: str) -> Judgement:
    """A change of a script, as the search writes it."""
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    plan = {
        "script": str(path), "argv": [], "module": False, "fit": 1, "budget": 60.0, "asked_budget": None, "then": "stop",
        "allow": [], "only_limits": False, "dry_run": True,
    }  # fmt: skip
    with ProcessTree() as family:
        seen = tuning(plan, family.folder).seen
    assert seen is not None
    found = next((each for each in seen.candidates if each.id == change), None)
    assert found is not None, [each for each in seen.others if each.id == change]
    with Original(str(path), place=seen.place, folder=str(folder), every=found.every, forks=forks_for(text)) as original:
        return original.against(found.texts, found.grouped)


def edited(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


@needs_jax
def test_several_steps_of_a_loop_of_jax_are_the_same_program(tmp_path: Path) -> None:
    found = judged(tmp_path, JAX, "loop_several")
    assert found.same is True, found


@needs_jax
@pytest.mark.verify
@pytest.mark.parametrize("name", WRONG_JAX)
def test_a_loop_of_jax_that_counts_on_what_is_changed(name: str, tmp_path: Path) -> None:
    found = judged(tmp_path, edited(JAX, *WRONG_JAX[name]), "loop_several")
    assert found.same is not True, found


@needs_tensorflow
def test_several_steps_of_a_loop_of_tensorflow_are_the_same_program(tmp_path: Path) -> None:
    found = judged(tmp_path, TENSORFLOW, "loop_calls")
    assert found.same is True, found


@needs_tensorflow
@pytest.mark.verify
@pytest.mark.parametrize("name", WRONG_TENSORFLOW)
def test_a_loop_of_tensorflow_that_counts_on_what_is_changed(name: str, tmp_path: Path) -> None:
    text = TENSORFLOW.replace("def look", "other = mean\n\ndef look")
    found = judged(tmp_path, edited(text, *WRONG_TENSORFLOW[name]), "loop_calls")
    assert found.same is not True, found
