"""Rung 1 as a plain script, for `outpace tune examples/ladder/train.py`: an eager loop, fed by a Python generator with PIL."""

import keras
import program
import tensorflow as tf

model, accuracy = program.model(), keras.metrics.SparseCategoricalAccuracy()
optimizer = keras.optimizers.Adam(1e-3)

for step, (images, labels) in enumerate(program.from_generator(program.BATCH).take(16000)):
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        loss = program.loss(labels, logits)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    accuracy.update_state(labels, logits)
    print(f"\rstep {step}: loss {float(loss):.3f}, accuracy {accuracy.result().numpy():.3f}", end="")
