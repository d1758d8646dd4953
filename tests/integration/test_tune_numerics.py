"""The band of losses on a real model: what rounds stays inside, what trains differently does not, and nothing is left behind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.programs import needs_tensorflow, run_program

pytestmark = needs_tensorflow

PROGRAM = """
import contextlib, json
import numpy as np, keras, tensorflow as tf
from outpace.model.errors import UsageError
from outpace.tune.climb.variant import Change, Variant
from outpace.tune.data.verify import Risk
from outpace.tune.optimisations import knobs
from outpace.tune.numerics import loss_band
from outpace.tune.program.program import Program
from outpace.tune.program.state import Snapshot

keras.utils.set_random_seed(3)
X = np.random.RandomState(0).randn(640, 12).astype("float32")
Y = (X[:, :4].argmax(1)).astype("int32")
layers = [keras.Input((12,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dropout(0.1), keras.layers.Dense(4)]
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

def made(optimizer):
    model = keras.Sequential(layers)
    model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=False)
    return Program.of(model, tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(640, seed=5).batch(16))

class Broken:
    id = title = "broken"
    def __init__(self, model, name, value):
        self.model, self.name, self.value = model, name, value
    @contextlib.contextmanager
    def applied(self, program):
        kept = getattr(self.model, self.name)
        object.__setattr__(self.model, self.name, self.value)
        yield
        object.__setattr__(self.model, self.name, kept)

def variant(program, knob):
    return Variant(knob.id, program.dataset, (Change(knob, "", Risk.STATISTICAL),))

def answer(program, knob, **options):
    band = loss_band(program, variant(program, knob), **options)
    return [band.inside, band.worst, band.gradients, band.sentence, band.failed_at, band.objection, len(band.base), max(band.band)]

found = {}
program = made("adam")
snapshot = Snapshot.of(program.model)
for knob in knobs():
    if knob.id in ("jit_compile", "mixed_bfloat16"):
        found[knob.id] = answer(program, knob)
adam = program.model.optimizer
found["scale"] = answer(program, Broken(adam, "scale_loss", lambda value: 3 * value))
found["left"] = snapshot.differences()
found["own"] = "_backend_apply_gradients" in vars(adam)

sgd = made(keras.optimizers.SGD(0.2))
found["sgd"] = answer(sgd, Broken(sgd.model.optimizer, "scale_loss", lambda value: 3 * value))
found["nan"] = answer(sgd, Broken(sgd.model.optimizer, "scale_loss", lambda value: value * float("inf")), steps=4, seconds=0.0)

class Silent(keras.Sequential):
    def train_step(self, data):
        return {"accuracy": super().train_step(data)["accuracy"]}

silent = Silent(layers)
silent.compile("sgd", loss, metrics=["accuracy"])
program = Program.of(silent, tf.data.Dataset.from_tensor_slices((X, Y)).batch(16))
try:
    loss_band(program, Variant("same", program.dataset))
except UsageError as error:
    found["silent"] = str(error)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    ended = run_program(PROGRAM, tmp_path_factory.mktemp("numerics"))
    assert ended.code == 0, ended.err[-3000:]
    answer: dict[str, Any] = json.loads(ended.out.splitlines()[-1])
    return answer


def test_xla_stays_inside_the_band(found: dict[str, Any]) -> None:
    inside, worst, gradients, sentence, failed, objection, steps, _ = found["jit_compile"]
    assert inside and worst < 1
    assert 0.8 < gradients < 1.25
    assert (failed, objection, steps) == (None, None, 30)
    assert sentence.startswith("Over 30 steps the losses stay within 0.")


def test_bfloat16_is_reported(found: dict[str, Any]) -> None:
    inside, worst, gradients, sentence, failed, _, _, _ = found["mixed_bfloat16"]
    assert inside and failed is None
    assert 0 < worst < 1
    assert 0.8 < gradients < 1.25
    assert "gradients are" in sentence


def test_gradients_three_times_too_large_are_outside_even_where_the_optimizer_hides_them(found: dict[str, Any]) -> None:
    """Adam divides by the gradients' size, so that the losses are the same."""
    inside, worst, gradients, sentence, _, objection, _, _ = found["scale"]
    assert worst < 0.01
    assert gradients == pytest.approx(3, rel=1e-3)
    assert not inside and objection == sentence
    assert "gradients are 3 times as large" in sentence


def test_losses_that_leave_the_band_are_outside(found: dict[str, Any]) -> None:
    inside, worst, _, sentence, _, _, _, _ = found["sgd"]
    assert not inside and worst > 1
    assert "leave the band" in sentence


def test_a_loss_that_is_not_finite_is_outside(found: dict[str, Any]) -> None:
    inside, _, _, sentence, failed, _, steps, _ = found["nan"]
    assert (inside, failed, steps) == (False, 1, 4)
    assert sentence == "Over 4 steps the loss of step 2 is nan, where the program's own is finite."


def test_everything_is_put_back(found: dict[str, Any]) -> None:
    assert found["left"] == []
    assert not found["own"]


def test_a_step_without_a_loss_is_an_error_with_its_reason(found: dict[str, Any]) -> None:
    assert "returns no `loss`" in found["silent"]
