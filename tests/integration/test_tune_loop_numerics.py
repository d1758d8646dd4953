"""What a graph, or XLA, does to the steps of a loop: the same but for rounding, or it is not kept. Traps of Python's are seen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.loops import HEAD
from tests.integration.programs import needs_jax, needs_tensorflow, run_program

TENSORFLOW = (
    HEAD
    + """
import keras, random, tensorflow as tf
loops.add_tensorflow(tf)
keras.utils.set_random_seed(7)
x = np.random.rand(640, 6).astype("float32")
y = x[:, :3].argmax(1).astype("int32")
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
hidden = keras.layers.Dense(16, activation="relu")
model = keras.Sequential([keras.Input((6,)), hidden, keras.layers.Dropout(0.2), keras.layers.Dense(3)])
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.SGD(0.01)

def changed(graph):
    def step(*args):
        result = graph(*args)
        hidden.kernel.assign(hidden.kernel * 1.001)
        return result
    return step

BEFORE

def train_step(a, b):
    with tf.GradientTape() as tape:
        loss = loss_fn(b, model(PREPARED, training=True)) + 1e-3 * tf.reduce_sum(hidden.kernel**2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    AFTER
    return loss

for epoch in range(100_000):
    EPOCH
    for a, b in data:
        train_step(a, b)
"""
)
JAX = (
    HEAD
    + """
import tensorflow as tf, jax, jax.numpy as jnp
loops.add_tensorflow(tf)
loops.add_jax(jax)
rng = np.random.default_rng(0)
x = rng.random((640, 6)).astype("float32")
y = x[:, :3].argmax(1).astype("int32")
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)

def changed(graph):
    return lambda *args: jax.tree_util.tree_map(lambda leaf: leaf * 1.001, graph(*args))

def loss(w, a, b):
    return -jnp.mean(jax.nn.log_softmax(a @ w)[jnp.arange(16), b])

def update(w, a, b):
    return w - 0.1 * jax.grad(loss)(w, a, b)

w = jnp.asarray(rng.random((6, 3)).astype("float32"))
for epoch in range(100_000):
    for a, b in data.as_numpy_iterator():
        w = update(w, a, b)
"""
)
TRAPS: dict[str, tuple[dict[str, Any], str]] = {
    "a counter": ({"BEFORE": "count = 0", "AFTER": "global count; count += 1"}, "assigns count outside of itself"),
    "a rate that Python changes": (
        {"BEFORE": "rate = {'lr': 0.01}", "AFTER": "optimizer.learning_rate.assign(rate['lr'])", "EPOCH": "rate['lr'] *= 0.99"},
        "reads rate, whose content the program changes",
    ),
    "a seed of Python's": (
        {"BEFORE": "draw = random.Random(3)", "PREPARED": "tf.nn.dropout(a, 0.1, seed=draw.randint(0, 99))"},
        "calls draw.randint()",
    ),
}


def asked(text: str, folder: Path, *args: str, jax: bool = False, parts: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What is said of each knob."""
    filled = {"BEFORE": "pass", "PREPARED": "a", "AFTER": "pass", "EPOCH": "pass", **(parts or {})}
    for name, part in filled.items():
        text = text.replace(name, part)
    ended = run_program(text, folder, *args, jax=jax, timeout=300)
    assert ended.code == 0, ended.err[-3000:]
    found: dict[str, Any] = json.loads(ended.out.splitlines()[-1])
    assert "error" not in found, found
    return found


@needs_tensorflow
@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("arrays", [False, True])
def test_several_steps_in_one_call_leave_what_single_ones_leave(tmp_path: Path, wrong: bool, arrays: bool) -> None:
    """Of tf.data, and of arrays, of which the steps are made again that the loop has made."""
    text = TENSORFLOW.replace("def train_step", "@tf.function\ndef train_step")
    if arrays:
        text = text.replace("a, b in data", "at in range(0, 640, 16)").replace(
            "step(a, b)\n", "step(x[at:at + 16], y[at:at + 16])\n"
        )
        text = text.replace("def train_step(x[at:at + 16], y[at:at + 16])", "def train_step(a, b)")
    inside, sentence, *_ = asked(text, tmp_path, *(["wrong"] if wrong else []))["loop_calls"]
    assert inside != wrong, sentence


