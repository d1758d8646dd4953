import argparse
import json
import os

import numpy as np
import keras
from keras.layers import Conv1D, Dense, GlobalAveragePooling1D, Input, MaxPooling1D

parser = argparse.ArgumentParser(description="Forecast the next day of a load curve")
parser.add_argument("folder")
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--batch", type=int, default=48)
args = parser.parse_args()

PAST, AHEAD = 336, 24


def household_files():
    os.makedirs(args.folder, exist_ok=True)
    paths = [os.path.join(args.folder, f"house{i:02d}.json") for i in range(16)]
    for i, path in enumerate(paths):
        if os.path.exists(path):
            continue
        rng = np.random.default_rng(i)
        h = np.arange(24 * 365)
        load = 2 + np.sin(2 * np.pi * (h - rng.integers(24)) / 24) + 0.5 * np.sin(2 * np.pi * h / 168)
        load += rng.gamma(1.0, 0.3, len(h))
        with open(path, "w") as f:
            json.dump({"house": i, "kwh": [round(v, 3) for v in load.tolist()]}, f)
    return paths


def batches(series, batch_size, seed):
    rng = np.random.default_rng(seed)
    while True:
        xs, ys = [], []
        for _ in range(batch_size):
            s = series[rng.integers(len(series))]
            start = rng.integers(len(s) - PAST - AHEAD)
            past = s[start:start + PAST]
            mean, std = past.mean(), past.std()
            hour = (np.arange(start, start + PAST) % 24) / 24
            xs.append(np.stack([(past - mean) / std, np.sin(2 * np.pi * hour), np.cos(2 * np.pi * hour)], -1))
            ys.append((s[start + PAST:start + PAST + AHEAD] - mean) / std)
        yield np.asarray(xs, "float32"), np.asarray(ys, "float32")


series = []
for path in household_files():
    with open(path) as f:
        series.append(np.array(json.load(f)["kwh"]))

model = keras.Sequential([
    Input((PAST, 3)),
    Conv1D(24, 7, activation="relu"), MaxPooling1D(2),
    Conv1D(32, 5, activation="relu"), MaxPooling1D(2),
    Conv1D(32, 5, activation="relu"), GlobalAveragePooling1D(),
    Dense(64, activation="relu"), Dense(AHEAD),
])
model.compile(loss="huber", optimizer="rmsprop", metrics=["mae"])
model.fit(batches(series[:13], args.batch, 1), steps_per_epoch=args.steps, epochs=args.epochs,
          validation_data=batches(series[13:], args.batch, 2), validation_steps=10,
          callbacks=[keras.callbacks.ReduceLROnPlateau(patience=2)])
