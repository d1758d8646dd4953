# SPDX-License-Identifier: Apache-2.0
"""Shapes that a capture reads from TensorFlow's graphs, against graphs of the same functions for
batches of one size: with that size for `b`, every dimension that is not `?` must be the same.

The functions change the batch in each way that could be taken for keeping it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from outpace.metrics.facts.graph_ops import find_graph_op
from outpace.store.record import AFTER
from tests.integration.programs import needs_tensorflow, run_python

if TYPE_CHECKING or __name__ == "__main__":
    import keras
    import tensorflow as tf
    from keras import layers

pytestmark = [needs_tensorflow]

ROOT = Path(__file__).resolve().parents[2]
BATCH = 6
DIMENSION = re.compile(r"\b(\d*)b\b(?=[,\]])")


def joined(x: Any) -> Any:
    twice = tf.concat([x, x], 0)
    beside = tf.concat([x, x], 1)
    return tf.reduce_sum(tf.nn.relu(twice)) + tf.reduce_sum(beside @ tf.ones([16, 3]))


def sliced(x: Any) -> Any:
    return tf.reduce_sum(tf.exp(x[1:])) + tf.reduce_sum(tf.exp(x[::2])) + tf.reduce_sum(tf.exp(x[:, 2:]))


def tiled(x: Any) -> Any:
    return tf.reduce_sum(tf.exp(tf.tile(x, [3, 1]))) + tf.reduce_sum(tf.exp(tf.repeat(x, 2, axis=0)))


def masked(x: Any) -> Any:
    return tf.reduce_sum(tf.exp(tf.boolean_mask(x, x[:, 0] > 0)) @ tf.ones([8, 2]))


def parted(x: Any) -> Any:
    halves, columns = tf.split(x, 2, 0), tf.split(x, 2, 1)
    return sum(tf.reduce_sum(tf.exp(part)) for part in (*halves, *columns))


def gathered(x: Any) -> Any:
    table = tf.ones([50, 4])
    rows = tf.gather(table, tf.cast(x, tf.int32))
    few = tf.gather(x, tf.where(x[:, 0] > 0)[:, 0])
    return tf.reduce_sum(tf.exp(rows)) + tf.reduce_sum(tf.exp(few))


def reshaped(x: Any) -> Any:
    flat = tf.reshape(x, [-1, 2])
    pairs = tf.reshape(x, [-1, 16])
    return tf.reduce_sum(flat @ tf.ones([2, 5])) + tf.reduce_sum(pairs @ tf.ones([16, 5]))


def transposed(x: Any) -> Any:
    turned = tf.transpose(x)
    return tf.reduce_sum(turned @ x) + tf.reduce_sum(tf.einsum("ij,kj->ik", x, x))


def called(x: Any) -> Any:
    inner = tf.function(lambda y: tf.nn.relu(y @ tf.ones([2, 3])))
    return tf.reduce_sum(inner(tf.reshape(x, [-1, 2])))


def called_twice(x: Any) -> Any:
    inner = tf.function(lambda y: tf.nn.relu(y @ tf.ones([8, 3])), reduce_retracing=True)
    return tf.reduce_sum(inner(x)) + tf.reduce_sum(inner(tf.concat([x, x], 0)))


def looped(x: Any) -> Any:
    def body(n: Any, y: Any) -> Any:
        return n + 1, tf.nn.relu(y @ tf.eye(8))

    return tf.reduce_sum(tf.while_loop(lambda n, _: n < 3, body, (0, x))[1])


def growing(x: Any) -> Any:
    def body(n: Any, y: Any) -> Any:
        return n + 1, tf.exp(tf.concat([y, y], 0))

    shapes = (tf.TensorShape([]), tf.TensorShape([None, 8]))
    return tf.reduce_sum(tf.while_loop(lambda n, _: n < 2, body, (0, x), shape_invariants=shapes)[1])


def either(x: Any) -> Any:
    return tf.reduce_sum(tf.exp(tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: tf.concat([x, x], 0))))


def trained(x: Any) -> Any:
    weights = tf.ones([8, 4])
    with tf.GradientTape() as tape:
        tape.watch(weights)
        loss = tf.reduce_mean(tf.nn.dropout(tf.nn.relu(x @ weights), 0.5))
    return tf.reduce_sum(tape.gradient(loss, weights))


@cache
def model() -> Any:
    kinds = [
        layers.Reshape((4, 2, 1)),
        layers.Conv2D(3, 2, padding="same", activation="relu"),
        layers.BatchNormalization(),
        layers.DepthwiseConv2D(2),
        layers.Flatten(),
        layers.Dense(5, activation="gelu"),
        layers.Dropout(0.3),
        layers.Dense(2),
    ]
    built = keras.Sequential(kinds)
    built.build((None, 8))
    return built


def network(x: Any) -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model()(x, training=True)))
    return sum(tf.reduce_sum(gradient) for gradient in tape.gradient(loss, model().trainable_variables))


FUNCTIONS: tuple[Callable[[Any], Any], ...] = (
    joined, sliced, tiled, masked, parted, gathered, reshaped, transposed, called, called_twice, looped, growing, either, trained,
    network,
)  # fmt: skip
WHOLE = ("joined", "called", "looped", "trained", "network")
"""Functions of which all products, and the gradients of them, are known."""


def read(function: Callable[[Any], Any], size: int | None) -> dict[str, str]:
    """Return the text of each op of a function's graph."""
    from outpace.capture.graph_shapes import ShapeReader

    function(tf.ones([BATCH, 8]))  # variables are created outside of graphs
    graph = tf.function(function).get_concrete_function(tf.TensorSpec([size, 8], tf.float32)).graph
    reader = ShapeReader()
    reader.read("f", graph)
    shapes = reader.build_shapes()
    return {name: shapes.texts[number] if number >= 0 else "" for name, number in shapes.by_function["f"].items()}


