"""Operations and bytes of programs, against XLA's own count of the same programs.

A loop counts as often as it runs: our count of a program with a loop is XLA's count of the program
that has the loop written out, while XLA counts the loop's body once. Nothing is executed. The
programs are compiled in a process of their own, which runs this file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from outpace.model.protobuf_wire import encode_bytes
from outpace.timeline.hlo.module import HloModule
from tests.integration.programs import needs_jax, needs_tensorflow, run_python

if TYPE_CHECKING or __name__ == "__main__":
    import jax
    import jax.numpy as jnp
    import keras
    import tensorflow as tf
    from jax import lax
    from jax._src.lib import _jax, hlo

pytestmark = [needs_jax, needs_tensorflow]

Function = Callable[..., Any]
Sizes = tuple[int, ...]
ROOT = Path(__file__).resolve().parents[2]
WEIGHTS, BATCH, SQUARE = (8, 512, 512), (256, 512), (512, 512)
IMAGES, KERNEL = (4, 16, 16, 64), (3, 3, 64, 64)


class Unrolled:
    """The loops of `jax.lax`, written out."""

    @staticmethod
    def scan(body: Function, carry: Any, xs: Any, length: int = 0, reverse: bool = False, unroll: int = 1) -> Any:
        count = length or jax.tree.leaves(xs)[0].shape[0]
        results: list[Any] = [None] * count
        for n in reversed(range(count)) if reverse else range(count):
            carry, results[n] = body(carry, jax.tree.map(partial(_element, number=n), xs))
        return carry, jax.tree.map(lambda *arrays: jnp.stack(arrays), *results)

    @staticmethod
    def fori_loop(start: int, stop: int, body: Function, carry: Any) -> Any:
        for n in range(start, stop):
            carry = body(n, carry)
        return carry

    @staticmethod
    def while_loop(goes_on: Function, body: Function, carry: Any) -> Any:
        while goes_on(carry):
            carry = body(carry)
        return carry

    @staticmethod
    def map(function: Function, xs: Any) -> Any:
        return jnp.stack([function(x) for x in xs])


class TensorFlowLoops:
    """The loops of TensorFlow."""

    @staticmethod
    def range(*limits: int) -> Any:
        return tf.range(*limits)

    @staticmethod
    def recurrent_layer() -> Any:
        return recurrent_layer(is_unrolled=False)

    @staticmethod
    def while_loop(goes_on: Function, body: Function, carry: Sequence[Any], maximum_iterations: int | None = None) -> Any:
        return tf.while_loop(goes_on, body, carry, maximum_iterations=maximum_iterations)

    @staticmethod
    def scan(function: Function, elements: Any, initial: Any) -> Any:
        return tf.scan(function, elements, initial)


class TensorFlowUnrolled:
    """The loops of TensorFlow, written out."""

    @staticmethod
    def range(*limits: int) -> Any:
        return range(*limits)

    @staticmethod
    def recurrent_layer() -> Any:
        return recurrent_layer(is_unrolled=True)

    @staticmethod
    def while_loop(goes_on: Function, body: Function, carry: Sequence[Any], maximum_iterations: int = 1000) -> Any:
        while goes_on(*carry) and maximum_iterations > 0:
            carry, maximum_iterations = body(*carry), maximum_iterations - 1
        return carry

    @staticmethod
    def scan(function: Function, elements: Any, initial: Any) -> Any:
        results = [initial]
        for element in tf.unstack(elements):
            results.append(function(results[-1], element))
        return tf.stack(results[1:])


def _element(array: Any, number: int) -> Any:
    return array[number]


@dataclass(frozen=True)
class Program:
    """A program to compile.

    function: what it computes; the first argument of a program with a loop has the loops.
    arguments: sizes of the arrays that it takes, all of type `type_name`.
    """

    function: Function
    arguments: tuple[Sizes, ...]
    type_name: str

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def is_tensorflow(self) -> bool:
        return self.name.startswith("tf_")

    def compile(self, *loops: Any) -> bytes:
        """Return the compiled program, an `HloModuleProto`."""
        if self.is_tensorflow:
            for each in loops:
                each.recurrent_layer()
            function = tf.function(lambda *arrays: self.function(*loops, *arrays), jit_compile=True)
            specs = [tf.TensorSpec(size, self.type_name) for size in self.arguments]
            return bytes(function.experimental_get_compiler_ir(*specs)(stage="optimized_hlo_serialized"))
        arrays = [jax.ShapeDtypeStruct(size, self.type_name) for size in self.arguments]
        executable = jax.jit(partial(self.function, *loops)).lower(*arrays).compile().runtime_executable()
        return bytes(executable.hlo_modules()[0].as_serialized_hlo_module_proto())


LOOPS: dict[str, Program] = {}
PLAIN: dict[str, Program] = {}


def program(*arguments: Sizes, type_name: str = "float32", table: dict[str, Program] = LOOPS) -> Callable[[Function], Function]:
    """Add a function to a table of programs."""

    def add(function: Function) -> Function:
        table[function.__name__] = Program(function, arguments, type_name)
        return function

    return add


plain = partial(program, table=PLAIN)


@program(WEIGHTS, BATCH)
def scan_over_layers(loops: Any, weights: Any, x: Any) -> Any:
    return loops.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]


@program(SQUARE, BATCH)
def scan_of_a_length(loops: Any, w: Any, x: Any) -> Any:
    return loops.scan(lambda x, _: (jnp.tanh(x @ w), None), x, None, length=12)[0]


@program(WEIGHTS, BATCH)
def scan_in_reverse(loops: Any, weights: Any, x: Any) -> Any:
    return loops.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights, reverse=True)[0]


@program(WEIGHTS, BATCH)
def scan_two_at_once(loops: Any, weights: Any, x: Any) -> Any:
    return loops.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights, unroll=2)[0]


@program((4, 3, 512, 512), BATCH)
def scan_in_scan(loops: Any, weights: Any, x: Any) -> Any:
    def group(x: Any, inner: Any) -> Any:
        return loops.scan(lambda x, w: (jnp.tanh(x @ w), None), x, inner)

    return loops.scan(group, x, weights)[0]


@program((8, 4, 256, 256), (4, 128, 256))
def scan_of_batched_products(loops: Any, weights: Any, x: Any) -> Any:
    return loops.scan(lambda x, w: (jnp.tanh(jnp.einsum("bij,bjk->bik", x, w)), None), x, weights)[0]


@program((16, 256, 512), SQUARE, SQUARE)
def scan_of_a_recurrent_cell(loops: Any, inputs: Any, w: Any, u: Any) -> Any:
    return loops.scan(lambda h, x: (jnp.tanh(x @ w + h @ u),) * 2, jnp.zeros_like(inputs[0]), inputs)


@program((6, *KERNEL), IMAGES)
def scan_of_convolutions(loops: Any, kernels: Any, x: Any) -> Any:
    return loops.scan(lambda x, k: (convolve(x, k), None), x, kernels)[0]


@program((6, 3, 3, 16, 64), IMAGES)
def scan_of_grouped_convolutions(loops: Any, kernels: Any, x: Any) -> Any:
    return loops.scan(lambda x, k: (convolve(x, k, feature_group_count=4), None), x, kernels)[0]


@program((4, *KERNEL), IMAGES)
def scan_of_convolutions_gradient(loops: Any, kernels: Any, x: Any) -> Any:
    return gradients(lambda kernels, x: scan_of_convolutions(loops, kernels, x))(kernels, x)


@program(WEIGHTS, BATCH)
def scan_gradient(loops: Any, weights: Any, x: Any) -> Any:
    return gradients(lambda weights, x: scan_over_layers(loops, weights, x))(weights, x)


@program(SQUARE, BATCH)
def scan_of_shared_weights_gradient(loops: Any, w: Any, x: Any) -> Any:
    return gradients(lambda w, x: scan_of_a_length(loops, w, x))(w, x)


@program((3, 4, 512, 512), BATCH)
def scan_in_scan_gradient(loops: Any, weights: Any, x: Any) -> Any:
    return gradients(lambda weights, x: scan_in_scan(loops, weights, x))(weights, x)


@program(WEIGHTS, BATCH)
def scan_with_remat_gradient(loops: Any, weights: Any, x: Any) -> Any:
    body = jax.checkpoint(lambda x, w: (jnp.sin(jnp.tanh(x @ w)), None))
    return gradients(lambda weights, x: loops.scan(body, x, weights)[0])(weights, x)


@program(WEIGHTS, BATCH)
def scan_with_remat_of_all_but_products_gradient(loops: Any, weights: Any, x: Any) -> Any:
    body = jax.checkpoint(
        lambda x, w: (jnp.sin(jnp.tanh(x @ w)), None), policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    )
    return gradients(lambda weights, x: loops.scan(body, x, weights)[0])(weights, x)


@program(SQUARE, SQUARE, (8, *BATCH))
def microbatches(loops: Any, w: Any, u: Any, batches: Any) -> Any:
    def add(total: Any, x: Any) -> Any:
        return jax.tree.map(jnp.add, total, gradients(lambda w, u: jnp.tanh(jnp.tanh(x @ w) @ u))(w, u)), None

    return loops.scan(add, (jnp.zeros_like(w), jnp.zeros_like(u)), batches)[0]


@program(SQUARE, SQUARE, (2048, 512))
def microbatches_by_number(loops: Any, w: Any, u: Any, batch: Any) -> Any:
    def add(number: Any, total: Any) -> Any:
        x = lax.dynamic_slice_in_dim(batch, number * 256, 256)
        return jax.tree.map(jnp.add, total, gradients(lambda w, u: jnp.tanh(jnp.tanh(x @ w) @ u))(w, u))

    return loops.fori_loop(0, 8, add, (jnp.zeros_like(w), jnp.zeros_like(u)))


@program((3, 512, 512), (4, *BATCH))
def microbatches_of_layers(loops: Any, weights: Any, batches: Any) -> Any:
    def add(total: Any, x: Any) -> Any:
        by_weights, by_inputs = gradients(lambda weights, x: scan_over_layers(loops, weights, x))(weights, x)
        return total + by_weights, by_inputs

    return loops.scan(add, jnp.zeros_like(weights), batches)


@program(SQUARE, BATCH)
def counted_loop(loops: Any, w: Any, x: Any) -> Any:
    return loops.fori_loop(0, 10, lambda _, x: jnp.tanh(x @ w), x)


@program(SQUARE, BATCH)
def counted_loop_from_3(loops: Any, w: Any, x: Any) -> Any:
    return loops.fori_loop(3, 11, lambda _, x: jnp.tanh(x @ w), x)


@program(SQUARE, BATCH)
def counted_loop_from_below_0(loops: Any, w: Any, x: Any) -> Any:
    return loops.fori_loop(-5, 4, lambda _, x: jnp.tanh(x @ w), x)


@program(SQUARE, BATCH)
def counted_loop_gradient(loops: Any, w: Any, x: Any) -> Any:
    return gradients(lambda w, x: counted_loop(loops, w, x))(w, x)


@program(SQUARE, BATCH)
def counted_loop_in_another(loops: Any, w: Any, x: Any) -> Any:
    return loops.fori_loop(0, 4, lambda _, x: loops.fori_loop(2, 5, lambda _, x: jnp.tanh(x @ w), x), x)


@program(SQUARE)
def inverse_by_iteration(loops: Any, matrix: Any) -> Any:
    return loops.fori_loop(0, 6, lambda _, x: x @ (2 * jnp.eye(512) - matrix @ x), matrix.T)


@program(SQUARE, BATCH)
def while_loop_up(loops: Any, w: Any, x: Any) -> Any:
    return loops.while_loop(lambda s: s[0] < 10, lambda s: (s[0] + 1, jnp.tanh(s[1] @ w)), (0, x))[1]


@program(SQUARE, BATCH)
def while_loop_down(loops: Any, w: Any, x: Any) -> Any:
    return loops.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, jnp.tanh(s[1] @ w)), (10, x))[1]


@program(SQUARE, BATCH)
def while_loop_down_to_its_limit(loops: Any, w: Any, x: Any) -> Any:
    return loops.while_loop(lambda s: s[1] >= 2, lambda s: (jnp.tanh(s[0] @ w), s[1] - 1), (x, 9))[0]


@program(SQUARE, BATCH)
def while_loop_in_steps_of_2(loops: Any, w: Any, x: Any) -> Any:
    return loops.while_loop(lambda s: s[0] < 13, lambda s: (s[0] + 2, jnp.tanh(s[1] @ w)), (0, x))[1]


@program(SQUARE, BATCH)
def while_loop_to_its_limit(loops: Any, w: Any, x: Any) -> Any:
    return loops.while_loop(lambda s: s[0] <= 10, lambda s: (s[0] + 1, jnp.tanh(s[1] @ w)), (1, x))[1]


@program(SQUARE, BATCH)
def while_loop_until_equal(loops: Any, w: Any, x: Any) -> Any:
    return loops.while_loop(lambda s: s[0] != 9, lambda s: (s[0] + 1, jnp.tanh(s[1] @ w)), (0, x))[1]


@program(SQUARE, (8, *BATCH))
def map_over_a_batch(loops: Any, w: Any, xs: Any) -> Any:
    return loops.map(lambda x: jnp.tanh(x @ w) @ w, xs)


@program((8, 1024, 1024), (1024, 1024), type_name="bfloat16")
def scan_of_bfloat16(loops: Any, weights: Any, x: Any) -> Any:
    return loops.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]


@program(WEIGHTS, BATCH)
def tf_for(loops: Any, weights: Any, x: Any) -> Any:
    for n in loops.range(8):
        x = tf.tanh(x @ weights[n])
    return x


@program(SQUARE, BATCH)
def tf_for_in_steps_of_3(loops: Any, w: Any, x: Any) -> Any:
    for _ in loops.range(2, 20, 3):
        x = tf.tanh(x @ w)
    return x


@program(SQUARE, BATCH)
def tf_while_up(loops: Any, w: Any, x: Any) -> Any:
    return loops.while_loop(lambda n, _: n < 9, lambda n, x: (n + 1, tf.tanh(x @ w)), (0, x))[1]


@program(SQUARE, BATCH)
def tf_while_down(loops: Any, w: Any, x: Any) -> Any:
    return loops.while_loop(lambda n, _: n > 0, lambda n, x: (n - 1, tf.tanh(x @ w)), (9, x))[1]


@program(SQUARE, BATCH)
def tf_while_gradient(loops: Any, w: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch((w, x))
        mixed = loops.while_loop(lambda n, _: n < 8, lambda n, x: (n + 1, tf.tanh(x @ w)), (0, x), maximum_iterations=8)[1]
        loss = tf.reduce_mean(mixed * mixed)
    return tape.gradient(loss, (w, x))


@program((256, 6, 512), (256, 512), (256, 512))
def tf_recurrent_layer_gradient(loops: Any, x: Any, *state: Any) -> Any:
    layer = loops.recurrent_layer()
    with tf.GradientTape() as tape:
        tape.watch((x, *state))
        loss = tf.reduce_mean(tf.square(layer(x, initial_state=state)))
    return tape.gradient(loss, [x, *state, *layer.trainable_variables])


@program(WEIGHTS, BATCH)
def tf_scan(loops: Any, weights: Any, x: Any) -> Any:
    return loops.scan(lambda x, w: tf.tanh(x @ w), weights, x)


@program((6, *KERNEL), IMAGES)
def tf_for_of_convolutions(loops: Any, kernels: Any, x: Any) -> Any:
    for n in loops.range(6):
        x = tf.nn.conv2d(x, kernels[n], 1, "SAME")
    return x


@plain((32, 48, 16), (32, 16, 24))
def einsum(x: Any, y: Any) -> Any:
    return jnp.einsum("bij,bjk->kb", x, y)


@plain((16, 40), (40, 8), (8, 12))
def chained_products(x: Any, y: Any, z: Any) -> Any:
    return jnp.tanh(x @ y) @ z + 1


@plain((2, 17, 19, 8), (3, 5, 8, 16))
def convolution_with_strides(x: Any, k: Any) -> Any:
    return convolve(x, k, (2, 3))


@plain((2, 17, 19, 8), (3, 3, 8, 16))
def convolution_with_dilations(x: Any, k: Any) -> Any:
    return convolve(x, k, (1, 2), ((0, 1), (-1, 2)), rhs_dilation=(2, 3), lhs_dilation=(3, 1))


@plain((2, 17, 19, 8), (3, 3, 2, 16))
def convolution_with_groups(x: Any, k: Any) -> Any:
    return convolve(x, k, feature_group_count=4)


@plain((8, 17, 19, 8), (3, 3, 8, 16))
def convolution_with_groups_of_examples(x: Any, k: Any) -> Any:
    return convolve(x, k, padding="VALID", batch_group_count=4)


@plain((2, 17, 19, 8), (3, 3, 1, 8))
def convolution_of_each_channel(x: Any, k: Any) -> Any:
    return convolve(x, k, feature_group_count=8)


@plain((2, 17, 19, 8), (3, 5, 8, 16))
def convolution_by_input(x: Any, k: Any) -> Any:
    return gradients(lambda x, k: convolve(x, k, (2, 2)))(x, k)[0]


@plain((2, 17, 19, 8), (3, 5, 8, 16))
def convolution_by_kernel(x: Any, k: Any) -> Any:
    return gradients(lambda x, k: convolve(x, k, (2, 2)))(x, k)[1]


@plain((2, 9, 11, 8), (3, 5, 8, 16))
def transposed_convolution(x: Any, k: Any) -> Any:
    return lax.conv_transpose(x, k, (2, 2), "SAME")


@plain((64, 33, 17))
def reductions(x: Any) -> Any:
    return x.sum(1), x.max(), jnp.prod(x, (0, 2))


@plain((64, 33))
def largest_place(x: Any) -> Any:
    return jnp.argmax(x, 1)


@plain((64, 33))
def cumulative_sum(x: Any) -> Any:
    return jnp.cumsum(x, 1)


@plain((2, 16, 18, 8))
def pooling(x: Any) -> Any:
    return pool(x)


@plain((2, 16, 18, 8))
def pooling_gradient(x: Any) -> Any:
    return jax.grad(lambda x: jnp.sum(jnp.square(pool(x))))(x)


@plain((2, 16, 18, 8))
def sums_of_windows(x: Any) -> Any:
    return lax.reduce_window(x, 0.0, lax.add, (1, 5, 3, 1), (1, 1, 2, 1), "SAME")


@plain((1000, 64), (32,), type_name="int32")
def rows(table: Any, ids: Any) -> Any:
    return table[ids]


@plain((1000, 64), (32, 64), (32,), type_name="int32")
def added_rows(table: Any, updates: Any, ids: Any) -> Any:
    return table.at[ids].add(updates)


@plain((1000, 64), (), type_name="int32")
def slice_from_a_place(x: Any, place: Any) -> Any:
    return lax.dynamic_slice(x, (place, 0), (40, 64))


@plain((1000, 64), (40, 64), (), type_name="int32")
def update_at_a_place(x: Any, update: Any, place: Any) -> Any:
    return lax.dynamic_update_slice(x, update, (place, 0))


@plain((64, 500))
def sort(x: Any) -> Any:
    return jnp.sort(x)


@plain((64, 500))
def softmax(x: Any) -> Any:
    return jax.nn.softmax(x)


@plain((64, 500), (500,), (500,))
def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    centered = x - x.mean(1, keepdims=True)
    return centered * lax.rsqrt(jnp.square(centered).mean(1, keepdims=True) + 1e-5) * scale + shift


@plain((64, 50))
def padding(x: Any) -> Any:
    return jnp.pad(x, ((1, 2), (3, 4))) * 2


@plain((64, 50), (32, 50))
def concatenation(x: Any, y: Any) -> Any:
    return jnp.concatenate((x, y)) + 1


@plain((300,), type_name="int32")
def one_hot(ids: Any) -> Any:
    return jax.nn.one_hot(ids, 100)


@plain((64, 50), (64, 50), type_name="complex64")
def complex_numbers(x: Any, y: Any) -> Any:
    return x * jnp.conj(y) + x.real


@plain((64, 50), (64, 50), type_name="uint32")
def integers(x: Any, y: Any) -> Any:
    return ((x << 3) ^ (y >> 5)) % 7 + lax.population_count(x & y)


@plain((64, 50), (64, 50), type_name="bfloat16")
def casts(x: Any, y: Any) -> Any:
    return x.astype("float32") + y, (x * y).astype("int8")


@plain((300, 8), (300,), type_name="int32")
def sums_of_segments(x: Any, segments: Any) -> Any:
    return jax.ops.segment_sum(x, segments, 10)


def pool(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")


def gradients(function: Function) -> Function:
    """Return the function of the gradients of a mean of squares by both arguments."""
    by_both: Function = jax.grad(lambda first, second: jnp.mean(jnp.square(function(first, second))), (0, 1))
    return by_both


def convolve(images: Any, kernel: Any, strides: Sizes = (1, 1), padding: Any = "SAME", **options: Any) -> Any:
    return lax.conv_general_dilated(images, kernel, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"), **options)


@cache
def recurrent_layer(is_unrolled: bool) -> Any:
    """Return a layer whose variables are made outside of the function that is compiled."""
    with tf.init_scope():
        layer = keras.layers.LSTM(512, unroll=is_unrolled, recurrent_initializer="zeros")
        layer.build((256, 6, 512))
    return layer


def count_by_xla(module: bytes) -> dict[str, float]:
    client = jax.devices()[0].client
    counts = _jax.hlo_module_cost_analysis(client, hlo.HloModule.from_serialized_hlo_module_proto(module))
    return {name: counts[name] for name in ("flops", "bytes accessed")}


def compile_all(folder: Path) -> None:
    """Write all programs into a folder, and XLA's counts of them."""
    counts = {}
    for table in (LOOPS, PLAIN):
        for each in table.values():
            forms: dict[str, tuple[Any, ...]] = {"": ()}
            if table is LOOPS:
                looped, unrolled = (TensorFlowLoops, TensorFlowUnrolled) if each.is_tensorflow else (lax, Unrolled)
                forms = {"": (looped,), ".unrolled": (unrolled,)}
            for form, loops in forms.items():
                module = each.compile(*loops)
                (folder / f"{each.name}{form}").write_bytes(module)
                counts[f"{each.name}{form}"] = count_by_xla(module)
    (folder / "counts.json").write_text(json.dumps(counts))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All programs, compiled; XLA's counts of them are in `counts.json`."""
    folder = tmp_path_factory.mktemp("programs")
    done = run_python(
        "-m",
        "tests.integration.test_costs_against_xla",
        folder,
        cwd=ROOT,
        jax=True,
        JAX_PLATFORMS="cpu",
        KERAS_BACKEND="tensorflow",
    )
    assert done.code == 0, done.err[-3000:]
    return folder


