"""Trains a subclassed model on log-mel spectrograms of one-second WAV files.

A performance engineer would see that every epoch reads and transforms the same files again, and that nothing is prefetched by hand.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(2)
CLIPS, RATE, BATCH, CLASSES = 480, 16_000, 16, 6


def write_clips(folder):
    """One tone in noise per file; its pitch is the class, which the file's name ends with."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(2)
    time = np.arange(RATE) / RATE
    for clip in range(CLIPS):
        kind = clip % CLASSES
        wave = 0.4 * np.sin(2 * np.pi * (300 + 250 * kind) * time) + 0.1 * draw.standard_normal(RATE)
        encoded = tf.audio.encode_wav(tf.constant(wave[:, None], tf.float32), RATE)
        tf.io.write_file(str(folder / f"clip_{clip:04d}_{kind}.wav"), encoded)


def spectrogram(path, label):
    wave, _ = tf.audio.decode_wav(tf.io.read_file(path), desired_channels=1, desired_samples=RATE)
    power = tf.abs(tf.signal.stft(wave[:, 0], frame_length=512, frame_step=80, fft_length=1024)) ** 2
    mel = tf.signal.linear_to_mel_weight_matrix(64, 513, RATE, 80.0, 7600.0)
    return tf.math.log(tf.matmul(power, mel) + 1e-6), label


class Classifier(keras.Model):
    """Convolutions over time, then a dense head."""

    def __init__(self):
        super().__init__()
        self.convolutions = [keras.layers.Conv1D(48, 5, strides=2, activation="relu") for _ in range(3)]
        self.pool = keras.layers.GlobalMaxPooling1D()
        self.drop = keras.layers.Dropout(0.2)
        self.head = keras.layers.Dense(CLASSES)

    def call(self, x, training=False):
        for convolution in self.convolutions:
            x = convolution(x)
        return self.head(self.drop(self.pool(x), training=training))


folder = Path(sys.argv[1]) / "subclassed"
if not folder.exists():
    write_clips(folder)
paths = sorted(map(str, folder.glob("*.wav")))
labels = [int(path[-5]) for path in paths]
data = tf.data.Dataset.from_tensor_slices((paths, labels)).map(spectrogram).shuffle(64).batch(BATCH)

model = Classifier()
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(data, epochs=12, verbose=0)
