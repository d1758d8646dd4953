"""Fine-tune a small backbone on glyphs: head first, then everything."""
import contextlib, datetime
import os
import sys

import keras
import numpy as np
import tensorflow as tf
from PIL import Image, ImageDraw
from keras import layers

folder = sys.argv[1]
os.makedirs(os.path.join(folder, "glyphs"), exist_ok=True)
LETTERS = "ABCDEFGHJK"


@contextlib.contextmanager
def summary(path):
    notes = {"started": datetime.datetime.now().isoformat()}
    try:
        yield notes
    finally:
        notes["ended"] = datetime.datetime.now().isoformat()
        with open(path, "w") as f:
            f.writelines(f"{k}: {v}\n" for k, v in notes.items())


def glyph(path, letter, rng):
    image = Image.new("L", (24, 24), int(rng.integers(0, 60)))
    ImageDraw.Draw(image).text((int(rng.integers(4, 12)), int(rng.integers(2, 10))), letter, fill=230)
    image.resize((96, 96)).rotate(float(rng.uniform(-25, 25))).save(path)


rng, paths, labels = np.random.default_rng(8), [], []
for i in range(1600):
    labels.append(i % 10)
    paths.append(os.path.join(folder, "glyphs", f"{i:04d}_{LETTERS[i % 10]}.png"))
    if not os.path.exists(paths[-1]):
        glyph(paths[-1], LETTERS[i % 10], rng)


def load(path, label):
    image = tf.io.decode_png(tf.io.read_file(path), channels=1)
    image = tf.image.resize(image, (48, 48)) / 255.0
    return tf.image.random_brightness(image, 0.1), tf.one_hot(label, 10)


data = tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(1600, seed=1, reshuffle_each_iteration=False)
valid = data.take(160).map(load).batch(32).cache()
train = data.skip(160).shuffle(1440).map(load, num_parallel_calls=2).batch(24).prefetch(1)

backbone = keras.Sequential([keras.Input((48, 48, 1))] + [
    layers.Conv2D(filters, 3, strides=stride, padding="same", activation="relu")
    for filters, stride in ((16, 1), (24, 2), (32, 1), (48, 2), (96, 2))
] + [layers.GlobalAveragePooling2D()], name="backbone")
backbone.trainable = False
inputs = keras.Input((48, 48, 1))
x = backbone(inputs)
model = keras.Model(inputs, layers.Dense(10, activation="softmax")(layers.Dropout(0.2)(x)))

with summary(os.path.join(folder, "summary.txt")) as notes:
    try:
        model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
        first = model.fit(train, validation_data=valid, epochs=8)
        backbone.trainable = True
        model.compile(keras.optimizers.Adam(1e-3), "categorical_crossentropy", metrics=["accuracy"])
        second = model.fit(train, validation_data=valid, initial_epoch=8, epochs=20)
        notes["accuracy"] = second.history["accuracy"][-1]
    finally:
        model.save(os.path.join(folder, "glyphs.keras"))
