"""Results of which a part is read, as a capture finds them in TensorFlow's graphs, against the
gradients of the same functions: what nothing reads has a gradient of 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.programs import needs_tensorflow, run_python

if TYPE_CHECKING or __name__ == "__main__":
    import tensorflow as tf

pytestmark = [needs_tensorflow]

ROOT = Path(__file__).resolve().parents[2]
BATCH, LENGTH, WIDTH = 3, 8, 6
Seen = list[Any]  # results inside a function, of which the gradients are looked at


def dense(x: Any, seen: Seen, width: int = WIDTH) -> Any:
    """A layer on each position, as Keras computes it: rows, a product, and rows in their places."""
    rows = tf.reshape(x, [-1, x.shape[-1]])
    seen.append(tf.matmul(rows, tf.random.stateless_normal([x.shape[-1], width], (len(seen), 1)), name=f"seen_{len(seen)}"))
    return tf.reshape(seen[-1], [*tf.unstack(tf.shape(x))[:-1], width])


def last(x: Any, seen: Seen) -> Any:
    return dense(tf.nn.gelu(dense(x, seen)), seen)[:, -1]


def some(x: Any, seen: Seen) -> Any:
    return tf.gather(dense(tf.tanh(dense(x, seen)), seen), [1, 2], axis=1)


def own(x: Any, seen: Seen) -> Any:
    """Positions of each example of its own."""
    places = tf.cast(tf.argsort(x[:, :, 0], 1)[:, :2], tf.int32)
    return tf.gather(dense(tf.tanh(dense(x, seen)), seen), places, batch_dims=1)


def both_ends(x: Any, seen: Seen) -> Any:
    y = dense(x, seen)
    return y[:, 0] * y[:, -1]


def columns(x: Any, seen: Seen) -> Any:
    """A part of each row needs all of the rows before."""
    return dense(dense(x, seen), seen)[..., :2]


def normalised(x: Any, seen: Seen) -> Any:
    y = dense(x, seen)
    middle = tf.reduce_mean(y, -1, keepdims=True)
    return ((y - middle) * tf.math.rsqrt(tf.reduce_mean(tf.square(y - middle), -1, keepdims=True) + 1))[:, 2]


def weighed(x: Any, seen: Seen) -> Any:
    return tf.nn.softmax(dense(x, seen))[:, 0]


def every(x: Any, seen: Seen) -> Any:
    y = dense(x, seen)
    return tf.reduce_sum(y) + tf.reduce_sum(y[:, -1])


def attended(x: Any, seen: Seen) -> Any:
    """The last position needs the keys and values of all."""
    query, key = dense(x, seen), dense(x, seen)
    return dense(tf.matmul(tf.nn.softmax(tf.matmul(query, key, transpose_b=True)), x), seen)[:, -1]


def projected(x: Any, seen: Seen) -> Any:
    y = dense(x, seen)
    return tf.einsum("abc,cde->abde", y, tf.ones([WIDTH, 2, 3]))[:, 0]


def turned(x: Any, seen: Seen) -> Any:
    """A part along what was the rows' dimension."""
    return dense(tf.transpose(dense(x, seen), [0, 2, 1]), seen)[:, 0]


def square(x: Any, seen: Seen) -> Any:
    """What is dropped is as long as what stays."""
    return dense(dense(x, seen), seen, LENGTH)[:, :, 0]


def square_turned(x: Any, seen: Seen) -> Any:
    y = dense(dense(x, seen), seen, LENGTH)
    return tf.transpose(y, [0, 2, 1])[:, 0] + tf.gather(y, 0, axis=2)


def square_gathered(x: Any, seen: Seen) -> Any:
    y = dense(dense(x, seen), seen, LENGTH)
    places = tf.constant([[n, m, 0] for n in range(BATCH) for m in range(LENGTH)])
    return tf.reshape(tf.gather_nd(y, places), [BATCH, LENGTH]) + tf.squeeze(tf.slice(y, [0, 0, 0], [-1, -1, 1]), 2)


