"""Trains a small U-Net on photographs and their masks, decoded and resized together.

A performance engineer would see JPEG and PNG decoding and a bicubic resize in every epoch, before a random flip of both.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(6)
PICTURES, BATCH, SIDE = 240, 8, 48


def write_pictures(folder):
    """A bright disc on a dark, speckled ground of 480x360 pixels; the mask is the disc."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(6)
    row, column = np.mgrid[:360, :480]
    for number in range(PICTURES):
        middle, radius = draw.integers(90, 270, 2), draw.integers(30, 90)
        mask = (row - middle[0]) ** 2 + (column - middle[1]) ** 2 < radius**2
        speckles = draw.integers(0, 80, (90, 120, 3)).repeat(4, axis=0).repeat(4, axis=1)
        picture = (speckles + 120 * mask[..., None]).astype("uint8")
        tf.io.write_file(str(folder / f"{number:03d}.jpg"), tf.io.encode_jpeg(picture))
        tf.io.write_file(str(folder / f"{number:03d}.png"), tf.io.encode_png(mask[..., None].astype("uint8")))


def load(picture_path, mask_path):
    picture = tf.io.decode_jpeg(tf.io.read_file(picture_path), channels=3)
    mask = tf.io.decode_png(tf.io.read_file(mask_path), channels=1)
    picture = tf.image.resize(tf.cast(picture, tf.float32) / 255.0, [SIDE, SIDE], method="bicubic", antialias=True)
    return picture, tf.image.resize(mask, [SIDE, SIDE], method="nearest")


def flip(picture, mask):
    if tf.random.uniform([]) < 0.5:
        picture, mask = tf.image.flip_left_right(picture), tf.image.flip_left_right(mask)
    return picture, mask


def block(x, filters):
    return keras.layers.Conv2D(filters, 3, padding="same", activation="relu")(x)


def build_model():
    inputs = keras.Input((SIDE, SIDE, 3))
    fine = block(inputs, 4)
    middle = block(keras.layers.MaxPooling2D()(fine), 8)
    coarse = block(keras.layers.MaxPooling2D()(middle), 16)
    middle = block(keras.layers.Concatenate()([keras.layers.UpSampling2D()(coarse), middle]), 8)
    fine = block(keras.layers.Concatenate()([keras.layers.UpSampling2D()(middle), fine]), 4)
    model = keras.Model(inputs, keras.layers.Conv2D(1, 1)(fine))
    model.compile(optimizer="adam", loss=keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


folder = Path(sys.argv[1]) / "segmentation"
if not folder.exists():
    write_pictures(folder)
pictures, masks = sorted(map(str, folder.glob("*.jpg"))), sorted(map(str, folder.glob("*.png")))
data = tf.data.Dataset.from_tensor_slices((pictures, masks)).shuffle(PICTURES)
data = data.map(load, num_parallel_calls=tf.data.AUTOTUNE).map(flip).batch(BATCH).prefetch(2)

model = build_model()
model.fit(data, epochs=11, verbose=0)
