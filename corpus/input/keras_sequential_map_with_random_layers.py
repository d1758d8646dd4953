"""Trains a model with two inputs, a photograph and eight numbers, to estimate a price.

A performance engineer would see PNG decoding and resizing in one map with random augmentation layers, which keeps it on one thread.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(3)
HOUSES, BATCH, SIDE = 480, 16, 64
augment = keras.Sequential([keras.layers.RandomFlip("horizontal"), keras.layers.RandomBrightness(0.1, value_range=(0.0, 1.0))])


def write_houses(folder):
    """A smooth 160x120 picture per house, and a table of numbers with the price in the last column."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(3)
    for house in range(HOUSES):
        coarse = draw.integers(0, 256, (15, 20, 3)).astype("uint8")
        smooth = coarse.repeat(8, axis=0).repeat(8, axis=1) // 4 * 3
        picture = smooth + draw.integers(0, 16, (120, 160, 1)).astype("uint8")
        tf.io.write_file(str(folder / f"{house:04d}.png"), tf.io.encode_png(picture, compression=1))
    numbers = draw.standard_normal((HOUSES, 8))
    table = np.column_stack([numbers, numbers @ np.arange(8) / 8 + 0.1 * draw.standard_normal(HOUSES)])
    np.savetxt(folder / "houses.csv", table, fmt="%.5f", delimiter=",")


def load(path, numbers, price):
    image = tf.io.decode_png(tf.io.read_file(path), channels=3)
    image = tf.image.resize(tf.cast(image, tf.float32) / 255.0, [SIDE, SIDE], antialias=True)
    image = augment(image, training=True)
    return {"image": image, "numbers": numbers}, price


def build_model():
    image, numbers = keras.Input((SIDE, SIDE, 3), name="image"), keras.Input((8,), name="numbers")
    x = image
    for filters in (16, 32, 48):
        x = keras.layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    y = keras.layers.Dense(32, activation="relu")(numbers)
    both = keras.layers.Dense(32, activation="relu")(keras.layers.Concatenate()([x, y]))
    model = keras.Model([image, numbers], keras.layers.Dense(1)(both))
    model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    return model


folder = Path(sys.argv[1]) / "multi_input"
if not folder.exists():
    write_houses(folder)
table = np.loadtxt(folder / "houses.csv", delimiter=",", dtype="float32")
paths = [str(folder / f"{house:04d}.png") for house in range(HOUSES)]
data = tf.data.Dataset.from_tensor_slices((paths, table[:, :8], table[:, 8:]))
data = data.shuffle(HOUSES).map(load).batch(BATCH).prefetch(tf.data.AUTOTUNE)

model = build_model()
model.fit(data, epochs=11, verbose=0)
