"""Variational autoencoder on little blobs; the model has its own train_step."""
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops


class Sampling(layers.Layer):
    def __init__(self, **kw):
        super().__init__(**kw)
        self.seed_generator = keras.random.SeedGenerator(1337)

    def call(self, inputs):
        mean, log_var = inputs
        return mean + ops.exp(0.5 * log_var) * keras.random.normal(ops.shape(mean), seed=self.seed_generator)


class VAE(keras.Model):
    def __init__(self, latent=8, **kw):
        super().__init__(**kw)
        self.enc = keras.Sequential([
            layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
            layers.Flatten(), layers.Dense(64, activation="relu")])
        self.to_mean, self.to_log_var, self.sample = layers.Dense(latent), layers.Dense(latent), Sampling()
        self.dec = keras.Sequential([
            layers.Dense(7 * 7 * 32, activation="relu"), layers.Reshape((7, 7, 32)),
            layers.Conv2DTranspose(32, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(1, 3, padding="same", activation="sigmoid")])
        self.trackers = [keras.metrics.Mean(n) for n in ("total", "reconstruction", "kl")]

    @property
    def metrics(self):
        return self.trackers

    def call(self, x):
        h = self.enc(x)
        mean, log_var = self.to_mean(h), self.to_log_var(h)
        return self.dec(self.sample((mean, log_var))), mean, log_var

    def train_step(self, x):
        with tf.GradientTape() as tape:
            image, mean, log_var = self(x, training=True)
            rec = ops.mean(ops.sum(keras.losses.binary_crossentropy(x, image), axis=(1, 2)))
            kl = ops.mean(ops.sum(-0.5 * (1 + log_var - ops.square(mean) - ops.exp(log_var)), axis=1))
            total = rec + kl
        self.optimizer.apply_gradients(zip(tape.gradient(total, self.trainable_weights), self.trainable_weights))
        for tracker, value in zip(self.trackers, (total, rec, kl)):
            tracker.update_state(value)
        return {t.name: t.result() for t in self.trackers}


path = Path(sys.argv[1]) / "blobs.npy"
if not path.exists():
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    yy, xx = np.mgrid[:28, :28]
    c, s = rng.uniform(6, 22, (2, 8000, 1, 1)), rng.uniform(1.5, 5, (8000, 1, 1))
    np.save(path, (255 * np.exp(-((xx - c[0]) ** 2 + (yy - c[1]) ** 2) / (2 * s ** 2))).astype("uint8"))
blobs = np.load(path)[..., None].astype("float32") / 255

vae = VAE()
vae.compile(optimizer=keras.optimizers.Adam(1e-3))
vae.fit(blobs, epochs=8, batch_size=64)
