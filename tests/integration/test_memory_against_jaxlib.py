"""The memory of compiled programs, against what jaxlib says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from outpace.timeline.hlo.memory import BufferKind, read_memory_plan
from outpace.timeline.hlo.reader import read_graph, read_module
from tests.integration.programs import needs_jax

pytestmark = needs_jax


def _programs() -> dict[str, Callable[[], tuple[Any, tuple[Any, ...], dict[str, Any]]]]:
    import jax
    import jax.numpy as jnp

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
        "sum": lambda: (lambda x: x.sum(), (matrix(128, 128),), {}),
        "product": lambda: (lambda x, y: x @ y, (matrix(64, 256), matrix(256, 64)), {}),
        "gradient": lambda: (jax.grad(loss), (layers, matrix(256, 64)), {}),
        "update": lambda: (update, (layers, matrix(256, 64)), {}),
        "donated": lambda: (update, (layers, matrix(256, 64)), {"donate_argnums": (0,)}),
        "scan": lambda: (scanned, (stacked, matrix(16, 32)), {}),
        "gradient of a scan": lambda: (jax.grad(lambda p, x: scanned(p, x)[0].sum()), (stacked, matrix(16, 32)), {}),
        "remat": lambda: (jax.grad(lambda p, x: jax.checkpoint(loss)(p, x)), (layers, matrix(256, 64)), {}),
        "sort": lambda: (lambda x: jnp.sort(x, axis=0), (matrix(500, 50),), {}),
        "convolution": lambda: (
            lambda x, k: jax.lax.conv_general_dilated(x, k, (1, 1), "SAME"),
            (jnp.ones((2, 3, 32, 32)), jnp.ones((8, 3, 3, 3))),
            {},
        ),
        "constant": lambda: (lambda x: x + jnp.arange(5000.0), (jnp.ones(5000),), {}),
        "half": lambda: (lambda x: x.astype(jnp.bfloat16) @ x.T.astype(jnp.bfloat16), (matrix(100, 300),), {}),
    }


def _field(number: int, content: bytes) -> bytes:
    """Return a field of an `HloProto`."""
    size, length = bytearray(), len(content)
    while length >= 0x80:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2, *size, length]) + content


@pytest.mark.parametrize("name", [
    "sum", "product", "gradient", "update", "donated", "scan", "gradient of a scan", "remat", "sort", "convolution", "constant", "half",
])  # fmt: skip
def test_reserved_memory_equals_what_jaxlib_says(name: str) -> None:
    import jax

    function, arguments, options = _programs()[name]()
    compiled = jax.jit(function, **options).lower(*arguments).compile()
    stats = compiled.memory_analysis()
    (module,) = compiled.runtime_executable().hlo_modules()
    proto = _field(1, module.as_serialized_hlo_module_proto()) + _field(3, stats.serialized_buffer_assignment_proto)
    plan = read_memory_plan(proto, read_graph(read_module(proto)))
    assert plan is not None
    sizes = plan.sizes
    assert sizes[BufferKind.ARGUMENT] + sizes[BufferKind.DONATED] == stats.argument_size_in_bytes
    assert sizes[BufferKind.DONATED] == stats.alias_size_in_bytes
    total = stats.temp_size_in_bytes + stats.argument_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
    assert plan.total_bytes - sizes[BufferKind.CONSTANT] == total  # which counts constants as part of the code
    assert sum(each.size for each in plan.peak_buffers) == plan.peak_bytes <= plan.total_bytes
