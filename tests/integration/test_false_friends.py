"""What TensorFlow 2.21 does by itself is not advised; what it does not do is."""

from __future__ import annotations

from pathlib import Path

import pytest

from outpace import api
from tests.integration.programs import run_on_tensorflow

pytest.importorskip("tensorflow", reason="needs TensorFlow to run the pipelines")

SCRIPT = """
import sys
import tensorflow as tf
kind, out = sys.argv[1:]
images = tf.random.uniform((256, 96, 96, 3))
def stateless(x): return tf.image.resize(tf.image.resize(x, (192, 192)), (96, 96))
def stateful(x): return tf.image.random_flip_left_right(stateless(x))
data = tf.data.Dataset.from_tensor_slices(images).repeat().map(stateless if kind == "stateless" else stateful).batch(16)
@tf.function
def step(x): return tf.reduce_sum(x)
it = iter(data)
for _ in range(5): step(next(it))
with tf.profiler.experimental.Profile(out):
    for s in range(15):
        with tf.profiler.experimental.Trace("train", step_num=s, _r=1): step(next(it)).numpy()
"""


def captured(kind: str, folder: Path) -> api.Profile:
    done = run_on_tensorflow(SCRIPT, folder, kind, str(folder))
    assert done.code == 0, done.err[-2000:]
    return api.open(folder)


def test_a_stateless_map_without_prefetch_is_no_finding(tmp_path: Path) -> None:
    """TensorFlow makes the map parallel and fuses it with the batch: nothing is missing."""
    profile = captured("stateless", tmp_path)
    stages = set(profile.tf_data().table("stages")["stage"])
    assert {"MapAndBatch"} & stages or any(s.startswith("ParallelMap") for s in stages)
    for finding in profile.tf_data().findings:
        assert finding.id != "no_prefetch"
        assert "Set num_parallel_calls" not in finding.action


def test_a_stateful_map_is_named(tmp_path: Path) -> None:
    """A random map stays sequential: that is said, and parallelising it is advised."""
    profile = captured("stateful", tmp_path)
    finding = next(f for f in profile.tf_data().findings if f.id == "slow_stage")
    assert finding.severity.value == "high"
    if "Map" in set(profile.tf_data().table("stages")["stage"]):
        assert "Set num_parallel_calls" in finding.action
