"""The lower rungs: a training loop of one's own. `outpace race "examples/ladder/loop.py 0" "examples/ladder/loop.py 1" ...`"""

import sys

import keras
import program
import tensorflow as tf

RUNGS = {
    "0": (lambda: program.from_generator(1), 1, False),  # a Python generator with PIL, single images, an eager loop
    "1": (lambda: program.from_generator(program.BATCH), program.BATCH, False),  # batches of 32
    "2": (lambda: program.from_generator(program.BATCH), program.BATCH, True),  # the step in a tf.function
    "3": (program.from_files, program.BATCH, True),  # tf.data instead of a generator
    "4": (program.in_parallel, program.BATCH, True),  # shuffle first, parallel map, prefetch
}


def outpace_race():
    """One training step of a rung, and its number of examples."""
    dataset, batch, compiled = RUNGS[sys.argv[1]]
    model, accuracy = program.model(), keras.metrics.SparseCategoricalAccuracy()
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    batches = iter(dataset())

    def train(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = program.loss(labels, logits)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        accuracy.update_state(labels, logits)
        return loss

    call = tf.function(train) if compiled else train

    def step():
        loss = call(*next(batches))
        return float(loss), accuracy.result().numpy()  # what a progress bar of one's own shows

    return step, batch
