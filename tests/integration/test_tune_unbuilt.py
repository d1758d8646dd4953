"""Models that only their first step can build are tuned in a process that dies, and refused where everything must be put back."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.programs import needs_tensorflow, run_program

pytestmark = needs_tensorflow

PROGRAM = """
import json
import keras, numpy as np, tensorflow as tf
from outpace.model.errors import UsageError
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
try:
    Program.of(model, data)
    refused = ""
except UsageError as error:
    refused = str(error)
program = Program.of(model, data, keeps=False)
stepper = Stepper(program)
stepper.compile()
print(json.dumps([refused, stepper.run(3), float(stepper._logs["loss"]), program.outside is None]))
"""


def test_a_model_that_only_a_step_can_build(tmp_path: Path) -> None:
    ended = run_program(PROGRAM, tmp_path)
    assert ended.code == 0, ended.err[-3000:]
    refused, steps, loss, unkept = json.loads(ended.out.splitlines()[-1])
    assert "cannot be made before the first step" in refused or "optimizers of its own" in refused
    assert steps == 3 and loss >= 0 and unkept
