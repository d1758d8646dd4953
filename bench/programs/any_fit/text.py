"""Topic classifier on lines of text: TextVectorization -> embedding -> GRU."""
import os
import random
import sys

import tensorflow as tf
import keras
from keras import layers

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
TOPICS = {
    0: "engine wheel brake road driver gear speed clutch tyre motor".split(),
    1: "flour oven sugar butter dough bake knead yeast salt crust".split(),
    2: "goal match team league coach stadium score referee pitch foul".split(),
    3: "planet orbit star galaxy comet probe telescope lunar dust ring".split(),
}
FILLER = [a + b for a in "ba de ko mi ru ta ve zo".split() for b in "l n r s th ck".split()]


def write_lines(path, n, seed):
    rng = random.Random(seed)
    with open(path, "w") as f:
        for _ in range(n):
            topic = rng.randrange(4)
            words = [rng.choice(TOPICS[topic]) if rng.random() < 0.12 else rng.choice(FILLER)
                     for _ in range(rng.randint(25, 60))]
            f.write(f"{topic}\t{' '.join(words).capitalize()}.\n")


train_file, test_file = os.path.join(folder, "train.tsv"), os.path.join(folder, "test.tsv")
if not os.path.exists(test_file):
    write_lines(train_file, 8000, 1)
    write_lines(test_file, 1000, 2)


def split(line):
    parts = tf.strings.split(line, "\t", maxsplit=1)
    return parts[1], tf.strings.to_number(parts[0], tf.int32)


train_lines = tf.data.TextLineDataset(train_file).map(split)
test_lines = tf.data.TextLineDataset(test_file).map(split)

vectorize = layers.TextVectorization(max_tokens=2000, output_sequence_length=48)
vectorize.adapt(train_lines.map(lambda text, label: text).batch(256))

train = train_lines.shuffle(2000).map(lambda t, y: (vectorize(t), y)).batch(64)
test = test_lines.map(lambda t, y: (vectorize(t), y)).batch(64)

model = keras.Sequential([
    layers.Embedding(2000, 32, mask_zero=True),
    layers.Bidirectional(layers.GRU(24)),
    layers.Dropout(0.3),
    layers.Dense(4, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=test, epochs=6)
print("test:", model.evaluate(test, verbose=0))
