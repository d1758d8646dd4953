"""What a program is made of: models that only their first step can build, and feeds of inputs that are no tf.data pipeline."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.programs import needs_tensorflow, run_program

pytestmark = needs_tensorflow

PROGRAM = """
import json
import keras, numpy as np, tensorflow as tf
from outpace.tune.program.program import Program
from outpace.tune.program.stepper import Stepper

class Pair(keras.Model):
    '''No `call`, two networks, and an optimizer of its own: nothing is built before the first step.'''

    def __init__(self):
        super().__init__()
        self.left, self.right = keras.layers.Dense(4), keras.layers.Dense(4)
        self.other = keras.optimizers.SGD()

    def train_step(self, data):
        a, b, weights = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(weights[:, None] * (self.left(a) - self.right(b)) ** 2)
        variables = self.left.trainable_variables + self.right.trainable_variables
        self.other.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return {"loss": loss}

x, y = np.ones((64, 6), "float32"), np.ones((64, 3), "float32")
model = Pair()
model.compile(optimizer="sgd")
data = tf.data.Dataset.from_tensor_slices((x, y, np.ones(64, "float32"))).batch(16)
program = Program.of(model, data)
stepper = Stepper(program)
stepper.compile()
print(json.dumps([stepper.run(3), float(stepper._logs["loss"])]))
"""


def test_a_model_that_only_a_step_can_build(tmp_path: Path) -> None:
    ended = run_program(PROGRAM, tmp_path)
    assert ended.code == 0, ended.err[-3000:]
    steps, loss = json.loads(ended.out.splitlines()[-1])
    assert steps == 3 and loss >= 0


FEEDS = """
import json, threading, time
import keras, numpy as np, tensorflow as tf
from outpace.tune.climb.running import Copies
from outpace.tune.program.source import Source

class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 40
    def __getitem__(self, number):
        return np.full((4, 2), number, "float32"), np.zeros(4)

source = Source(Batches(workers=2), {})
workers = source.feed(source.dataset)
reader = iter(workers.dataset.repeat())
next(reader)
time.sleep(1.0)
waiting = workers.queued()

def slow():
    number = 0
    while True:
        time.sleep(0.002)  # lets other threads run: two readers of one generator would meet inside it
        yield np.full((4, 2), number, "float32"), np.zeros(4)
        number += 1

source = Source(slow(), {})
copies = Copies(30.0, 1 << 26, source.feed)
read, failures = [], []

def draw(dataset):
    try:
        read.extend(int(x[0, 0]) for x, _ in dataset.take(60))
    except Exception as error:
        failures.append(str(error))

threads = [threading.Thread(target=draw, args=(copies.of(source.dataset).dataset,)) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

short = Source(((np.full((4, 2), n, "float32"), np.zeros(4)) for n in range(5)), {})
again = [int(x[0, 0]) for x, _ in short.feed(short.dataset).dataset.take(12)]
print(json.dumps([waiting, failures, len(read), short.generator.ended, again]), flush=True)
import os
os._exit(0)
"""


def test_each_reader_has_a_feed_of_its_own(tmp_path: Path) -> None:
    ended = run_program(FEEDS, tmp_path)
    assert ended.code == 0, ended.err[-3000:]
    waiting, failures, read, kept, again = json.loads(ended.out.splitlines()[-1])
    assert waiting > 0, "what Keras' workers hold ready is taken out before a block is timed"
    assert not failures and read == 180
    assert kept == 5 and set(again) == set(range(5)), "a generator that ends is read again from its first batches"
