"""Rules about training loops, Keras and profiler marks."""

from __future__ import annotations

import textwrap

import pytest

from outpace.lint import lint_text
from tests.unit.lint.test_lint_pipeline import found, rules, warnings

HEAD = """import tensorflow as tf
import numpy as np
ds = make()
@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = model(x)
    optimizer.apply_gradients(zip(tape.gradient(loss, w), w))
    return loss
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for x in ds:\n    loss = train_step(x)\n    print(loss.numpy())", {"LP101"}),
        ("for x in ds:\n    history.append(train_step(x).numpy())", {"LP101"}),
        ("while True:\n    loss = train_step(next(it))\n    total = loss * 2\n    mean += total.numpy()", {"LP101"}),
        ("m = tf.keras.metrics.Mean()\nfor x in ds:\n    m(train_step(x))\n    print(m.result().numpy())", {"LP101"}),
        ("for x in ds:\n    loss = train_step(x)\n    print(f'loss {loss}')", {"LP102"}),
        ("for x in ds:\n    loss = train_step(x)\n    total += float(loss)", {"LP102"}),
        ("for x in ds:\n    print(train_step(x))", {"LP102"}),
        ("for x in ds:\n    loss = strategy.run(train_step, args=(x,))\n    print(float(loss))", {"LP102"}),
        ("for f in names:\n    train_step(np.load(f))", {"LP106"}),
        ("def chunk(f):\n    return np.load(f)\nfor f in names:\n    x = chunk(f)\n    train_step(x)", {"LP106"}),
        ("for f in names:\n    for x in np.load(f):\n        train_step(x)", set()),
        # only every few steps, or after the epoch
        ("for i, x in enumerate(ds):\n    loss = train_step(x)\n    if i % 100 == 0:\n        print(loss.numpy())", set()),
        ("for epoch in range(9):\n    for x in ds:\n        loss = train_step(x)\n    print(epoch, loss.numpy())", set()),
        # not of the step
        ("for x in ds:\n    train_step(x)\n    print('step')", set()),
        ("for i, x in enumerate(ds):\n    loss = train_step(x)\n    print(i, loss.shape)", set()),
        ("for i in range(9):\n    loss = train_step(x)\n    print(float(i))", set()),
        ("for x in ds.take(9):\n    plot(x.numpy())", set()),
        ("for x in ds:\n    losses.append(train_step(x))", set()),
        (
            "def epoch():\n    for x in ds:\n        loss = train_step(x)\n    return loss\nfor e in range(9):\n    print(epoch())",
            set(),
        ),
        ("for x in ds:\n    loss = train_step(x)\n    tf.print(loss)", set()),
    ],
)
def test_waiting_for_the_device_in_every_step(body: str, expected: set[str]) -> None:
    assert warnings(body, HEAD) == expected


EAGER = """
def step(x):
    with tf.GradientTape() as tape:
        loss = model(x)
    optimizer.apply_gradients(zip(tape.gradient(loss, w), w))
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (EAGER + "for x in ds:\n    step(x)", {"LP103"}),
        ("for x in ds:\n    with tf.GradientTape() as t:\n        loss = model(x)\n    opt.apply_gradients(g)", {"LP103"}),
        ("class T:\n    def train(self):\n        for x in self.ds:\n            self.one(x)\n    def one(self, x):\n"
         "        with tf.GradientTape() as t:\n            loss = m(x)\n        self.opt.apply_gradients(g)", {"LP103"}),
        *[(f"{top}class M({base}):\n    def train_step(self, x):\n        for i in range(3):\n            with tf.GradientTape() as t:\n"
           "                loss = self(x)\n            self.optimizer.apply_gradients(g)", expected)
          for top, base, expected in (
              ("", "object", {"LP103"}), ("", "tf.Module", {"LP103"}), ("", "keras.Model", set()),
              ("import keras_core\n", "keras_core.Model", set()), ("from other import Base\n", "Base", set()),
              ("class Base(keras.Model):\n    pass\n", "Base", set()), ("class Base:\n    pass\n", "Base", {"LP103"}),
          )],
        (EAGER + "fast = tf.function(step)\nfor x in ds:\n    fast(x)", set()),
        (EAGER + "@tf.function\ndef outer(x):\n    step(x)\nfor x in ds:\n    outer(x)", set()),
        (EAGER + "@tf.function\ndef outer(x):\n    strategy.run(step, args=(x,))\nfor x in ds:\n    outer(x)", set()),
        ("@tf.function(jit_compile=True)\n" + EAGER.strip() + "\nfor x in ds:\n    step(x)", set()),
        ("@tf.function\ndef epoch(ds):\n    for x in ds:\n        with tf.GradientTape() as t:\n            loss = m(x)\n"
         "        opt.apply_gradients(g)", set()),
        ("class M(tf.keras.Model):\n    def train_step(self, data):\n        with tf.GradientTape() as t:\n            loss = self(data)\n"
         "        self.optimizer.apply_gradients(g)", set()),
        ("for x in ds.take(1):\n    with tf.GradientTape() as t:\n        y = m(x)\n    show(t.gradient(y, x))", set()),  # no update
        ("with tf.GradientTape() as tape:\n    y = x * x\nprint(tape.gradient(y, x))", set()),  # no loop
        ("tf.compat.v1.disable_eager_execution()\n" + EAGER + "for x in ds:\n    step(x)", set()),
    ],
)  # fmt: skip
def test_eager_steps(body: str, expected: set[str]) -> None:
    assert warnings(body, "import tensorflow as tf\nds = tf.data.Dataset.range(9)\n") == expected


