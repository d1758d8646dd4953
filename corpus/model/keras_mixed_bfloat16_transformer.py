"""Trains a small transformer encoder under the policy mixed_bfloat16 on token sequences that lie in memory.

A performance engineer would see a step of many small operations: starting and casting them costs more than their arithmetic.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(12)
keras.mixed_precision.set_global_policy("mixed_bfloat16")
SEQUENCES, LENGTH, TOKENS, BATCH, WIDTH = 960, 32, 500, 16, 48


def load_sequences(folder):
    path = Path(folder) / "mixed_precision.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draw = np.random.default_rng(12)
        tokens = draw.integers(0, TOKENS, (SEQUENCES, LENGTH))
        np.savez(path, tokens=tokens, labels=(tokens[:, 0] > tokens[:, -1]).astype("float32"))
    with np.load(path) as data:
        return data["tokens"], data["labels"]


def encoder(x):
    attended = keras.layers.MultiHeadAttention(4, WIDTH // 4)(x, x)
    x = keras.layers.LayerNormalization()(x + attended)
    hidden = keras.layers.Dense(2 * WIDTH, activation="gelu")(x)
    return keras.layers.LayerNormalization()(x + keras.layers.Dense(WIDTH)(hidden))


def build_model():
    inputs = keras.Input((LENGTH,), dtype="int64")
    x = keras.layers.Embedding(TOKENS, WIDTH)(inputs)
    for _ in range(3):
        x = encoder(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(inputs, keras.layers.Dense(1, dtype="float32")(x))
    model.compile(optimizer="adam", loss=keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


data = tf.data.Dataset.from_tensor_slices(load_sequences(sys.argv[1])).shuffle(SEQUENCES).batch(BATCH).prefetch(1)

model = build_model()
model.fit(data, epochs=6, verbose=0)
