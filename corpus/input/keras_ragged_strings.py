"""Trains a classifier on articles of different lengths: words and word pairs as ragged tensors, an embedding over the padded batch.

A performance engineer would see string operations on one article at a time, repeated in every epoch.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(11)
ARTICLES, BATCH, WORDS, BUCKETS, LONGEST = 1440, 48, 3000, 8192, 200


def write_articles(folder):
    """One article per line, 150 to 700 words long; labels in a file of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(11)
    letters = np.array(list("abcdefghijklmnoprstuvwz"))
    words = np.array(["".join(draw.choice(letters, draw.integers(2, 11))) for _ in range(WORDS)])
    labels = draw.integers(0, 3, ARTICLES)
    lines = [" ".join(words[draw.integers(0, WORDS - 900 * label, draw.integers(150, 700))]) for label in labels]
    (folder / "articles.txt").write_text("\n".join(lines))
    (folder / "labels.txt").write_text("\n".join(map(str, labels)))


def tokens(article, label):
    text = tf.strings.regex_replace(tf.strings.lower(article), r"[^a-z ]|\b(a|an|the|of|to)\b", "")
    words = tf.strings.split(text)
    pairs = tf.strings.ngrams(words, 2)
    both = tf.concat([words, pairs], axis=0)
    return tf.strings.to_hash_bucket_fast(both, BUCKETS - 1) + 1, tf.strings.to_number(label, tf.int64)


def padded(articles, labels):
    return articles.to_tensor(shape=[None, LONGEST]), labels


folder = Path(sys.argv[1]) / "ragged"
if not folder.exists():
    write_articles(folder)
articles, labels = (tf.data.TextLineDataset(str(folder / name)) for name in ("articles.txt", "labels.txt"))
data = tf.data.Dataset.zip((articles, labels)).map(tokens).ragged_batch(BATCH).map(padded).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        keras.Input((LONGEST,), dtype="int64"),
        keras.layers.Embedding(BUCKETS, 16, mask_zero=True),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(3),
    ]
)
model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(data, epochs=11, verbose=0)
