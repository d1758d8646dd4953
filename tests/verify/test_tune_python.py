"""`outpace.tune` and `outpace.tune_dataset` from Python, on real models and pipelines. No test asks for a speed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.programs import needs_tensorflow, run_program

pytestmark = [needs_tensorflow, pytest.mark.verify]

PROGRAM = """
import json, os, sys
import numpy as np, keras, tensorflow as tf
import outpace

x = np.random.RandomState(0).rand(320, 6).astype("float32")
y = (x[:, :3].argmax(1)).astype("int32")

def scaled(a, b):
    return a * 2 + tf.random.uniform([6]), b

def data():
    return tf.data.Dataset.from_tensor_slices((x, y)).map(lambda a, b: (tf.sqrt(a), b)).shuffle(320, seed=1).map(scaled).batch(16)

def made():
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model

def trained(model):
    model.fit(data(), epochs=2, verbose=0)
    return b"".join(w.tobytes() for w in model.get_weights()).hex()

found = {}
plain = trained(made())
model = made()
result = outpace.tune(model, data(), epochs=2, verbose=0, budget=5, progress=False)
found["equal"] = trained(model) == plain
found["left"] = list(result.left)
found["text"] = str(result)
found["html"] = result._repr_html_()[:200]
result.apply()
found["function"] = model.train_function is None
model.fit(result.dataset, verbose=0)

alone = outpace.tune_dataset(data(), budget=5, progress=False)
found["alone"] = str(alone)
found["batches"] = sum(1 for _ in alone.dataset)
try:
    outpace.tune_dataset([1, 2])
except outpace.OutpaceError as error:
    found["refused"] = str(error)
print(json.dumps(found), flush=True)
os._exit(0)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    ended = run_program(PROGRAM, tmp_path_factory.mktemp("tune"))
    assert ended.code == 0, ended.err
    return dict(json.loads(ended.out.splitlines()[-1]))


def test_a_model_is_left_as_it_was_bit_by_bit(found: dict[str, Any]) -> None:
    assert found["equal"] and found["left"] == []


def test_the_result_prints_limits_and_practices(found: dict[str, Any]) -> None:
    assert "Model alone" in found["text"] and "XLA" in found["text"]
    assert "<" in found["html"]


def test_applying_lets_keras_make_its_function_anew(found: dict[str, Any]) -> None:
    assert found["function"]


def test_a_pipeline_alone_has_no_model_and_no_knobs(found: dict[str, Any]) -> None:
    assert "make the input faster" in found["alone"] or "peed-up" in found["alone"]
    assert "Model alone" not in found["alone"] and "XLA" not in found["alone"]
    assert found["batches"] == 20


def test_what_is_no_data_set_is_refused_with_its_type(found: dict[str, Any]) -> None:
    assert found["refused"] == "A tf.data.Dataset can be tuned, and this is a list."
