"""The program of the ladder: one small image classifier, and the ways to feed it. All rungs train this model on these files."""

import pathlib
import random

import keras
import numpy as np
import tensorflow as tf
from PIL import Image

SIZE, BATCH, AUTO = 64, 32, tf.data.AUTOTUNE
FOLDER = pathlib.Path("demo/ladder")

paths = sorted(str(path) for path in FOLDER.glob("*/*.jpg"))
if not paths:
    raise SystemExit(f"There are no images in {FOLDER}: python examples/ladder/make_images.py")
random.Random(0).shuffle(paths)
labels = [int(pathlib.Path(path).parent.name) for path in paths]
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def model():
    """Three convolutions with batch normalisation."""
    keras.utils.set_random_seed(1)
    layers = [keras.Input((SIZE, SIZE, 3)), keras.layers.Rescaling(1 / 255)]
    for channels in (16, 32, 64):
        layers += [keras.layers.Conv2D(channels, 3, 2, "same"), keras.layers.BatchNormalization(), keras.layers.ReLU()]
    return keras.Sequential([*layers, keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10)])


def read_images():
    """One image after the other, read with PIL, every second one mirrored."""
    while True:
        for path, label in zip(paths, labels, strict=True):
            image = Image.open(path).convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
            pixels = np.asarray(image).astype(np.float32)
            yield (pixels[:, ::-1] if random.random() < 0.5 else pixels), label


def from_generator(batch):
    """The images of a Python generator."""
    signature = (tf.TensorSpec((SIZE, SIZE, 3)), tf.TensorSpec([], tf.int32))
    return tf.data.Dataset.from_generator(read_images, output_signature=signature).batch(batch)


def load(path, label):
    """The same work as TensorFlow operations."""
    return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path), channels=3), [SIZE, SIZE]), label


def as_bytes(image, label):
    return tf.cast(image, tf.uint8), label


def mirror(image, label):
    return tf.image.random_flip_left_right(image), label


def files():
    return tf.data.Dataset.from_tensor_slices((paths, labels))


def from_files():
    """tf.data, written naively."""
    return files().repeat().map(load).map(mirror).shuffle(256).batch(BATCH)


def in_parallel():
    """Shuffle file names, map on all cores, prefetch."""
    shuffled = files().repeat().shuffle(2000)
    return shuffled.map(load, AUTO).map(mirror, AUTO).batch(BATCH).prefetch(AUTO)


def cached():
    """What every epoch repeats is kept in memory, as bytes; the random part comes after it."""
    kept = files().map(load, AUTO).map(as_bytes, AUTO).cache()
    return kept.repeat().shuffle(2000).map(mirror, AUTO).batch(BATCH).prefetch(AUTO)


def cached_in_batches():
    """The same, mirrored a batch at a time."""
    kept = files().map(load, AUTO).map(as_bytes, AUTO).cache()
    return kept.repeat().shuffle(2000).batch(BATCH).map(mirror, AUTO).prefetch(AUTO)


def in_memory():
    """No input at all: one batch over and over, which is what the model alone can reach."""
    image, label = tf.zeros((BATCH, SIZE, SIZE, 3), tf.uint8), tf.zeros((BATCH,), tf.int32)
    return tf.data.Dataset.from_tensors((image, label)).repeat()