def test_a_step_with_two_tapes_is_told_once() -> None:
    tape = "    with tf.GradientTape() as t:\n        loss = m(x)\n    opt.apply_gradients(g)\n"
    assert [rule for _, rule, _ in found(f"for x in y:\n{tape}{tape}", "import tensorflow as tf\n")] == ["LP103"]


MARK = "tf.profiler.experimental.Trace('train', step_num=i, _r=1)"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"for i, x in enumerate(ds):\n    with {MARK}:\n        work(x)", {"PF401"}),
        (f"for x in ds:\n    with {MARK}:\n        work(x)", {"PF401"}),
        (f"for i in range(9):\n    with {MARK}:\n        work(next(it))", set()),
        (f"for i in range(9):\n    with {MARK}:\n        work()", set()),
        (f"for i, x in enumerate(names):\n    with {MARK}:\n        work(next(it))", set()),
        ("for x in ds:\n    with Trace('train'):\n        work(x)", set()),
    ],
)
def test_data_fetched_outside_the_mark(body: str, expected: set[str]) -> None:
    assert rules(body, "import tensorflow as tf\n") == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("model.compile('adam', run_eagerly=True)", [("LP111", "warning")]),
        ("tf.config.run_functions_eagerly(True)", [("LP111", "warning")]),
        ("model.run_eagerly = True", [("LP111", "warning")]),
        ("if debug:\n    tf.config.run_functions_eagerly(True)", [("LP111", "note")]),
        ("model.compile('adam', run_eagerly=False)", []),
        ("model.compile('adam', run_eagerly=args.eager)", []),
        ("tf.keras.layers.LSTM(8, recurrent_dropout=0.2)", [("LP112", "warning")]),
        ("tf.keras.layers.GRU(8, recurrent_dropout=rate)", [("LP112", "warning")]),
        ("tf.keras.layers.LSTM(8, dropout=0.2, recurrent_dropout=0.0)", []),
        ("tf.keras.layers.LSTM(8, recurrent_dropout=0.2, unroll=True)", []),
        ("tf.keras.layers.GRU(8, recurrent_dropout=0.2, activation='relu')", []),
        ("tf.keras.layers.SimpleRNN(8, recurrent_dropout=0.2)", []),
        ("model.fit(x, y, validation_split=0.6)", [("LP113", "warning")]),
        ("STEPS = 200\nmodel.fit(ds, steps_per_epoch=20, validation_data=dv, validation_steps=STEPS)", [("LP113", "warning")]),
        ("model.fit(ds, steps_per_epoch=20, validation_data=dv, validation_steps=200, validation_freq=20)", []),
        ("model.fit(ds, steps_per_epoch=20, validation_data=dv, validation_steps=args.steps)", []),
        ("model.fit(x, y, validation_split=0.2)", []),
        ("m = tf.keras.Sequential([])\nfor x in xs:\n    m.predict(x)", [("LP105", "warning")]),
        ("m = tf.keras.Sequential([])\nfor n in range(9):\n    m.fit(x, epochs=1)\n    m.predict(x)", []),
        ("for n in folds:\n    m = tf.keras.Sequential([])\n    m.predict(x)", []),
        ("m = tf.keras.Sequential([])\nfor name in ['test', 'val']:\n    m.predict(data[name])", []),
        ("m = tf.keras.Sequential([])\nfor x in xs:\n    m(x)\nm.predict(x)", []),
        ("m = tf.keras.Sequential([])\nfor epoch in range(9):\n    for x in xs:\n        m(x)\n    m.predict(y)", []),
        ("for x in xs:\n    forest.predict(x)", []),
        ("tf.keras.callbacks.TensorBoard(logs, update_freq='batch')", [("LP110", "warning")]),
        ("tf.keras.callbacks.TensorBoard(logs, update_freq=1)", [("LP110", "warning")]),
        ("tf.keras.callbacks.TensorBoard(logs, histogram_freq=1)", [("LP110", "note")]),
        ("tf.keras.callbacks.TensorBoard(logs, update_freq=500)", []),
        ("TensorBoard(logs, update_freq='batch')", []),  # whose?
        ("loss = optimizer.get_scaled_loss(loss)", [("KR301", "warning")]),
        ("g = optimizer.get_unscaled_gradients(g)", [("KR301", "warning")]),
        ("class O:\n    def get_scaled_loss(self, loss): return loss\nO().get_scaled_loss(loss)", []),
        ("import os\nos.environ['TF_USE_LEGACY_KERAS'] = '1'\noptimizer.get_scaled_loss(loss)", []),
        ("loss = optimizer.scale_loss(loss)", []),
    ],
)
def test_keras(body: str, expected: list[tuple[str, str]]) -> None:
    assert [item[1:] for item in found(body, "import tensorflow as tf\n")] == expected


