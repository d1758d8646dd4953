import os
os.environ["KERAS_BACKEND"] = "jax"

import pathlib
import sys

import numpy as np
import tensorflow as tf
import keras

tf.config.set_visible_devices([], "GPU")
keras.utils.set_random_seed(12)

here = pathlib.Path(sys.argv[1])
here.mkdir(parents=True, exist_ok=True)
scan_file = here / "tiles.npy"
if not scan_file.exists():
    # satellite-like tiles: class = how coarse the texture is
    rng = np.random.default_rng(4)
    tiles = []
    for i in range(2400):
        grain = (4, 8, 16, 24)[i % 4]
        base = rng.integers(0, 256, (48 // grain, 48 // grain))
        tile = np.kron(base, np.ones((grain, grain))) + rng.normal(scale=40, size=(48, 48))
        tiles.append(np.clip(tile, 0, 255).astype("uint8"))
    np.save(scan_file, np.stack(tiles))

tiles = np.load(scan_file)
labels = np.arange(len(tiles)) % 4


def prepare(tile, label):
    image = tf.cast(tile, tf.float32)[..., None]
    image = tf.image.resize(image, (80, 80), method="bicubic")
    image = tf.image.random_crop(image, (56, 56, 1))
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_contrast(image, 0.7, 1.3)
    edges = tf.image.sobel_edges(image[None])[0, :, :, 0, :]
    image = tf.concat([tf.image.per_image_standardization(image), edges / 255.0], axis=-1)
    return image, label


ds = tf.data.Dataset.from_tensor_slices((tiles, labels))
ds = ds.shuffle(2400, seed=0)
ds = ds.map(prepare)
ds = ds.batch(32, drop_remainder=True)

inp = keras.Input((56, 56, 3))
x = keras.layers.Conv2D(12, 5, strides=2, activation="relu")(inp)
for f in (16, 24):
    y = keras.layers.Conv2D(f, 3, strides=2, padding="same")(x)
    y = keras.layers.GroupNormalization(4)(y)
    x = keras.layers.Activation("silu")(y)
x = keras.layers.GlobalAveragePooling2D()(x)
out = keras.layers.Dense(4, activation="softmax")(x)
model = keras.Model(inp, out)
model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9),
              loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(ds, epochs=30, verbose=2)