def module_of(folder: Path, name: str) -> HloModule:
    """A compiled program."""
    return HloModule(encode_bytes(1, (folder / name).read_bytes()))


def xla_count(folder: Path, name: str) -> dict[str, float]:
    """XLA's count of a program."""
    counts: dict[str, dict[str, float]] = json.loads((folder / "counts.json").read_text())
    return counts[name]


COMPUTED_AGAIN = {"scan_with_remat_gradient": 4 / 3}
"""Of each layer's four products one computes again what was forgotten. Where the loop is written
out, XLA sees that it is equal to a former one, and has three.
"""

READ_IN_PART = {"rows": 2 * 32 * 64 * 4 + 32 * 4}
"""Bytes of 32 rows that are gathered, read and written, and of their numbers; XLA counts all of the
table's 1,000 rows.
"""


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_counts_as_often_as_it_runs(folder: Path, name: str) -> None:
    """XLA's own count has each body once: at most half of the operations."""
    ours, looped, unrolled = module_of(folder, name).cost, xla_count(folder, name), xla_count(folder, f"{name}.unrolled")
    assert ours.is_complete and ours.product_flops >= 0.995 * ours.flops
    assert ours.flops == pytest.approx(unrolled["flops"] * COMPUTED_AGAIN.get(name, 1), rel=0.01)
    assert looped["flops"] <= unrolled["flops"] / 2


@pytest.mark.parametrize("name", PLAIN)
def test_without_a_loop_the_counts_are_equal(folder: Path, name: str) -> None:
    ours, theirs = module_of(folder, name).cost, xla_count(folder, name)
    assert ours.flops == pytest.approx(theirs["flops"], rel=1e-6)
    assert ours.bytes == pytest.approx(READ_IN_PART.get(name, theirs["bytes accessed"]), rel=0.02)


if __name__ == "__main__":
    compile_all(Path(sys.argv[1]))
