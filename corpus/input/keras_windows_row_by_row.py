"""Trains a forecast of the next hours on sliding windows of a series with six columns.

A performance engineer would see `window` and `flat_map`, which put every window together from single rows.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(10)
HOURS, COLUMNS, PAST, AHEAD, BATCH = 4000, 6, 72, 6, 64


def load_series(folder):
    path = Path(folder) / "windowed.csv"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draw = np.random.default_rng(10)
        hour = np.arange(HOURS)[:, None]
        series = np.sin(2 * np.pi * hour / 24 + np.arange(COLUMNS)) + 0.3 * draw.standard_normal((HOURS, COLUMNS))
        np.savetxt(path, series, fmt="%.4f", delimiter=",")
    return np.loadtxt(path, delimiter=",", dtype="float32")


def together(window):
    return window.batch(PAST + AHEAD, drop_remainder=True)


def past_and_future(rows):
    past = rows[:PAST]
    mean, variance = tf.nn.moments(past, axes=[0])
    scaled = (rows - mean) / tf.sqrt(variance + 1e-6)
    return scaled[:PAST], scaled[PAST:, 0]


data = tf.data.Dataset.from_tensor_slices(load_series(sys.argv[1]))
data = data.window(PAST + AHEAD, shift=2, drop_remainder=True).flat_map(together)
data = data.map(past_and_future).shuffle(200).batch(BATCH)

model = keras.Sequential(
    [
        keras.Input((PAST, COLUMNS)),
        keras.layers.Conv1D(64, 5, activation="relu"),
        keras.layers.Conv1D(64, 5, strides=2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(AHEAD),
    ]
)
model.compile(optimizer="adam", loss="mse", metrics=["mae"])
model.fit(data, epochs=11, verbose=0)
