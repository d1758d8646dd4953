"""Trainings that go their own way: a `train_step` with optimizers and variables of its own, data without end, caches in files."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.programs import needs_tensorflow, run_program

pytestmark = needs_tensorflow

MODELS = """
import json, warnings
warnings.simplefilter("ignore")
import numpy as np, tensorflow as tf, keras
from outpace.tune.climb.running import Copies, Running
from outpace.tune.climb.variant import Change, Variant
from outpace.tune.data.verify import Risk
from outpace.tune.optimisations import knobs
from outpace.tune.program.program import Program
from outpace.tune.program.state import Snapshot

DATA = tf.data.Dataset.from_tensor_slices((np.ones((64, 6), "float32"), np.zeros((64, 1), "float32"))).batch(8)

class Own(keras.Model):  # no call(), no `loss` in its logs
    def __init__(self, built):
        super().__init__()
        self.inner = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
        self.own = keras.optimizers.Adam()
        self.seen = tf.Variable(0)
        self.mean = keras.metrics.Mean(name="own_loss")
        self.built = True
        if built:
            self.own.build(self.inner.trainable_variables)
        self.compile()

    @property
    def metrics(self):
        return [self.mean]

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.inner(x, training=True) - y) ** 2)
        variables = self.inner.trainable_variables
        self.own.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.seen.assign_add(1)
        self.mean.update_state(loss)
        return {"own_loss": self.mean.result()}

def built(model):
    Program.of(model, DATA)
    return model

found = {"unbuilt": built(Own(False)).own.built}
with tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
    replicated = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
    replicated.compile("adam", "mse")
found["replicated"] = Program.of(replicated, DATA).model is None, Program.of(replicated, DATA).remark
replicated.fit(DATA, verbose=0)  # as if nothing had been asked
half = keras.Sequential([keras.layers.Dense(3, dtype="mixed_float16"), keras.layers.Dense(1)])
half.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()), "mse")
found["loss scaled"] = built(half).built

model = Own(True)
program, before = Program.of(model, DATA), Snapshot.of(model)
model.fit(DATA, verbose=0)
found["changed"] = sorted(name.rsplit("/", 1)[-1] for name in before.differences())
before.restore()
found["left"] = before.differences(), int(model.seen.numpy()), int(model.own.iterations.numpy())

knob = next(knob for knob in knobs() if knob.id == "jit_compile")
variant = Variant("as it is", DATA).with_change(Change(knob, "", Risk.REORDERED))
found["objection"] = Running(program, variant, "XLA", Copies(30.0, 1 << 26))._check()
print(json.dumps(found))
"""

PIPELINES = """
import json, os
import tensorflow as tf
from outpace.model.errors import CaptureError
from outpace.tune.climb.expected import _batches
from outpace.tune.climb.running import Copies
from outpace.tune.data.tree import describe
from outpace.tune.data.isolated import isolated

calls = []

def loaded(number):
    return tf.numpy_function(lambda n: calls.append(int(n)) or n, [number], tf.int64)

def values(dataset, count):
    return [int(value) for value in dataset.take(count)]

def calls_in(work):
    del calls[:]
    work()
    return len(calls)

numbers = tf.data.Dataset.range(20).map(loaded)
endless = numbers.cache().shuffle(20, seed=1).repeat()
copies = Copies(30.0, 1 << 26)
found = {"filling": calls_in(lambda: copies.fill(endless))}
found["filled"] = calls_in(lambda: values(copies.of(endless).dataset, 60))
try:
    Copies(30.0, 1 << 26, floor=float("inf")).fill(endless)
except CaptureError as error:
    found["no memory"] = str(error)
never_full = numbers.repeat().cache()
copies.fill(never_full)  # ends
found["users own"] = calls_in(lambda: values(endless, 60))

on_disk = numbers.cache("kept")
found["elements"] = values(isolated(on_disk), -1) == list(range(20))
found["files of a trial"] = sorted(name for name in os.listdir() if name.startswith("kept"))
found["written by training"] = calls_in(lambda: values(on_disk, -1))
found["read by a trial"] = calls_in(lambda: values(isolated(on_disk), -1))

def of_batches(dataset):
    return _batches(describe(dataset.cache()).find("cache")[0])

batched = tf.data.Dataset.range(64).batch(8)
found["batches"] = [
    of_batches(batched), of_batches(batched.map(lambda x: x + 1)), of_batches(batched.unbatch()), of_batches(batched.unbatch().batch(4)),
    of_batches(tf.data.Dataset.range(64)),
]
print(json.dumps(found))
"""


def test_what_a_training_step_of_its_own_changes_is_put_back_between_comparisons(tmp_path: Path) -> None:
    ended = run_program(MODELS, tmp_path)
    assert ended.code == 0, ended.err[-3000:]
    found = json.loads(ended.out.splitlines()[-1])
    assert found["unbuilt"], "by a first step"
    alone, why = found["replicated"]
    assert alone and "tf.distribute" in why  # the input alone is tuned
    assert found["loss scaled"]
    assert {"kernel", "bias", "iteration", "total", "Variable:0"} <= set(found["changed"])
    assert found["left"] == [[], 0, 0]
    assert found["objection"].startswith("Its losses could not be compared: The training step returns no `loss`")


def test_caches_before_a_repeat_are_filled_and_files_are_written_elsewhere(tmp_path: Path) -> None:
    ended = run_program(PIPELINES, tmp_path)
    assert ended.code == 0, ended.err[-3000:]
    assert json.loads(ended.out.splitlines()[-1]) == {
        "filling": 20,
        "filled": 0,
        "no memory": "Its cache does not fit (element 1): the caches of all variants get half of the memory that was free at the start.",
        "users own": 20,
        "elements": True,
        "files of a trial": [],
        "written by training": 20,
        "read by a trial": 0,
        "batches": [True, True, False, True, False],
    }
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("outpace_cache_")]
