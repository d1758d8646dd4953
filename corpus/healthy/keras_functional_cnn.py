"""Trains a small convolutional network, built with the functional API, on 32x32 images that lie in memory.

A performance engineer would see a step that computes nearly all of its time: the input is a cast of whole batches.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
IMAGES, BATCH, CLASSES = 1920, 32, 10


def load_images(folder):
    path = Path(folder) / "functional.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draw = np.random.default_rng(1)
        labels = draw.integers(0, CLASSES, IMAGES)
        pictures = draw.integers(0, 120, (IMAGES, 32, 32, 3)) + labels[:, None, None, None] * 12
        np.savez(path, images=pictures.astype("uint8"), labels=labels.astype("int64"))
    with np.load(path) as data:
        return data["images"], data["labels"]


def scale(images, labels):
    return tf.cast(images, tf.float32) / 255.0, labels


def build_model():
    inputs = keras.Input((32, 32, 3))
    x = inputs
    for filters in (24, 40, 64):
        x = keras.layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = keras.layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = keras.layers.MaxPooling2D()(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    model = keras.Model(inputs, keras.layers.Dense(CLASSES)(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    return model


data = tf.data.Dataset.from_tensor_slices(load_images(sys.argv[1]))
data = data.shuffle(IMAGES).batch(BATCH).map(scale, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

model = build_model()
model.fit(data, epochs=5, verbose=0)
