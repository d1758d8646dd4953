"""Capture a big real profile: python bench/make_big_profile.py STEPS OUTDIR (670 steps: about 1M
events and 30 MB). Needs TensorFlow.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def main(steps: int, out: str) -> None:
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    images, labels = rng.random((4096, 32, 32, 3), dtype=np.float32), rng.integers(0, 10, 4096)

    def augment(image, label):
        image = tf.image.random_flip_left_right(tf.image.resize(image, [40, 40]))
        return tf.image.random_brightness(image, 0.2), label

    data = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().shuffle(1024)
    data = data.map(augment, num_parallel_calls=2).batch(32).prefetch(2)
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input((40, 40, 3)),
            layers.Conv2D(8, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(16, 3, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]
    )
    optimizer, loss = tf.keras.optimizers.Adam(), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(image, label):
        with tf.GradientTape() as tape:
            value = loss(label, model(image, training=True))
        optimizer.apply_gradients(zip(tape.gradient(value, model.trainable_variables), model.trainable_variables, strict=True))
        return value

    iterator = iter(data)
    for _ in range(5):
        step(*next(iterator))
    with tf.profiler.experimental.Profile(out, options=tf.profiler.experimental.ProfilerOptions(3, 1, 0)):
        for number in range(steps):
            with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
                step(*next(iterator))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