def differentiated(x: Any, seen: Seen) -> Any:
    """A gradient is asked of the result itself, of all of it."""
    with tf.GradientTape() as inner:
        inner.watch(x)
        y = dense(tf.tanh(dense(x, seen)), seen)
    return tf.reduce_mean(inner.gradient(y, x)) + y[:, 0]


def spread(x: Any, seen: Seen) -> Any:
    """One matrix for all examples: its rows are not those of the result."""
    weights = tf.matmul(dense(x[0], seen), x[0], transpose_b=True)
    return tf.matmul(weights[None], x)[1:2]


def mixed(x: Any, seen: Seen) -> Any:
    """What the last product sums over is the dimension that the one before made."""
    y = dense(tf.transpose(x, [0, 2, 1]), seen)
    return tf.einsum("bct,cd->btd", y, tf.ones([WIDTH, 4]))[:, 0]


def mirrored(x: Any, seen: Seen) -> Any:
    """A slice takes the same part of an array and of its mirror image: not the same elements."""
    y = dense(x, seen, LENGTH)
    return (y + tf.transpose(y, [0, 2, 1]))[:, :2]


def scoped(x: Any, seen: Seen) -> Any:
    """A name scope of one's own that is called as TensorFlow's for gradients."""
    y = dense(x, seen)
    with tf.name_scope("gradients"):
        smooth = tf.reduce_sum(tf.square(y))
    return y[:, -1] + smooth


def halves(x: Any, seen: Seen) -> Any:
    y = dense(x, seen)
    return y[..., :3] * tf.sigmoid(y[..., 3:])


def twice(x: Any, seen: Seen) -> Any:
    """Two ops before one slice read the same part."""
    y = dense(x, seen)
    return (tf.tanh(y) + tf.exp(y))[:, :2]


EXACT = {"last": 2, "some": 2, "own": 2, "both_ends": 1, "normalised": 1, "weighed": 1, "twice": 1}
"""Functions of whose products, the first of them at least, the read share is found exactly."""
FUNCTIONS: list[Callable[[Any, Seen], Any]] = [
    *(last, some, own, both_ends, columns, normalised, weighed, every, attended, projected, turned, halves, twice),
    *(square, square_turned, square_gathered, differentiated, spread, mixed, mirrored, scoped),
]


def measured(function: Callable[[Any, Seen], Any], is_open: bool) -> tuple[list[float], list[float]]:
    """Return the shares of the products in `seen` that are found, and those whose gradient is not
    0.
    """
    from outpace.capture.graph_shapes import ShapeReader

    def step(x: Any) -> Any:
        seen: Seen = []
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(function(x, seen)))
        return tape.gradient(loss, seen)

    x = tf.random.stateless_normal([BATCH, LENGTH, WIDTH], (1, 2))
    concrete = tf.function(step).get_concrete_function(tf.TensorSpec([None if is_open else BATCH, LENGTH, WIDTH], tf.float32))
    gradients = concrete(x)
    reader = ShapeReader()
    reader.read("f", concrete.graph)
    needed = reader.build_shapes().needed.get("f", {})
    found = [needed.get(f"seen_{number}", (1.0, ""))[0] for number in range(len(gradients))]
    return found, [float(tf.reduce_mean(tf.cast(tf.not_equal(one, 0), tf.float32))) for one in gradients]


