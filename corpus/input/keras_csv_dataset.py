"""House prices from CSV shards, with preprocessing layers inside a many-input model."""
import csv
import glob
import os
import random
import sys

import tensorflow as tf
from tensorflow import keras

DATA = sys.argv[1]
NUMERIC = ["area", "rooms", "year", "distance", "floor", "rent_index"]
CATEGORICAL = {"district": ["north", "south", "east", "west", "harbour", "old_town"],
               "heating": ["gas", "oil", "district", "pump"],
               "energy": list("ABCDEFG")}
ROWS, SHARDS, BATCH = 60000, 4, 128


def make_shards():
    rnd = random.Random(99)
    os.makedirs(DATA, exist_ok=True)
    for shard in range(SHARDS):
        with open(os.path.join(DATA, f"houses-{shard}.csv"), "w", newline="") as f:
            out = csv.writer(f)
            out.writerow(NUMERIC + list(CATEGORICAL) + ["price"])
            for _ in range(ROWS // SHARDS):
                area, rooms = round(rnd.uniform(25, 220), 1), rnd.randint(1, 8)
                row = [area, rooms, rnd.randint(1900, 2024), round(rnd.expovariate(0.2), 2),
                       rnd.randint(0, 12), round(rnd.gauss(100, 15), 1)]
                cats = [rnd.choice(v) for v in CATEGORICAL.values()]
                price = area * 3.1 + rooms * 12 - row[3] * 4 + (80 if cats[0] == "harbour" else 0)
                out.writerow(row + cats + [round(price + rnd.gauss(0, 20), 2)])


if not glob.glob(os.path.join(DATA, "houses-*.csv")):
    make_shards()


def dataset(pattern, shuffle):
    return tf.data.experimental.make_csv_dataset(
        os.path.join(DATA, pattern), batch_size=BATCH, label_name="price", num_epochs=1,
        column_defaults=[0.0] * len(NUMERIC) + [""] * len(CATEGORICAL) + [0.0],
        shuffle=shuffle, shuffle_buffer_size=5000)


train, test = dataset("houses-[0-2].csv", True), dataset("houses-3.csv", False)

inputs, parts = {}, []
for name in NUMERIC:
    inputs[name] = keras.Input((1,), name=name)
    norm = keras.layers.Normalization(axis=None)
    norm.adapt(train.map(lambda x, y, name=name: x[name]).take(40))
    parts.append(norm(inputs[name]))
for name, vocabulary in CATEGORICAL.items():
    inputs[name] = keras.Input((1,), name=name, dtype="string")
    code = keras.layers.StringLookup(vocabulary=vocabulary)(inputs[name])
    parts.append(keras.layers.Flatten()(keras.layers.Embedding(len(vocabulary) + 1, 8)(code)))
x = keras.layers.Concatenate()(parts)
for units in (256, 128):
    x = keras.layers.Dense(units, activation="relu")(x)
model = keras.Model(inputs, keras.layers.Dense(1, name="price")(x))
model.compile(optimizer=keras.optimizers.Adam(0.002), loss="mse", metrics=["mae"])

expand = lambda x, y: ({k: tf.expand_dims(v, -1) for k, v in x.items()}, y)
model.fit(train.map(expand), validation_data=test.map(expand), epochs=16, verbose=2)
