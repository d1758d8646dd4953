"""The memory of compiled programs, against what jaxlib says of them.

Nothing is executed. The programs are compiled in a process of their own, which runs this file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from outpace.model.protobuf_wire import encode_bytes
from outpace.timeline.hlo.memory import BufferKind, read_memory_plan
from outpace.timeline.hlo.memory_changes import MemoryChangeKind, find_batch, find_memory_changes
from outpace.timeline.hlo.module import HloModule
from outpace.timeline.hlo.reader import read_graph, read_module
from tests.integration.programs import compile_programs, needs_jax

if TYPE_CHECKING or __name__ == "__main__":
    import jax
    import jax.numpy as jnp

pytestmark = needs_jax

NAMES = (
    "sum", "product", "gradient", "update", "donated", "scan", "gradient of a scan", "remat", "sort", "convolution", "constant", "half",
    "large batch", "half of it",
)  # fmt: skip
SIZES = ("argument_size_in_bytes", "output_size_in_bytes", "alias_size_in_bytes", "temp_size_in_bytes")


def _programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    """The function, its arguments and the options of `jax.jit`, for each name."""

    def matrix(rows: int, columns: int) -> Any:
        return jnp.ones((rows, columns))

    def loss(params: Any, x: Any) -> Any:
        for weights in params:
            x = jnp.tanh(x @ weights)
        return (x**2).mean()

    def update(params: Any, x: Any) -> Any:
        return jax.tree.map(lambda w, g: w - 0.1 * g, params, jax.grad(loss)(params, x))

    def scanned(params: Any, x: Any) -> Any:
        return jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), h.sum()), x, params)

    layers = [matrix(64, 64) for _ in range(4)]
    stacked = jnp.ones((6, 32, 32))
    return {
        "sum": (lambda x: x.sum(), (matrix(128, 128),), {}),
        "product": (lambda x, y: x @ y, (matrix(64, 256), matrix(256, 64)), {}),
        "gradient": (jax.grad(loss), (layers, matrix(256, 64)), {}),
        "update": (update, (layers, matrix(256, 64)), {}),
        "donated": (update, (layers, matrix(256, 64)), {"donate_argnums": (0,)}),
        "scan": (scanned, (stacked, matrix(16, 32)), {}),
        "gradient of a scan": (jax.grad(lambda p, x: scanned(p, x)[0].sum()), (stacked, matrix(16, 32)), {}),
        "remat": (jax.grad(lambda p, x: jax.checkpoint(loss)(p, x)), (layers, matrix(256, 64)), {}),
        "sort": (lambda x: jnp.sort(x, axis=0), (matrix(500, 50),), {}),
        "convolution": (
            lambda x, k: jax.lax.conv_general_dilated(x, k, (1, 1), "SAME"),
            (jnp.ones((2, 3, 32, 32)), jnp.ones((8, 3, 3, 3))),
            {},
        ),
        "constant": (lambda x: x + jnp.arange(5000.0), (jnp.ones(5000),), {}),
        "large batch": (update, (layers, matrix(4096, 64)), {}),
        "half of it": (update, (layers, matrix(2048, 64)), {}),
        "half": (lambda x: x.astype(jnp.bfloat16) @ x.T.astype(jnp.bfloat16), (matrix(100, 300),), {}),
    }


def compile_all(folder: Path) -> None:
    """Write all programs, with what jaxlib says of their memory, into a folder."""
    for name, (function, arguments, options) in _programs().items():
        compiled = jax.jit(function, **options).lower(*arguments).compile()
        stats = compiled.memory_analysis()
        (module,) = compiled.runtime_executable().hlo_modules()
        proto = encode_bytes(1, module.as_serialized_hlo_module_proto()) + encode_bytes(
            3, stats.serialized_buffer_assignment_proto
        )
        (folder / f"{name}.pb").write_bytes(proto)
        (folder / f"{name}.json").write_text(json.dumps({size: getattr(stats, size) for size in SIZES}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All programs, compiled."""
    return compile_programs("test_memory_against_jaxlib", tmp_path_factory.mktemp("programs"))


@pytest.mark.parametrize("name", NAMES)
def test_reserved_memory_equals_what_jaxlib_says(folder: Path, name: str) -> None:
    proto, stats = (folder / f"{name}.pb").read_bytes(), json.loads((folder / f"{name}.json").read_text())
    argument, output, alias, temp = (stats[size] for size in SIZES)
    plan = read_memory_plan(proto, read_graph(read_module(proto)))
    assert plan is not None
    sizes = plan.sizes
    assert sizes[BufferKind.ARGUMENT] + sizes[BufferKind.DONATED] == argument
    assert sizes[BufferKind.DONATED] == alias
    # jaxlib counts constants as part of the code.
    assert plan.total_bytes - sizes[BufferKind.CONSTANT] == temp + argument + output - alias
    assert sum(each.size for each in plan.peak_buffers) == plan.peak_bytes <= plan.total_bytes


def test_donation_lowers_the_peak_to_that_of_the_program_that_donates(folder: Path) -> None:
    """As long as no result is written before its argument was read for the last time."""
    module, donated = (HloModule((folder / f"{name}.pb").read_bytes()) for name in ("update", "donated"))
    assert module.memory_plan is not None and donated.memory_plan is not None
    (change,) = (each for each in find_memory_changes(module.memory_plan, module) if each.kind is MemoryChangeKind.DONATION)
    assert change.arrays == 4
    assert change.peak_bytes == pytest.approx(donated.memory_plan.peak_bytes, rel=0.1)


def test_half_of_the_batch_lowers_the_peak_to_that_of_the_program_with_it(folder: Path) -> None:
    module, halved = (HloModule((folder / f"{name}.pb").read_bytes()) for name in ("large batch", "half of it"))
    plan, half = module.memory_plan, halved.memory_plan
    assert plan is not None and half is not None
    (change,) = (each for each in find_memory_changes(plan, module) if each.kind is MemoryChangeKind.BATCH)
    assert change.peak_bytes == pytest.approx(half.peak_bytes, rel=0.05)
    batch = find_batch(plan)
    assert batch is not None and batch.size == 4096
    assert batch.largest(plan.peak_bytes, half.peak_bytes) == pytest.approx(2048, rel=0.05)
    assert batch.largest(plan.peak_bytes, plan.peak_bytes) == 4096


if __name__ == "__main__":
    compile_all(Path(sys.argv[1]))
