# Regress particle energy from detector hit maps, one compressed file per event group.
import gzip
import os
import sys

import keras
import numpy as np
import tensorflow as tf

FLAGS = {"files": 256, "per_file": 16, "side": 24, "batch": 32, "epochs": 24}


def generate(where):
    os.makedirs(where, exist_ok=True)
    rng = np.random.default_rng(2024)
    n, s = FLAGS["per_file"], FLAGS["side"]
    for k in range(FLAGS["files"]):
        energy = rng.uniform(10, 100, n).astype("<f4")
        hits = rng.poisson(energy[:, None, None] / 20, (n, s, s)).astype("<f4")
        with gzip.open(os.path.join(where, "group_%04d.bin.gz" % k), "wb", compresslevel=6) as f:
            f.write(energy.tobytes() + hits.tobytes())


def read_group(path):
    n, s = FLAGS["per_file"], FLAGS["side"]
    raw = tf.io.decode_compressed(tf.io.read_file(path), "GZIP")
    numbers = tf.ensure_shape(tf.io.decode_raw(raw, tf.float32), (n * (1 + s * s),))
    energy, hits = numbers[:n], tf.reshape(numbers[n:], (n, s, s, 1))
    hits = tf.math.log1p(hits)
    return hits - 0.1 * tf.reduce_mean(hits, axis=(1, 2), keepdims=True), energy / 100.0


def pipeline(files, training):
    ds = tf.data.Dataset.from_tensor_slices(files)
    if training:
        ds = ds.shuffle(len(files))
    ds = ds.map(read_group).unbatch()
    if training:
        ds = ds.shuffle(512)
    return ds.batch(FLAGS["batch"])


def main(folder):
    where = os.path.join(folder, "events")
    if not os.path.isdir(where):
        generate(where)
    files = sorted(tf.io.gfile.glob(os.path.join(where, "*.bin.gz")))
    strategy = tf.distribute.MirroredStrategy()
    print("replicas:", strategy.num_replicas_in_sync)
    with strategy.scope():
        side = FLAGS["side"]
        model = keras.Sequential([
            keras.Input((side, side, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(1),
        ])
        model.compile(optimizer="adam", loss="mse", metrics=[keras.metrics.RootMeanSquaredError()])
    model.fit(pipeline(files[:-24], True), validation_data=pipeline(files[-24:], False),
              epochs=FLAGS["epochs"], verbose=2)


if __name__ == "__main__":
    main(sys.argv[1])
