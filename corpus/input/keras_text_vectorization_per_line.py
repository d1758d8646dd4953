"""Trains a text classifier on lines of a file, which a TextVectorization layer turns into numbers in the pipeline.

A performance engineer would see that layer called once per line, on one thread, and the same lines anew in every epoch.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(4)
REVIEWS, BATCH, WORDS, LENGTH = 1680, 48, 4000, 200


def write_reviews(path):
    """Lines of `label, tab, text`; one half of the vocabulary is more frequent in each class."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(4)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(draw.choice(letters, draw.integers(3, 10))).capitalize() for _ in range(WORDS)])
    with path.open("w") as out:
        for review in range(REVIEWS):
            label = review % 2
            chosen = (draw.beta(1 + label, 2 - label, draw.integers(80, 240)) * WORDS).astype(int)
            out.write(f"{label}\t{', '.join(words[chosen])}.\n")


def parse(line):
    parts = tf.strings.split(line, "\t", maxsplit=1)
    return parts[1], tf.strings.to_number(parts[0], tf.float32)


path = Path(sys.argv[1]) / "text" / "reviews.tsv"
if not path.exists():
    write_reviews(path)
lines = tf.data.TextLineDataset(str(path)).map(parse)
vectorize = keras.layers.TextVectorization(max_tokens=WORDS, output_sequence_length=LENGTH)
vectorize.adapt(lines.batch(128).map(lambda text, label: text))


def to_numbers(text, label):
    return vectorize(text), label


data = lines.map(to_numbers).batch(BATCH)

model = keras.Sequential(
    [
        keras.Input((LENGTH,), dtype="int64"),
        keras.layers.Embedding(WORDS, 32),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1),
    ]
)
model.compile(optimizer="adam", loss=keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(data, epochs=10, verbose=0)