def test_names_from_keras_itself() -> None:
    assert rules("TensorBoard(x, update_freq='batch')", "from keras.callbacks import TensorBoard\n") == {"LP110"}
    assert rules("TensorBoard(x, update_freq='batch')", "from tensorflow.keras.callbacks import TensorBoard\n") == {"LP110"}


def test_the_edit_of_run_eagerly_replaces_the_value() -> None:
    text = "import keras\nmodel.compile('adam', run_eagerly=True)\n"
    (message,) = lint_text(text)
    assert message.edit is not None
    lines = textwrap.dedent(text).splitlines()
    line = lines[message.edit.line - 1]
    assert (
        line[: message.edit.column] + message.edit.text + line[message.edit.end_column :]
        == "model.compile('adam', run_eagerly=False)"
    )


NORMS = "def norms(m):\n    return [np.linalg.norm(w.numpy()) for w in m.trainable_variables]\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "for x in ds:\n    train_step(x)\n    for w in model.trainable_variables:\n        note(np.linalg.norm(w.numpy()))",
            {"LP104"},
        ),
        (
            "for x in ds:\n    train_step(x)\n    for i, w in enumerate(model.weights):\n        note(i, np.mean(np.asarray(w)))",
            {"LP104"},
        ),
        ("for x in ds:\n    train_step(x)\n    note({w.path: w.numpy().std() for w in model.variables})", {"LP104"}),
        ("for x in ds:\n    train_step(x)\n    total = sum(np.sum(v) for v in model.get_weights())", {"LP104"}),
        (NORMS + "for x in ds:\n    train_step(x)\n    history.append(norms(model))", {"LP104"}),
        (NORMS + "def note(m):\n    history.append(norms(m))\nfor x in ds:\n    train_step(x)\n    note(model)", {"LP104"}),
        (
            "ws = model.trainable_variables\nfor x in ds:\n    train_step(x)\n    for w in ws:\n        a = w.numpy()\n        note(a)",
            {"LP104"},
        ),
        (
            "for x in ds:\n    train_step(x)\n    for layer in model.layers:\n        for w in layer.weights:\n            note(w.numpy())",
            {"LP104"},
        ),
        (
            "class Norms(tf.keras.callbacks.Callback):\n    def on_train_batch_end(self, batch, logs=None):\n"
            "        print([np.linalg.norm(w) for w in self.model.trainable_weights])",
            {"LP104"},
        ),
        # only now and then, or after the epoch
        (NORMS + "for i, x in enumerate(ds):\n    train_step(x)\n    if i % 100 == 0:\n        norms(model)", set()),
        ("for e in range(9):\n    for x in ds:\n        train_step(x)\n    w = model.get_weights()", set()),
        (
            "class N(tf.keras.callbacks.Callback):\n    def on_epoch_end(self, e, logs=None):\n        self.model.get_weights()",
            set(),
        ),
        # nothing is copied to NumPy
        ("for x in ds:\n    train_step(x)\n    for w in model.trainable_variables:\n        w.assign(w * 0.9)", set()),
        ("for x in ds:\n    train_step(x)\n    n = sum(np.prod(w.shape) for w in model.weights)", set()),
        ("for x in ds:\n    train_step(x)\n    for row in rows:\n        note(row.numpy())", set()),
        ("def a():\n    b()\ndef b():\n    a()\nfor x in ds:\n    train_step(x)\n    a()", set()),
    ],
)
def test_numpy_over_all_weights_in_every_step(body: str, expected: set[str]) -> None:
    assert warnings(body, HEAD) == expected


def test_the_call_that_leads_to_the_weights_is_named() -> None:
    (message,) = [
        m for m in lint_text(HEAD + NORMS + "for x in ds:\n    train_step(x)\n    norms(model)\n") if m.rule == "LP104"
    ]
    assert (message.line, message.sentence) == (11, "All weights are copied to NumPy in every step, for the call in line 14.")
