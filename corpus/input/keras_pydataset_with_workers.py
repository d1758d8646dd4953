"""Spot the event in a noisy waveform. Windows are cut and turned into spectrograms on the fly."""
import os
import sys
import time
import math
import keras
import numpy as np
from keras import layers, regularizers


def synthesise(filename, count=400, length=6000):
    rng = np.random.default_rng(11)
    t = np.arange(length) / 2000
    waves = np.empty((count, length), "int16")
    labels = rng.integers(0, 5, count).astype("int32")
    for i, k in enumerate(labels):
        chirp = np.sin(2 * np.pi * (60 * (k + 1) * t + 15 * t ** 2 + rng.random()))
        waves[i] = 6000 * (0.5 * chirp + rng.normal(size=length))
    np.savez(filename, waves=waves, labels=labels)


class Spectrograms(keras.utils.PyDataset):
    def __init__(self, waves, labels, batch_size, repeats=6, train=True, **kwargs):
        super().__init__(**kwargs)
        self.waves, self.labels, self.batch_size, self.train = waves, labels, batch_size, train
        self.order = np.tile(np.arange(len(waves)), repeats)
        self.rng = np.random.default_rng(5)
        self.window = np.hanning(256).astype("float32")
        self.on_epoch_end()

    def __len__(self):
        return math.ceil(len(self.order) / self.batch_size)

    def on_epoch_end(self):
        if self.train:
            self.rng.shuffle(self.order)

    def __getitem__(self, index):
        rows = self.order[index * self.batch_size:(index + 1) * self.batch_size]
        return np.stack([self.one(r) for r in rows]), self.labels[rows]

    def one(self, row):
        start = np.random.randint(0, 1800) if self.train else 900
        wave = self.waves[row, start:start + 4200].astype("float32") / 32768
        frames = np.lib.stride_tricks.sliding_window_view(wave, 256)[::64] * self.window
        power = np.abs(np.fft.rfft(frames, axis=-1)) ** 2
        return np.log(power + 1e-4)[..., None].astype("float32")


folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
archive = os.path.join(folder, "waves.npz")
if not os.path.exists(archive):
    synthesise(archive)
data = np.load(archive)
waves, labels = data["waves"], data["labels"]
train = Spectrograms(waves[:320], labels[:320], 32, repeats=15, workers=2, max_queue_size=8)
valid = Spectrograms(waves[320:], labels[320:], 40, repeats=1, train=False)

net = keras.Sequential([
    layers.Conv2D(8, 5, strides=2, activation="relu", kernel_regularizer=regularizers.L2(1e-4)),
    layers.SeparableConv2D(16, 3, strides=2, activation="relu"),
    layers.MaxPooling2D((14, 1)), layers.Flatten(),
    layers.Dense(32, activation="relu"), layers.Dense(5)])
net.compile(keras.optimizers.Adam(3e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"])
began = time.time()
net.fit(train, validation_data=valid, epochs=18, verbose=2)
print(f"trained in {time.time() - began:.1f} s")
