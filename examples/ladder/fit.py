"""The upper rungs: Keras `fit`. `outpace race "examples/ladder/fit.py 5" "examples/ladder/fit.py limit" ...`"""

import sys

import keras
import program

RUNGS = {
    "5": (program.in_parallel, 1),  # fit: nothing is read back after each step
    "6": (program.cached, 1),  # cache what every epoch repeats
    "7": (program.cached_in_batches, 1),  # mirror batches instead of images
    "8": (program.cached_in_batches, 16),  # 16 steps per call
    "limit": (program.in_memory, 16),  # the model alone
}

if __name__ == "__main__":
    dataset, steps = RUNGS[sys.argv[1]]
    model = program.model()
    model.compile(keras.optimizers.Adam(1e-3), program.loss, metrics=["accuracy"], steps_per_execution=steps)
    model.fit(dataset(), steps_per_epoch=1600, epochs=10, verbose=0)
