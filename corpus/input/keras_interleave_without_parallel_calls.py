"""Trains a network on particle images from many small GZIP-compressed TFRecord files.

A performance engineer would see that the files are interleaved, but decompressed one after the other on one thread.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(9)
EVENTS, FILES, BATCH, SIDE = 1120, 56, 28, 160


def write_events(folder):
    """Counts of a detector of 160x160 cells, 51 kB an event."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(9)
    options = tf.io.TFRecordOptions(compression_type="GZIP", compression_level=1)
    for file in range(FILES):
        with tf.io.TFRecordWriter(str(folder / f"{file:02d}.tfrecord.gz"), options) as writer:
            for number in range(EVENTS // FILES):
                counts = draw.integers(0, 5 + number % 2, (SIDE, SIDE), dtype="int16")
                writer.write(np.int16(number % 2).tobytes() + counts.tobytes())


def read(path):
    return tf.data.TFRecordDataset(path, compression_type="GZIP")


def parse(record):
    values = tf.io.decode_raw(record, tf.int16)
    counts = tf.reshape(tf.cast(values[1:], tf.float32), [SIDE, SIDE, 1])
    return tf.math.log1p(counts), tf.cast(values[:1], tf.float32)


folder = Path(sys.argv[1]) / "interleave"
if not folder.exists():
    write_events(folder)
files = tf.data.Dataset.list_files(str(folder / "*.tfrecord.gz"), shuffle=False)
data = files.interleave(read, cycle_length=4, block_length=2).map(parse).batch(BATCH)

model = keras.Sequential([keras.Input((SIDE, SIDE, 1))])
for filters in (4, 8, 16):
    model.add(keras.layers.Conv2D(filters, 5, strides=4, padding="same", activation="relu"))
model.add(keras.layers.Flatten())
model.add(keras.layers.Dense(1))
model.compile(optimizer="adam", loss=keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(data, epochs=9, verbose=0)
