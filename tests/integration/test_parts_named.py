"""A real capture names the layer or the line that takes the time, with its source."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from outpace import api
from outpace.capture import CaptureOptions, run_script
from outpace.metrics.views.model_parts import model_parts
from tests.integration.programs import needs_tensorflow

KERAS = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, keras, tensorflow as tf
from keras import layers

class Sorter(layers.Layer):
    def call(self, x):
        low = tf.sort(x, axis=-1)
        return tf.nn.relu(low)

model = keras.Sequential([
    keras.Input((64,)),
    layers.Dense(32, activation="relu"),
    layers.Dense(2048, name="wide"),
    Sorter(),
    layers.Dense(1),
])
model.compile("adam", "mse", jit_compile=False)
model.fit(np.zeros((2560, 64), "float32"), np.zeros((2560, 1), "float32"), batch_size=128, epochs=2, verbose=0)
"""

LOOP = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf

w = tf.Variable(tf.zeros((64, 512)))

def mixer(x):
    return tf.sort(x, axis=-1)

@tf.function
def step(x):
    with tf.GradientTape() as tape:
        h = tf.nn.relu(x @ w)
        loss = tf.reduce_mean(mixer(h))
    w.assign_sub(0.1 * tape.gradient(loss, w))

for x in tf.data.Dataset.from_tensors(tf.ones((256, 64))).repeat(40):
    step(x)
"""


def parts(folder: Path, source: str) -> list[dict[str, Any]]:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(source))
    result = run_script(str(script), [], CaptureOptions(logdir=str(folder / "logs"), warmup=5, steps=8))
    assert result.run is not None, result.reason
    return list(model_parts(api.open(result.run).run).records())


@needs_tensorflow
def test_layers_of_keras_by_name_and_line(tmp_path: Path) -> None:
    rows = {row["part"]: row for row in parts(tmp_path, KERAS)}
    first = max(rows.values(), key=lambda row: row["share"])
    assert (first["part"], first["kind"], first["layer_type"]) == ("sorter", "layer", "Sorter")
    assert (first["source"], first["text"]) == ("train.py:9", "low = tf.sort(x, axis=-1)")
    assert first["forward_ps"] > 0 < first["backward_ps"]
    assert [rows[name]["source"] for name in ("dense", "wide", "dense_1")] == ["train.py:14", "train.py:15", "train.py:17"]
    assert rows["wide"]["backward_ps"] > 0
    assert "optimizer" in rows
    assert sum(row["share"] for row in rows.values()) <= 1


@needs_tensorflow
def test_lines_of_a_loop(tmp_path: Path) -> None:
    rows = {row["part"]: row for row in parts(tmp_path, LOOP)}
    first = max(rows.values(), key=lambda row: row["share"])
    assert (first["part"], first["kind"], first["text"]) == ("train.py:9", "line", "return tf.sort(x, axis=-1)")
    assert first["backward_ps"] > 0
    assert rows["train.py:14"]["backward_ps"] > 0


EMBEDDING = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, keras
from keras import layers

ids = keras.Input((1,), dtype="int32")
user = layers.Embedding(60000, 32, name="user")(ids)
model = keras.Model(ids, layers.Dense(1)(layers.Dense(16, activation="relu")(layers.Flatten()(user))))
model.compile("adam", "mse", jit_compile=False)
model.fit(np.zeros((12800, 1), "int32"), np.zeros((12800, 1), "float32"), batch_size=64, epochs=2, verbose=0)
"""


@needs_tensorflow
def test_updates_of_a_table_belong_to_its_layer(tmp_path: Path) -> None:
    """Adam computes on all rows of an embedding, whatever a batch reads."""
    largest = parts(tmp_path, EMBEDDING)[0]
    assert (largest["part"], largest["source"], largest["layer_type"]) == ("user", "train.py:8", "Embedding")
    assert largest["share"] > 0.3