@needs_tensorflow
def test_what_metrics_say_after_each_step_is_compared_with_the_rest(tmp_path: Path) -> None:
    """The loop that runs is changed as the one that was looked at, and what it does with the values runs."""
    text = TENSORFLOW.replace("def train_step", "mean, shown = keras.metrics.Mean(), []\n@tf.function\ndef train_step")
    text = text.replace("AFTER", "mean.update_state(loss)")
    text = text.replace(
        "        train_step(a, b)",
        "        loss = train_step(a, b)\n        shown.append((float(loss), mean.result().numpy()))",
    )
    text = text.replace(
        "loop.observe()", "loop.observe(); said['after'] = len(loop.woven.body.after) if loop.woven else loop.unwoven"
    )
    found = asked(text, tmp_path)
    inside, sentence, *_ = found["loop_calls"]
    assert inside and found["after"] == 1, (sentence, found)


@needs_tensorflow
def test_a_graph_of_a_step_with_dropout_and_a_changed_rate_agrees(tmp_path: Path) -> None:
    """Keras' random numbers come from variables, and its learning rate is one: both are kept right in a graph."""
    found = asked(TENSORFLOW, tmp_path, parts={"EPOCH": "optimizer.learning_rate.assign(0.01 / (1 + epoch))"})
    inside, sentence, steps = found["loop_graph"]
    assert inside and steps == 50, sentence


@needs_tensorflow
def test_a_graph_that_is_wrong_by_a_thousandth_is_refused_after_one_step(tmp_path: Path) -> None:
    inside, sentence, _ = asked(TENSORFLOW, tmp_path, "wrong")["loop_graph"]
    assert not inside and "after one step from the same state the results differ by" in sentence


@needs_tensorflow
@pytest.mark.parametrize(
    "trap", [pytest.param(each, marks=[pytest.mark.verify] if each != "a counter" else []) for each in TRAPS]
)
def test_what_python_changes_is_not_frozen_in_a_graph(trap: str, tmp_path: Path) -> None:
    parts, said = TRAPS[trap]
    decision, sentence = asked(TENSORFLOW, tmp_path, parts=parts)["loop_graph"]
    assert decision == "not applicable" and said in sentence


@needs_tensorflow
@pytest.mark.parametrize("draws", [True, False])
def test_xla_may_make_other_random_numbers_of_the_same_seeds(tmp_path: Path, draws: bool) -> None:
    """Dropout of Keras has its seeds in variables; of these XLA makes other numbers. Without it nothing may differ."""
    text = TENSORFLOW.replace("def train_step", "@tf.function\ndef train_step")
    inside, sentence, *_ = asked(text if draws else text.replace("Dropout(0.2)", "Dropout(0.0)"), tmp_path)["loop_xla"]
    assert inside and ("other random numbers of the same seeds" in sentence) == draws, sentence


@needs_tensorflow
def test_random_numbers_of_no_variable_are_compared_by_the_losses(tmp_path: Path) -> None:
    inside, sentence, steps = asked(TENSORFLOW, tmp_path, parts={"PREPARED": "tf.nn.dropout(a, 0.1)"})["loop_graph"]
    assert inside and steps == 50 and "draws random numbers that come from none of its variables" in sentence, sentence


@needs_jax
@needs_tensorflow
@pytest.mark.parametrize("how", ["right", pytest.param("wrong", marks=pytest.mark.verify)])
def test_a_compiled_step_of_jax_on_tf_data(how: str, tmp_path: Path) -> None:
    inside, sentence, _ = asked(JAX, tmp_path, how, jax=True)["loop_jit"]
    assert inside == (how == "right"), sentence
    assert inside or "after one step" in sentence
