"""What of a program is needed: a program that computes whole arrays and reads a part of them,
against the same one written so that it computes the part alone.

Nothing is executed. The programs are compiled in a process of their own, which runs this file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from outpace.model.protobuf_wire import encode_bytes
from outpace.timeline.hlo.module import HloModule
from tests.integration.programs import compile_programs, needs_jax

if TYPE_CHECKING or __name__ == "__main__":
    import jax
    import jax.numpy as jnp
    from jax import lax

pytestmark = [needs_jax]

Function = Callable[..., Any]
WORDS, WIDE, NARROW = (16, 64, 128), (128, 512), (512, 128)
PARTIAL: dict[str, tuple[Function, Function, tuple[tuple[int, ...], ...]]] = {}
WHOLE: dict[str, tuple[Function, tuple[tuple[int, ...], ...]]] = {}


def partial(*sizes: tuple[int, ...]) -> Callable[[Callable[[], tuple[Function, Function]]], None]:
    """Add a program that reads a part of what it computes, and the one that computes the part."""

    def add(make: Callable[[], tuple[Function, Function]]) -> None:
        PARTIAL[make.__name__] = (*make(), sizes)

    return add


def whole(*sizes: tuple[int, ...]) -> Callable[[Function], Function]:
    """Add a program all of whose products are needed."""

    def add(function: Function) -> Function:
        WHOLE[function.__name__] = function, sizes
        return function

    return add


def _gradient(loss: Function) -> Function:
    return lambda *arrays: jax.grad(lambda *given: jnp.sum(jnp.tanh(loss(*given))), tuple(range(len(arrays))))(*arrays)


@partial(WORDS, WIDE)
def last_position() -> tuple[Function, Function]:
    return lambda x, w: jnp.tanh(x @ w)[:, -1], lambda x, w: jnp.tanh(x[:, -1] @ w)


@partial(WORDS, WIDE)
def last_position_gradient() -> tuple[Function, Function]:
    return _gradient(lambda x, w: (x @ w)[:, -1]), _gradient(lambda x, w: x[:, -1] @ w)


@partial(WORDS, WIDE, NARROW)
def last_position_of_two_layers_gradient() -> tuple[Function, Function]:
    return _gradient(lambda x, w, v: (jnp.tanh(x @ w) @ v)[:, -1]), _gradient(lambda x, w, v: jnp.tanh(x[:, -1] @ w) @ v)


@partial(WORDS, WIDE)
def some_columns_gradient() -> tuple[Function, Function]:
    return _gradient(lambda x, w: (x @ w)[..., :32]), _gradient(lambda x, w: x @ w[:, :32])


@partial((1024, 128), WIDE)
def every_fourth_row() -> tuple[Function, Function]:
    return lambda x, w: jnp.tanh(x @ w)[::4], lambda x, w: jnp.tanh(x[::4] @ w)


@partial((4096, 128), WIDE)
def gathered_rows_gradient() -> tuple[Function, Function]:
    rows = [5, 17, 900, 3000, 4001, 11, 12, 80]
    return _gradient(lambda x, w: (x @ w)[jnp.array(rows)]), _gradient(lambda x, w: x[jnp.array(rows)] @ w)


@partial(WORDS, WIDE)
def first_after_a_transpose() -> tuple[Function, Function]:
    return (
        lambda x, w: jnp.tanh(jnp.transpose(x @ w, (1, 0, 2)).reshape(64, -1))[:4],
        lambda x, w: jnp.tanh(jnp.transpose(x[:, :4] @ w, (1, 0, 2)).reshape(4, -1)),
    )


@partial((8, 128, 64), (8, 64, 128))
def some_of_a_batch_of_products() -> tuple[Function, Function]:
    return lambda x, y: jnp.einsum("bij,bjk->bik", x, y)[:2], lambda x, y: jnp.einsum("bij,bjk->bik", x[:2], y[:2])


@partial((512, 64), (64, 128))
def product_with_padding() -> tuple[Function, Function]:
    return lambda x, w: jnp.pad(x, ((0, 1536), (0, 0))) @ w, lambda x, w: x @ w


@partial((256, 64), (512, 128))
def contraction_over_padding() -> tuple[Function, Function]:
    return lambda x, w: jnp.pad(x, ((0, 0), (0, 448))) @ w, lambda x, w: x @ w[:64]


@partial((4, 64, 64), (512, 256))
def product_with_a_block_filled_in() -> tuple[Function, Function]:
    def filled(x: Any, w: Any) -> Any:
        return jnp.zeros((4, 64, 512)).at[:, :, 64:128].set(x) @ w

    return filled, lambda x, w: x @ w[64:128]


@partial((16, 64, 32), (32, 32), (32, 128))
def positions_that_are_summed() -> tuple[Function, Function]:
    def summed(x: Any, w: Any, v: Any) -> Any:
        rows = jnp.zeros((16, 64, 32)).at[:, -1].set(x[:, 0]).reshape(1024, 32) @ w
        return rows.reshape(16, 64, 32).sum(1) @ v @ v.T @ v @ v.T @ v

    return summed, lambda x, w, v: x[:, 0] @ w @ v @ v.T @ v @ v.T @ v


@whole(WORDS, WIDE)
def both_ends_and_the_mean(x: Any, w: Any) -> Any:
    y = x @ w
    return y[:, 0], y[:, -1], y.mean()


@whole(WORDS, WIDE)
def both_halves(x: Any, w: Any) -> Any:
    y = x @ w
    return y[:, :32] * 2, jnp.tanh(y[:, 32:])


@whole(WORDS, WIDE)
def three_overlapping_windows_gradient(x: Any, w: Any) -> Any:
    def loss(x: Any, w: Any) -> Any:
        y = x @ w
        return y[:, :-2] + y[:, 1:-1] * y[:, 2:]

    return _gradient(loss)(x, w)


@whole(WORDS, WIDE)
def a_state_that_goes_on(x: Any, w: Any) -> Any:
    return lax.scan(lambda c, a: (jnp.tanh(a @ w) + c, c[:2]), jnp.zeros((64, 512)), x)[0][:, 0]


@whole((256, 128), WIDE)
def a_slice_of_a_sum_over_rows(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w).sum(1)[:, None] * jnp.ones(4)


@whole((256, 256), (256, 256))
def one_element_and_the_sum(x: Any, w: Any) -> Any:
    y = jnp.tanh(x @ w) @ w
    return y[0, 0] * jnp.sum(y)


@whole((256, 64), (64, 256))
def padding_with_ones(x: Any, w: Any) -> Any:
    return jnp.pad(x, ((0, 768), (0, 0)), constant_values=1.0) @ w


@whole((256, 64), (64, 256))
def an_exponential_of_padding(x: Any, w: Any) -> Any:
    return jnp.exp(jnp.pad(x, ((0, 768), (0, 0)))) @ w


@whole((256, 64), (1024, 64), (64, 256))
def padding_that_is_added_to(x: Any, y: Any, w: Any) -> Any:
    return (jnp.pad(x, ((0, 768), (0, 0))) + y) @ w


@whole((256, 64), (1024, 64), (64, 256))
def a_maximum_with_padding(x: Any, y: Any, w: Any) -> Any:
    return (jnp.maximum(jnp.pad(x, ((0, 768), (0, 0))), y)) @ w


@whole((512, 64), (64, 256))
def both_halves_of_rows_put_together(x: Any, w: Any) -> Any:
    return jnp.concatenate([jnp.tanh(x[:256] @ w), jnp.sin(x[256:] @ w)])


@whole((4, 256, 64), (4, 64, 256))
def rows_taken_in_each_batch(x: Any, y: Any) -> Any:
    rows = jnp.stack([jnp.arange(256)[::-1]] * 4)
    return jnp.take_along_axis(jnp.einsum("bij,bjk->bik", x, y), rows[:, :, None], axis=1)


@whole((1024, 64), (64, 256))
def all_rows_in_another_order(x: Any, w: Any) -> Any:
    return (x @ w)[jnp.arange(1024)[::-1]]


@partial(WORDS, WIDE, NARROW)
def term_weighted_with_zero() -> tuple[Function, Function]:
    def used(x: Any, w: Any, v: Any) -> Any:
        return jnp.mean(jnp.tanh(x @ w))

    def both(x: Any, w: Any, v: Any) -> Any:
        unused = jax.nn.relu(x @ w * 2) @ v
        return used(x, w, v) + 0.0 * jnp.mean((unused - 1) ** 2)

    return lambda *given: jax.grad(both, (1, 2))(*given), lambda *given: jax.grad(used, 1)(*given)


@whole(WORDS, WIDE, NARROW)
def relu_and_maximum(x: Any, w: Any, v: Any) -> Any:
    return jax.grad(lambda *given: jnp.sum(jnp.maximum(jax.nn.relu(given[0] @ given[1]) @ given[2], 0.0) ** 2), (0, 1, 2))(
        x, w, v
    )


@whole((512, 128), (128, 512))
def packed_weights(x: Any, w: Any) -> Any:
    q, k, v = jnp.split(x @ w, (128, 256), axis=1)
    return jnp.tanh(q @ k.T) @ v


def compile_all(folder: Path) -> None:
    """Write all programs into a folder."""
    functions = {name: (function, sizes) for name, (function, _, sizes) in PARTIAL.items()}
    functions |= {f"{name}.part": (part, sizes) for name, (_, part, sizes) in PARTIAL.items()}
    for name, (function, sizes) in (functions | WHOLE).items():
        arrays = [jax.ShapeDtypeStruct(size, "float32") for size in sizes]
        module = jax.jit(function).lower(*arrays).compile().runtime_executable().hlo_modules()[0]
        (folder / name).write_bytes(module.as_serialized_hlo_module_proto())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All programs, compiled."""
    return compile_programs("test_parts_of_results", tmp_path_factory.mktemp("programs"))


def needed_flops(folder: Path, name: str) -> tuple[float, float]:
    """(operations of a program's products that are needed, operations of its products)."""
    module = HloModule(encode_bytes(1, (folder / name).read_bytes()))
    ops = [module[instruction] for instruction in module.entry_instructions]
    return sum(op.cost.product_flops * op.needed_share for op in ops), sum(op.cost.product_flops for op in ops)


@pytest.mark.parametrize("name", PARTIAL)
def test_what_is_needed_is_what_the_part_alone_computes(folder: Path, name: str) -> None:
    needed, computed = needed_flops(folder, name)
    _, part = needed_flops(folder, f"{name}.part")
    assert part <= 0.5 * computed
    assert 0.99 * part <= needed <= 1.6 * part  # two readers of the same positions may count twice


@pytest.mark.parametrize("name", WHOLE)
def test_all_is_needed_that_something_reads(folder: Path, name: str) -> None:
    needed, computed = needed_flops(folder, name)
    assert needed >= 0.9 * computed


if __name__ == "__main__":
    compile_all(Path(sys.argv[1]))
