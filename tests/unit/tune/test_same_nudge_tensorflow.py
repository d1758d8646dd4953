"""What a nudged run does with variables of TensorFlow that a pass makes."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

if os.environ.get("OUTPACE_FAST"):
    pytest.skip("it imports a framework", allow_module_level=True)

from outpace.tune.same.nudge import Nudge
from tests.integration.programs import needs_tensorflow

pytestmark = pytest.mark.slow


@needs_tensorflow
@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
def test_a_variable_that_a_pass_makes_is_moved_as_it_is_made(graph: bool) -> None:
    import tensorflow as tf

    made: list[tf.Variable] = []

    def step() -> None:  # as the first call of a model that has to be built
        if not made:
            made.extend(tf.Variable(tf.constant(value)) for value in ([0.3, 1.7], [0.5, 2.0], [3, 4]))
            made.append(tf.Variable(lambda: tf.constant([0.3, 1.7])))
            made.append(tf.Variable(np.array([0.3, 1.7], np.float32)))

    def run() -> None:
        found = Nudge(lambda file: file == __file__, 7)
        found.frame(sys._getframe())
        tf.function(step)() if graph else step()
        found._creating.__exit__(None, None, None)

    with ThreadPoolExecutor(1) as pool:  # making is watched in one thread
        pool.submit(run).result()
    moved, whole, counts, called, array = (each.numpy() for each in made)
    for those in (moved, called, array):
        assert (those != np.array([0.3, 1.7], np.float32)).all() and np.allclose(those, [0.3, 1.7], rtol=3e-7, atol=0)
    assert whole.tolist() == [0.5, 2.0] and counts.tolist() == [3, 4]
