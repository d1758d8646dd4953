#!/usr/bin/env python
import pathlib
import sys

import numpy as np
import keras

OUT = pathlib.Path(sys.argv[1])
N, FEATURES, EPOCHS, BATCH = 24_000, 96, 18, 128


def load():
    """Sensor readings with rare failures."""
    cache = OUT / "sensors.npz"
    if cache.exists():
        with np.load(cache) as z:
            return z["x"], z["y"]
    OUT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    x = rng.normal(size=(N, FEATURES)).astype("float16")
    w = rng.normal(size=FEATURES)
    score = np.tanh(x @ w / 4) + 0.3 * x[:, 0] * x[:, 1] + rng.normal(scale=0.3, size=N)
    y = (score > np.quantile(score, 0.92)).astype("int8")
    np.savez(cache, x=x, y=y)
    return x, y


def build():
    inputs = keras.Input((FEATURES,), name="readings")
    h = keras.layers.BatchNormalization()(inputs)
    for width in (1024, 768, 512):
        h = keras.layers.Dense(width, activation="gelu")(h)
        h = keras.layers.Dropout(0.4)(h)
    outputs = keras.layers.Dense(1, activation="sigmoid")(h)
    return keras.Model(inputs, outputs, name="failure")


def main():
    x, y = load()
    x = x.astype("float32")
    positive = y.mean()
    model = build()
    model.summary()
    model.compile(
        optimizer=keras.optimizers.AdamW(2e-4, weight_decay=1e-3),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(name="auc"), keras.metrics.Recall(name="recall")],
    )
    callbacks = [
        keras.callbacks.EarlyStopping("val_auc", mode="max", patience=20, restore_best_weights=True),
        keras.callbacks.ModelCheckpoint(str(OUT / "best.keras"), monitor="val_auc", mode="max",
                                        save_best_only=True),
    ]
    history = model.fit(
        x, y, batch_size=BATCH, epochs=EPOCHS, validation_split=0.2,
        class_weight={0: 1.0, 1: float((1 - positive) / positive)},
        callbacks=callbacks, verbose=2,
    )
    print(f"best val_auc {max(history.history['val_auc']):.4f}")


if __name__ == "__main__":
    main()
