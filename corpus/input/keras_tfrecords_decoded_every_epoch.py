"""Trains a convolutional network on JPEG images in TFRecord files.

A performance engineer would see a pipeline that follows the guide (parallel map, shuffle, prefetch), but decodes again in every epoch.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(8)
IMAGES, FILES, BATCH, SIDE, CLASSES = 960, 4, 24, 64, 5
FEATURES = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def write_records(folder):
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(8)
    for file in range(FILES):
        with tf.io.TFRecordWriter(str(folder / f"{file}.tfrecord")) as writer:
            for number in range(IMAGES // FILES):
                label = number % CLASSES
                coarse = draw.integers(0, 200, (15, 20, 3)) + 10 * label
                picture = coarse.repeat(16, axis=0).repeat(16, axis=1).astype("uint8")
                writer.write(example(tf.io.encode_jpeg(picture).numpy(), label))


def example(image, label):
    features = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def parse(record):
    features = tf.io.parse_single_example(record, FEATURES)
    image = tf.io.decode_jpeg(features["image"], channels=3)
    image = tf.image.resize_with_crop_or_pad(image, 224, 224)
    return tf.image.per_image_standardization(tf.image.resize(image, [SIDE, SIDE])), features["label"]


folder = Path(sys.argv[1]) / "tfrecord"
if not folder.exists():
    write_records(folder)
files = sorted(map(str, folder.glob("*.tfrecord")))
data = tf.data.TFRecordDataset(files).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
data = data.shuffle(256).batch(BATCH).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential([keras.Input((SIDE, SIDE, 3))])
for filters in (16, 24, 32):
    model.add(keras.layers.Conv2D(filters, 3, strides=2, padding="same", use_bias=False))
    model.add(keras.layers.BatchNormalization())
    model.add(keras.layers.ReLU())
model.add(keras.layers.GlobalAveragePooling2D())
model.add(keras.layers.Dense(CLASSES))
model.compile(
    optimizer=keras.optimizers.SGD(0.05, momentum=0.9),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(data, epochs=9, verbose=0)
