"""Trains a 1D network on band-filtered heartbeats that a Python generator prepares with NumPy.

A performance engineer would see `from_generator`: the filters run in Python, one recording after the other, the same in every epoch.
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(7)
RECORDINGS, SAMPLES, BATCH, CLASSES = 480, 4096, 16, 4
BANDS = ((1, 40), (40, 160), (160, 640))


def write_recordings(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(7)
    labels = draw.integers(0, CLASSES, RECORDINGS)
    beat = np.sin(np.arange(SAMPLES)[None] * (0.05 + 0.1 * labels[:, None]))
    np.savez(path, signals=(beat * 3000 + draw.standard_normal(beat.shape) * 2000).astype("int16"), labels=labels)


def bands(signal):
    """The signal in three frequency bands, each divided by its running deviation: (512, 3)."""
    spectrum = np.fft.rfft(signal.astype("float64"))
    found = []
    for low, high in BANDS:
        kept = np.zeros_like(spectrum)
        kept[low:high] = spectrum[low:high]
        band = np.fft.irfft(kept)
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(band, (32, 31), mode="reflect"), 64)[::8]
        found.append(band[::8] / (windows.std(axis=1) + 1.0))
    return np.stack(found, axis=1).astype("float32")


path = Path(sys.argv[1]) / "generator_fed" / "recordings.npz"
if not path.exists():
    write_recordings(path)
with np.load(path) as stored:
    signals, labels = stored["signals"], stored["labels"]


def recordings():
    for signal, label in zip(signals, labels, strict=True):
        yield bands(signal), label


data = tf.data.Dataset.from_generator(
    recordings,
    output_signature=(tf.TensorSpec((512, 3), tf.float32), tf.TensorSpec((), tf.int64)),
)
data = data.apply(tf.data.experimental.assert_cardinality(RECORDINGS)).batch(BATCH).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential([keras.Input((512, 3))])
for filters in (32, 64, 64):
    model.add(keras.layers.Conv1D(filters, 7, strides=2, padding="same", activation="relu"))
model.add(keras.layers.GlobalAveragePooling1D())
model.add(keras.layers.Dense(CLASSES))
model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(data, epochs=11, verbose=0)
