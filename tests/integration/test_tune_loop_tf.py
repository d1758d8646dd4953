"""What `outpace tune` says of TensorFlow's loops: values read, Keras' own step, Python's state."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.programs import needs_tensorflow, run_tune
from tests.integration.test_tune_loop import HEAD, LOOP, STEP

pytestmark = needs_tensorflow
READS = """
losses, accuracy = [], keras.metrics.SparseCategoricalAccuracy()
for epoch in range(100_000):
    for number, (a, b) in enumerate(data):
        loss = train_step(a, b)
        losses.append(float(loss))
        print(number, accuracy.result().numpy())
"""
ON_BATCH = """
model.compile(optimizer, loss_fn, metrics=["accuracy"])
for epoch in range(100_000):
    for a, b in data:
        logs = model.train_on_batch(a, b, return_dict=True)
"""
WHOLE = """
@tf.function
def epoch(batches):
    total = 0.0
    for a, b in batches:
        total += train_step(a, b)
    return total

optimizer.build(model.trainable_variables)
for number in range(100_000):
    print("epoch", float(epoch(data)))
"""
TRAPS = {
    "a counter": (
        "steps = 0\n",
        STEP.replace("    return", "    global steps\n    steps += 1\n    return"),
        "assigns steps outside",
    ),
    "a dropout's seed": (
        "rng = np.random.default_rng(1)\n",
        STEP.replace("model(a, training=True)", "model(tf.nn.dropout(a, 0.5, seed=rng.integers(99)), training=True)"),
        "calls rng.integers(), which a graph does only once",
    ),
    "a seed of Python's": (
        "import random\ndraw = random.Random(3)\n",
        STEP.replace("model(a, training=True)", "model(tf.nn.dropout(a, 0.1, seed=draw.randint(0, 99)), training=True)"),
        "calls draw.randint()",
    ),
}


@pytest.mark.parametrize(
    "name", [*list(TRAPS)[:1], *(pytest.param(each, marks=pytest.mark.verify) for each in list(TRAPS)[1:])]
)
def test_state_that_a_graph_would_freeze(tmp_path: Path, name: str) -> None:
    head, step, said = TRAPS[name]
    done = run_tune(tmp_path, HEAD + head + step + LOOP, "--dry-run")
    line = next(line for line in done.out.splitlines() if "tf.function:" in line)
    assert line.startswith("not applicable") and said in line, line


def test_train_on_batch(tmp_path: Path) -> None:
    done = run_tune(tmp_path, HEAD + ON_BATCH, "--dry-run")
    assert "would try: XLA" in done.out and "would try: Cache in memory" in done.out, done.out


@pytest.mark.verify
def test_xla_of_train_on_batch_is_an_argument_of_compile(tmp_path: Path) -> None:
    done = run_tune(tmp_path, HEAD + ON_BATCH, "--budget", "90s", "--json", "--patch", "fast.patch")
    assert "model alone" in done.out.lower()
    if (tmp_path / "fast.patch").exists():
        assert "keras/src" not in (tmp_path / "fast.patch").read_text()


def test_an_epoch_inside_of_a_function_is_refused(tmp_path: Path) -> None:
    done = run_tune(tmp_path, HEAD + STEP + WHOLE, "--dry-run", code=8)
    assert done.out == "", done.err[-3000:]
    said = "nothing is tuned: train.py:"
    (line,) = [line for line in done.err.splitlines() if said in line]
    assert "epoch loops over its data set inside of a tf.function: one call makes all steps" in line, line


def test_two_methods_that_are_graphs_are_two_functions() -> None:
    import tensorflow as tf

    from outpace.capture.frames import code_of

    class Trainer:
        def train(self) -> None:
            pass

        def test(self) -> None:
            pass

    for name in ("train", "test"):
        setattr(Trainer, name, tf.function(getattr(Trainer, name)))
    trainer = Trainer()
    found = [code_of(each) for each in (trainer.train, trainer.test)]
    assert [code.co_name for code in found if code is not None] == ["train", "test"]
    assert code_of(len) is None
