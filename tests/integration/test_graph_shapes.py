# SPDX-License-Identifier: Apache-2.0
"""Shapes that a capture reads from TensorFlow's graphs, against graphs of the same functions for
arguments of known sizes: with these sizes for the symbols, every dimension that is not `?` must be
the same.

The functions change open dimensions (the batch, or the length of a sequence or image) in ways that
could be taken for keeping them.
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
SIZES = (6, 14, 10, 22)
"""Sizes of the symbols, in order."""
BATCH = SIZES[0]
DIMENSION = re.compile(r"\b(\d*)s(\d+)\b(?=[,\]])")


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


def sequence(x: Any) -> Any:
    wide = tf.nn.conv1d(x, tf.ones([5, 8, 4]), 2, "VALID")
    pooled = tf.nn.max_pool1d(wide, 2, 2, "VALID")
    return tf.reduce_sum(tf.exp(pooled)) + tf.reduce_sum(tf.exp(tf.reduce_mean(x, 1) @ tf.ones([8, 3])))


def image(x: Any) -> Any:
    half = tf.nn.conv2d(x, tf.ones([3, 3, 8, 4]), 2, "SAME")
    with tf.GradientTape() as tape:
        tape.watch(half)
        loss = tf.reduce_sum(tf.nn.avg_pool2d(half, 2, 2, "SAME") ** 2)
    return loss + tf.reduce_sum(tf.exp(tf.image.resize(x, [4, 4]))) + tf.reduce_sum(tape.gradient(loss, half))


def customised(x: Any) -> Any:
    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def part(y: Any) -> Any:
        return tf.boolean_mask(y, y[:, 0] > 0), lambda upstream: tf.zeros_like(y)

    return tf.reduce_sum(tf.exp(part(x)))


def summed(x: Any) -> Any:
    rows = tf.boolean_mask(x, x[:, 0] > 0)
    return tf.reduce_sum(tf.exp(tf.einsum("md,bd->m", rows, x))) + tf.reduce_sum(tf.exp(tf.einsum("md,bd->b", rows, x)))


def rotating(x: Any) -> Any:
    def body(n: Any, a: Any, b: Any, c: Any) -> Any:
        return n + 1, b, c, tf.exp(tf.concat([a, a], 0))

    any_size = tf.TensorShape([None, 8])
    shapes = (tf.TensorShape([]), any_size, any_size, any_size)
    return tf.reduce_sum(tf.exp(tf.while_loop(lambda n, *_: n < 5, body, (0, x, x, x), shape_invariants=shapes)[1]))


def two(x: Any, y: Any) -> Any:
    both = tf.concat([x, y], 0) @ tf.ones([8, 3])
    each = tf.nn.relu(x @ tf.ones([8, 3])), tf.nn.relu(y @ tf.ones([8, 5]))
    return tf.reduce_sum(both) + sum(map(tf.reduce_sum, each)) + tf.reduce_sum(tf.exp(x @ tf.transpose(y)))


def attention(x: Any) -> Any:
    scores = tf.nn.softmax(tf.matmul(x, x, transpose_b=True))
    return tf.reduce_sum(tf.matmul(scores, x) @ tf.ones([8, 3]))


def scattered(x: Any) -> Any:
    sums = tf.math.unsorted_segment_sum(x, tf.cast(x[:, 0], tf.int32), 9)
    ranked = tf.math.top_k(x, 3).values
    return tf.reduce_sum(tf.exp(sums)) + tf.reduce_sum(tf.exp(ranked)) + tf.reduce_sum(tf.exp(tf.unique(x[:, 0]).y))


PLAIN, SEQUENCE, IMAGE = ([None, 8],), ([None, None, 8],), ([None, None, 16, 8],)
FUNCTIONS: dict[Callable[..., Any], Any] = {
    **dict.fromkeys(
        (
            joined,
            sliced,
            tiled,
            masked,
            parted,
            gathered,
            reshaped,
            transposed,
            called,
            called_twice,
            looped,
            growing,
            either,
            trained,
        ),
        PLAIN,
    ),
    **dict.fromkeys((network, customised, summed, rotating, scattered), PLAIN),
    **dict.fromkeys((sequence, attention), SEQUENCE),
    image: IMAGE,
    two: (PLAIN[0], PLAIN[0]),
}
WHOLE = ("called", "looped", "trained", "network", "attention")
"""Functions of which all products, and the gradients of them, are known."""


def read(function: Callable[..., Any], shapes: Any) -> dict[str, str]:
    """Return the text of each op of a function's graph."""
    from outpace.capture.graph_shapes import ShapeReader

    graph = tf.function(function).get_concrete_function(*(tf.TensorSpec(shape, tf.float32) for shape in shapes)).graph
    reader = ShapeReader()
    reader.read("f", graph)
    found = reader.build_shapes()
    return {name: found.texts[number] if number >= 0 else "" for name, number in found.by_function["f"].items()}


def closed(shapes: Any) -> Any:
    """The shapes with sizes for their open dimensions."""
    sizes = iter(SIZES)
    return [[next(sizes) if one is None else one for one in shape] for shape in shapes]


def both(function: Callable[..., Any], shapes: Any) -> list[dict[str, str]]:
    function(*map(tf.ones, closed(shapes)))  # variables are created outside of graphs
    return [read(function, shapes), read(function, closed(shapes))]


@cache
def texts() -> dict[str, list[dict[str, str]]]:
    done = run_python("-m", "tests.integration.test_graph_shapes", cwd=ROOT, KERAS_BACKEND="tensorflow")
    assert done.code == 0, done.err[-3000:]
    result: dict[str, list[dict[str, str]]] = json.loads(done.out.splitlines()[-1])
    return result


@pytest.mark.parametrize("name", [function.__name__ for function in FUNCTIONS])
def test_a_text_with_sizes_put_in_is_the_text_of_these_sizes(name: str) -> None:
    opened, sized = texts()[name]
    assert opened.keys() & sized.keys()
    for op in opened.keys() & sized.keys():
        text, other = (one.partition(f" {AFTER} ")[0] for one in (opened[op], sized[op]))
        text = DIMENSION.sub(lambda match: str(int(match[1] or 1) * SIZES[int(match[2])]), text)
        pattern = re.escape(text).replace(re.escape("[?]"), r"\[[^\]]*\]").replace(r"\?", r"(\d+|\?)")
        assert not text or not other or re.fullmatch(pattern, other), (op, text, other)


@pytest.mark.parametrize("name", WHOLE)
def test_products_know_their_dimensions(name: str) -> None:
    found = [text for text in texts()[name][0].values() if re.match("(Batch)?MatMul|Conv|Depthwise", text)]
    assert found
    assert not [text for text in found if "?" in text]


def test_the_operations_of_a_network_are_those_of_its_layers() -> None:
    opened = texts()["network"][0]
    flops = {name: find_graph_op(text, text.split()[0], {0: BATCH}).cost.product_flops for name, text in opened.items()}
    forward = {name: count for name, count in flops.items() if count and "gradient" not in name}
    assert sorted(forward.values()) == sorted(
        (2.0 * BATCH * 4 * 2 * 3 * 4, 2.0 * BATCH * 3 * 1 * 3 * 4, 2.0 * BATCH * 9 * 5, 2.0 * BATCH * 5 * 2)
    )
    assert any(AFTER in text for text in opened.values())


if __name__ == "__main__":
    print(json.dumps({function.__name__: both(function, shapes) for function, shapes in FUNCTIONS.items()}))