@cache
def texts() -> dict[str, list[dict[str, str]]]:
    done = run_python("-m", "tests.integration.test_graph_shapes", cwd=ROOT, KERAS_BACKEND="tensorflow")
    assert done.code == 0, done.err[-3000:]
    result: dict[str, list[dict[str, str]]] = json.loads(done.out.splitlines()[-1])
    return result


@pytest.mark.parametrize("name", [function.__name__ for function in FUNCTIONS])
def test_a_text_with_the_batch_put_in_is_the_text_of_that_batch(name: str) -> None:
    opened, closed = texts()[name]
    assert opened.keys() & closed.keys()
    for op in opened.keys() & closed.keys():
        text, other = (one.partition(f" {AFTER} ")[0] for one in (opened[op], closed[op]))
        text = DIMENSION.sub(lambda match: str(int(match[1] or 1) * BATCH), text)
        pattern = re.escape(text).replace(re.escape("[?]"), r"\[[^\]]*\]").replace(r"\?", r"(\d+|\?)")
        assert not text or not other or re.fullmatch(pattern, other), (op, text, other)


@pytest.mark.parametrize("name", WHOLE)
def test_products_know_their_dimensions(name: str) -> None:
    found = [text for text in texts()[name][0].values() if re.match("MatMul|Conv|Depthwise", text)]
    assert found
    assert not [text for text in found if "?" in text]


def test_the_operations_of_a_network_are_those_of_its_layers() -> None:
    opened = texts()["network"][0]
    flops = {name: find_graph_op(text, text.split()[0], BATCH).cost.product_flops for name, text in opened.items()}
    forward = {name: count for name, count in flops.items() if count and "gradient" not in name}
    assert sorted(forward.values()) == sorted(
        (2.0 * BATCH * 4 * 2 * 3 * 4, 2.0 * BATCH * 3 * 1 * 3 * 4, 2.0 * BATCH * 9 * 5, 2.0 * BATCH * 5 * 2)
    )
    assert any(AFTER in text for text in opened.values())


if __name__ == "__main__":
    print(json.dumps({function.__name__: [read(function, size) for size in (None, BATCH)] for function in FUNCTIONS}))
