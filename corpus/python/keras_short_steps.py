"""Trains a small multilayer perceptron on a table of 20 columns.

A performance engineer would see steps of a few milliseconds, most of which is the cost of starting a step.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(5)
ROWS, COLUMNS, BATCH = 16_000, 20, 64


def load_table(folder):
    path = Path(folder) / "tabular.csv"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draw = np.random.default_rng(5)
        columns = draw.standard_normal((ROWS, COLUMNS))
        churned = columns @ draw.standard_normal(COLUMNS) + draw.standard_normal(ROWS) > 0
        np.savetxt(path, np.column_stack([columns, churned]), fmt="%.4f", delimiter=",")
    table = np.loadtxt(path, delimiter=",", dtype="float32")
    return table[:, :COLUMNS], table[:, COLUMNS:]


data = tf.data.Dataset.from_tensor_slices(load_table(sys.argv[1])).shuffle(2000).batch(BATCH).prefetch(2)

model = keras.Sequential(
    [
        keras.Input((COLUMNS,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1),
    ]
)
model.compile(optimizer="adam", loss=keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(data, epochs=12, verbose=0)
