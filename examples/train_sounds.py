"""Train a small classifier of sounds with Keras `fit`. The sounds are made here, so nothing is downloaded.

python examples/train_sounds.py [EPOCHS]
"""

import sys

import keras
import numpy as np
import tensorflow as tf

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
COUNT, LENGTH = 1600, 16000


def read_sound(number):
    """One second of a hum (class 0) or a chirp (class 1), as the logarithm of its spectrogram."""
    number = int(number)
    time = np.arange(LENGTH) / LENGTH
    pitch = 200 + number % 97 + number % 2 * 300 * time
    sound = sum(np.sin(2 * np.pi * tone * pitch * time) / tone for tone in range(1, 5))
    frames = sound.reshape(125, 128) * np.hanning(128)
    return np.log1p(np.abs(np.fft.rfft(frames))).astype(np.float32)


def load(number, label):
    spectrum = tf.py_function(read_sound, [number], tf.float32)
    spectrum.set_shape((125, 65))
    return spectrum, label


numbers = np.arange(COUNT)
dataset = tf.data.Dataset.from_tensor_slices((numbers, numbers % 2))
dataset = dataset.map(load)
dataset = dataset.shuffle(256)
dataset = dataset.batch(32)

model = keras.Sequential(
    [
        keras.layers.Input((125, 65)),
        keras.layers.Conv1D(16, 5, strides=4, activation="relu"),
        keras.layers.GlobalMaxPooling1D(),
        keras.layers.Dense(2),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])

if __name__ == "__main__":
    model.fit(dataset, epochs=EPOCHS, verbose=2)