def tables(takes: str) -> list[tuple[str, str, str]]:
    """What is found of a table that a training looks up rows in, and all of whose rows the loss
    takes: for a norm, for a product, or not at all.
    """
    from outpace.capture.graph_shapes import ShapeReader

    table, weights = tf.Variable(tf.ones([50, 4])), tf.Variable(tf.ones([4, 2]))

    def multiply() -> Any:
        return table @ weights

    def step(ids: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, ids) @ weights)
            whole = {
                "norm": lambda: table,
                "product": lambda: table @ weights,
                "scaled": lambda: (8.0 * table) @ weights,
                "mean": lambda: tf.gather(table, ids) - tf.reduce_mean(table, 0),
                "called": tf.function(multiply),
                "": lambda: weights,
            }[takes]()
            loss += tf.nn.l2_loss(whole)
        for variable, gradient in zip([table, weights], tape.gradient(loss, [table, weights]), strict=True):
            variable.assign_sub(0.1 * tf.convert_to_tensor(gradient))

    reader = ShapeReader()
    reader.read("f", tf.function(step).get_concrete_function(tf.TensorSpec([None], tf.int32)).graph)
    return list(reader.build_shapes().tables.get("f", ()))


def repeated(losses: int, each: bool) -> int:
    """How often gradients are found to be computed, of several losses of one network: of `each` by
    itself, or of their sum; 1 for once.
    """
    from outpace.capture.graph_variables import find_repeated_gradient

    weights, bias = tf.Variable(tf.ones([4, 4])), tf.Variable(tf.ones([4]))

    def step(x: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            y = x
            for _ in range(3):
                y = tf.nn.relu(tf.nn.bias_add(y @ weights, bias))
            parts = [tf.reduce_sum(y**power) for power in range(1, losses + 1)]
            whole = tf.add_n(parts)
        return [tape.gradient(part, [weights, bias]) for part in (parts if each else [whole])]

    again = find_repeated_gradient(tf.function(step).get_concrete_function(tf.TensorSpec([2, 4])).graph.get_operations())
    return 1 if again is None else again[0]


def repeated_in_scope() -> bool:
    """Whether the gradients of several convolutions in one name scope pass for repeated ones."""
    from outpace.capture.graph_variables import find_repeated_gradient

    kernels = [tf.Variable(tf.ones([3, 3, 2, 2])) for _ in range(3)]

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape, tf.name_scope("net"):
            for kernel in kernels:
                x = tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME"))
            loss = tf.reduce_sum(x)
        return tape.gradient(loss, kernels)

    return (
        find_repeated_gradient(tf.function(step).get_concrete_function(tf.TensorSpec([2, 8, 8, 2])).graph.get_operations())
        is not None
    )


@cache
def found() -> dict[str, Any]:
    done = run_python("-m", "tests.integration.test_graph_parts", cwd=ROOT)
    assert done.code == 0, done.err[-3000:]
    result: dict[str, Any] = json.loads(done.out.splitlines()[-1])
    return result


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("name", [function.__name__ for function in FUNCTIONS])
def test_no_more_is_called_needless_than_has_a_gradient_of_zero(name: str, is_open: bool) -> None:
    shares, real = found()[name][not is_open]
    assert len(shares) == len(real) > 0
    for share, of_gradient in zip(shares, real, strict=True):
        assert share >= of_gradient - 1e-6
    count = EXACT.get(name, 0)
    assert shares[:count] == pytest.approx(real[:count], abs=1e-6)
    assert all(share < 1 for share in shares[:count])


def test_tables_are_told_apart_by_what_takes_all_of_them() -> None:
    (apart,), (taken,), *multiplied = found()["tables"]
    assert apart[0] == taken[0] == "f32[50,4]"
    assert (apart[2], taken[2], multiplied) == ("", "L2Loss", [[], [], [], []])


def test_a_backward_pass_for_each_loss_is_seen() -> None:
    assert found()["repeated"] == [3, 2, 1, 1]
    assert not found()["in_scope"]


if __name__ == "__main__":
    cases = ((3, True), (2, True), (1, True), (3, False))
    parts = {function.__name__: [measured(function, is_open) for is_open in (True, False)] for function in FUNCTIONS}
    print(
        json.dumps(
            {
                **parts,
                "tables": [tables(takes) for takes in ("", "norm", "product", "scaled", "mean", "called")],
                "repeated": [repeated(*case) for case in cases],
                "in_scope": repeated_in_scope(),
            }
        )
    )
