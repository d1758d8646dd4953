"""Train a small image classifier on a folder of JPEG files with Keras `fit`.

python examples/train_images.py [FOLDER] [EPOCHS]
"""

import pathlib
import sys

import keras
import numpy as np
import tensorflow as tf
from PIL import Image

FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "demo/images")
EPOCHS = int(sys.argv[2]) if len(sys.argv) > 2 else 2
SIZE = 64

classes = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
paths = sorted(str(path) for path in FOLDER.glob("*/*.jpg"))
labels = [classes.index(pathlib.Path(path).parent.name) for path in paths]


def read_image(path):
    image = Image.open(path.numpy().decode()).convert("RGB").resize((SIZE, SIZE))
    return np.asarray(image, dtype=np.float32) / 255.0


def load(path, label):
    image = tf.py_function(read_image, [path], tf.float32)
    image.set_shape((SIZE, SIZE, 3))
    return image, label


def augment(image, label):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, 0.1)
    image = tf.image.random_contrast(image, 0.9, 1.1)
    return image, label


dataset = tf.data.Dataset.from_tensor_slices((paths, labels))
dataset = dataset.map(load)
dataset = dataset.map(augment)
dataset = dataset.shuffle(256)
dataset = dataset.batch(32)

model = keras.Sequential(
    [
        keras.layers.Input((SIZE, SIZE, 3)),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(len(classes)),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])

if __name__ == "__main__":
    model.fit(dataset, epochs=EPOCHS, verbose=2)
