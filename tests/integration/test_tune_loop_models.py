"""`outpace tune` on loops whose steps call Keras models eagerly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.programs import needs_tensorflow, run_on_tensorflow, run_tune

pytestmark = needs_tensorflow

SCRIPT = """
import numpy as np, tensorflow as tf, keras

keras.utils.set_random_seed(0)

class Agent:
    def __init__(self):
        dense = [keras.layers.Dense(64, activation="relu") for _ in range(12)]
        self.policy = keras.Sequential([keras.Input((4,)), *dense, keras.layers.BatchNormalization(), keras.layers.Dense(2)])
        self.memory = []

agent = Agent()
critic = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.01)
optimizer.build(critic.trainable_variables)

@tf.function
def update(states):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(critic(states, training=True) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, critic.trainable_variables), critic.trainable_variables))
    return loss

state = np.ones((1, 4), "float32")
while True:
    action = int(np.argmax(agent.policy(state, training=True)[0]))
    agent.memory.append(action)
    state = np.roll(state, action)
    update(tf.repeat(tf.constant(state), 8, axis=0))
"""
COUNTS = """
class Counting(keras.Model):
    calls = 0

    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(2)

    def call(self, x, training=None):
        self.calls += 1
        return self.inner(x)

"""
DROPS = COUNTS.replace("        self.calls += 1\n", "").replace(", training=None", "")
DROPS = DROPS.replace("keras.layers.Dense(2)", "keras.layers.Dropout(0.5)")
HEAD = "agent = Agent()\n"
EAGER = "agent.policy(state, training=True)[0]"
ASKED = "agent.policy.predict(state.repeat({}, 0), verbose=0)[0]"
OWN = HEAD + "agent.policy = Counting()\n"
REFUSED = {
    "counts": (HEAD, COUNTS + OWN, "not applicable: models as graphs: Counting.call assigns self.calls"),
    "drops": (HEAD, DROPS + OWN, "not applicable: models as graphs: Counting.call takes no `training`"),
    "many": (EAGER, ASKED.format(1000), "models as graphs: train.py:26 gives Sequential.predict more than 256 examples"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_a_graph_would_change_are_left_as_they_are(tmp_path: Path, name: str) -> None:
    old, new, why = REFUSED[name]
    done = run_tune(tmp_path, SCRIPT.replace(old, new), "--dry-run")
    assert why in done.out, done.out


def test_what_stands_for_predict_gives_what_it_gives(tmp_path: Path) -> None:
    text = """
import numpy as np, keras, tensorflow as tf
from outpace.tune.loop.models import PREDICTED

exec(PREDICTED.format(name="predicted", maker="tf.function"))
keras.utils.set_random_seed(0)
a, b = keras.Input((4,)), keras.Input((2,))
model = keras.Model([a, b], keras.layers.Dropout(0.5)(keras.layers.Dense(3)(keras.layers.concatenate([a, b]))))
short = predicted(model)
for examples in (1, 33, 1000):
    given = [np.random.rand(examples, 4), np.random.rand(examples, 2)]
    left, right = model.predict(given, verbose=0), short(given, verbose=0)
    assert type(left) is type(right) and left.dtype == right.dtype
    np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)
heads = keras.Model(a, [keras.layers.Dense(2)(a), keras.layers.Dense(1)(a)])
for left, right in zip(heads.predict(given[0], verbose=0), predicted(heads)(given[0][:256]), strict=True):
    np.testing.assert_allclose(left[:256], right, rtol=1e-5, atol=1e-6)
data = tf.data.Dataset.from_tensors((tuple(given),))
assert short(data, steps=1).shape == (1000, 3)
"""
    done = run_on_tensorflow(text, tmp_path)
    assert done.code == 0, done.err[-3000:]


ASKING = "+agent.policy.predict = predicted(agent.policy)\n while True:"


@pytest.mark.verify
@pytest.mark.parametrize(
    ("call", "said", "added"),
    [
        (ASKED.format(1), "agent.policy.predict (train.py:26)", (ASKING, "+def predicted(model):\n")),
        (EAGER, "agent.policy (train.py:26) eagerly", ("+agent.policy.call = tf.function(agent.policy.call)\n while True:",)),
    ],
    ids=["predict", "call"],
)
def test_a_model_that_every_step_calls_is_raced_as_a_graph_and_written(
    call: str, said: str, added: tuple[str, ...], tmp_path: Path
) -> None:
    done = run_tune(tmp_path, SCRIPT.replace(EAGER, call), "--budget", "120s", "--details", "--patch", "fast.patch")
    assert f"models as graphs: Every step calls {said}" in done.words, done.words
    patch = (tmp_path / "fast.patch").read_text()
    assert all(text in patch for text in added), done.words
