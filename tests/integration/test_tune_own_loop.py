"""`outpace.tune_loop` in a process that goes on: the documented example, what is put back, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.programs import needs_jax, needs_tensorflow, run_program

DOCS = Path(__file__).parents[2] / "docs" / "tune.md"
TENSORFLOW = """
import json, signal, threading
import numpy as np, keras, tensorflow as tf, outpace

keras.utils.set_random_seed(7)
x = np.random.rand(160, 6).astype("float32")
y = x[:, :3].argmax(1).astype("int32")
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(160, seed=3).batch(16)
hidden = keras.layers.Dense(8, activation="relu")
model = keras.Sequential([keras.Input((6,)), hidden, keras.layers.Dropout(0.1), keras.layers.Dense(3)])
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam(0.01)
reads, forward = tf.data.Dataset.__iter__, type(tf.function(lambda: None)).__call__

def state():
    return [v.numpy().tolist() for v in model.variables]

before = state()
"""
CHECKED = """
same = state() == before and int(optimizer.iterations) == 0
hooked = type(tf.function(lambda: None)).__call__ is not forward
"""
JAX = """
import json
import numpy as np, jax, jax.numpy as jnp, outpace

rng = np.random.default_rng(0)
data = [(rng.random((16, 6)).astype("float32"), rng.integers(0, 3, 16)) for _ in range(10)]
state = {"w": jnp.asarray(rng.random((6, 3)).astype("float32"))}

def loss(state, x, y):
    return -jnp.mean(jax.nn.log_softmax(x @ state["w"])[jnp.arange(16), y])

def step(state, batch):
    gradients = jax.grad(loss)(state, *batch)
    return jax.tree_util.tree_map(lambda w, g: w - 0.1 * g, state, gradients)
"""


def example() -> str:
    """The documented example, with a small budget."""
    blocks = DOCS.read_text(encoding="utf-8").split("```python\n")[1:]
    (text,) = [block.split("```")[0] for block in blocks if "result = outpace.tune_loop(" in block]
    call = "result = outpace.tune_loop(step, data)"
    assert call in text
    head, tail = text.split(call)
    return f"{head}{call[:-1]}, budget=6, progress=False){tail.split(chr(10), 1)[0]}\n{CHECKED}\n{tail.split(chr(10), 1)[1]}"


@needs_tensorflow
def test_the_documented_example_runs_and_leaves_everything_as_it_was(tmp_path: Path) -> None:
    said = """
shown = ["tf.function" in str(result), "<table" in result._repr_html_(), repr(result) == str(result)]
print(json.dumps([same, hooked, *shown, state() != before]))
"""
    ended = run_program(TENSORFLOW + example() + said, tmp_path, timeout=300)
    assert ended.code == 0, ended.err[-3000:]
    assert json.loads(ended.out.splitlines()[-1]) == [True, False, True, True, True, True]


@pytest.mark.verify
@needs_tensorflow
def test_ctrl_c_puts_everything_back(tmp_path: Path) -> None:
    text = example().replace(
        "result = ", "threading.Timer(2.0, signal.raise_signal, [signal.SIGINT]).start()\ntry:\n    result = "
    )
    text = (
        text.split(CHECKED)[0]
        + "except KeyboardInterrupt:\n    ended = True\n"
        + CHECKED
        + "print(json.dumps([ended, same, hooked]))"
    )
    ended = run_program(TENSORFLOW + text.replace("budget=6", "budget=60"), tmp_path, timeout=300)
    assert ended.code == 0, ended.err[-3000:]
    assert json.loads(ended.out.splitlines()[-1]) == [True, True, False]


@needs_jax
def test_a_step_of_jax_with_its_state_and_a_list_of_batches(tmp_path: Path) -> None:
    text = """
before = np.asarray(state["w"]).tolist()
result = outpace.tune_loop(step, data, state=state, budget=6, progress=False)
fast, batches = result.apply()
assert batches is data
for batch in batches:
    state = fast(state, batch)
print(json.dumps(["jax.jit" in str(result), before != np.asarray(state["w"]).tolist()]))
"""
    ended = run_program(JAX + text, tmp_path, jax=True, timeout=300)
    assert ended.code == 0, ended.err[-3000:]
    assert json.loads(ended.out.splitlines()[-1]) == [True, True]


REFUSED = {
    "a generator": ("step, (batch for batch in data), state=state", "can be read only once"),
    "nothing": ("step, [], state=state", "The data is empty"),
    "a failing step": ("step, [1], state=state", "fails on the first batch"),
    "a state that is given away": ("jax.jit(step, donate_argnums=0), data, state=state", "gives its state away"),
    "an iterator inside": ("lambda state, batch: (next(source), state)[1], data, state=state", "Trials would use up"),
}


@needs_jax
def test_what_cannot_be_put_back_is_refused(tmp_path: Path) -> None:
    calls = "".join(
        f"try:\n    outpace.tune_loop({call}, progress=False)\nexcept outpace.OutpaceError as error:\n    print('said', error)\n"
        for call, _ in REFUSED.values()
    )
    ended = run_program(JAX + "source = iter([1, 2])\n" + calls, tmp_path, jax=True)
    said = [line for line in ended.out.splitlines() if line.startswith("said ")]
    assert ended.code == 0 and len(said) == len(REFUSED), ended.err[-3000:]
    for line, (_, part) in zip(said, REFUSED.values(), strict=True):
        assert part in line
