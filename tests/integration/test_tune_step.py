"""Knobs of the training step on real models: they take effect, are turned back, and leave the training as it was, bit by bit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.programs import needs_tensorflow, run_program

pytestmark = needs_tensorflow

PROGRAM = """
import json, random
import numpy as np, keras, tensorflow as tf
from outpace.tune.optimisations import knobs
from outpace.tune.optimisations.knob import serves
from outpace.tune.optimisations.optimisation import Applies
from outpace.tune.program.program import Program
from outpace.tune.program.state import Snapshot
from outpace.tune.program.stepper import Stepper

X = np.random.RandomState(0).randn(640, 12).astype("float32")
Y = (X[:, :4].argmax(1)).astype("int32")

def made(**options):
    keras.utils.set_random_seed(3)  # Python's, NumPy's and TensorFlow's too
    layers = [keras.Input((12,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.3),
              keras.layers.BatchNormalization(), keras.layers.Dense(4)]
    model = keras.Sequential(layers)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"], jit_compile=False, **options)
    return model

def data():
    return tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(640, seed=5).batch(16)

def trial(model, found):
    program = Program.of(model, data(), epochs=2)
    found["steps"], found["batch"] = program.steps, program.batch_size
    snapshot = Snapshot.of(model)
    for knob in knobs():
        applies = knob.applies(program)
        if not isinstance(applies, Applies):
            found[knob.id] = ["not applicable", applies.sentence]
            continue
        with knob.applied(program):
            stepper = Stepper(program)
            stepper.compile()
        proof = knob.proof(program, stepper)
        ran = stepper.run(5)
        stepper.finish()
        found[knob.id] = [proof, ran, applies.risk.value]
    plain = Stepper(program)
    plain.compile()
    found["inert"] = [knob.id for knob in knobs() if serves(knob, program) and knob.id != "run_eagerly" and knob.proof(program, plain)]
    found["changed"] = len(snapshot.differences())
    snapshot.restore()
    found["left"] = snapshot.differences()

found = {}
def train(model):
    losses = model.fit(data(), epochs=2, verbose=0).history["loss"]
    drawn = [random.random(), np.random.rand(), tf.random.uniform([]).numpy().item()]
    return losses, [w.tobytes().hex() for w in model.get_weights()], drawn

untouched = train(made())
tried = made()
trial(tried, found)
after = train(tried)
found["equal"] = after == untouched
eager = {}
trial(made(run_eagerly=True), eager)
found["eager"] = eager["run_eagerly"]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    ended = run_program(PROGRAM, tmp_path_factory.mktemp("tune"))
    assert ended.code == 0, ended.err[-3000:]
    answer: dict[str, Any] = json.loads(ended.out.splitlines()[-1])
    return answer


def test_every_knob_proves_its_effect(found: dict[str, Any]) -> None:
    assert "compiled by XLA" in found["jit_compile"][0]
    assert found["steps_per_execution"][0] == "one call makes 16 steps"
    assert "compute in bfloat16" in found["mixed_bfloat16"][0]
    assert "compute in float16" in found["mixed_float16"][0]
    assert "traced 1 time into a graph" in found["eager"][0]
    assert found["run_eagerly"] == ["not applicable", "the model does not run eagerly"]


def test_a_knob_that_was_not_turned_proves_nothing(found: dict[str, Any]) -> None:
    assert found["inert"] == []


def test_steps_are_whole_calls(found: dict[str, Any]) -> None:
    assert found["steps_per_execution"][1] == 16
    assert found["jit_compile"][1] == 5


def test_the_program_is_read_as_fit_would(found: dict[str, Any]) -> None:
    assert (found["steps"], found["batch"]) == (80, 16)


def test_trials_change_the_model_and_the_snapshot_brings_it_back(found: dict[str, Any]) -> None:
    assert found["changed"] > 10
    assert found["left"] == []


def test_training_afterwards_is_bit_equal_to_one_without_trials(found: dict[str, Any]) -> None:
    assert found["equal"]
