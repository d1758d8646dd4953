# SPDX-License-Identifier: Apache-2.0
"""What a script's process knows when memory ran out: the text of the exception, what the device
has, and the largest of JAX's compiled programs with its memory plan.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

_SIGNS = ("RESOURCE_EXHAUSTED", "ResourceExhausted", "out of memory", "Out of memory", "OOM when")
_LONGEST = 1 << 20  # characters of an exception's text; XLA's has thousands
_MODULE, _ASSIGNMENT = 1, 3  # HloProto


def describe_failure(error: BaseException) -> str:
    """Return the text of an exception, with the device's memory where that ran out."""
    text = f"{type(error).__name__}: {error}"[:_LONGEST]
    return "\n".join((text, *_iter_statistics())) if is_exhaustion(text) else text


def is_exhaustion(text: str) -> bool:
    """Whether a text says that memory ran out."""
    return any(sign in text for sign in _SIGNS)


def _iter_statistics() -> Iterator[str]:
    """Yield what JAX's first device has and holds, as an allocator writes it."""
    jax: Any = sys.modules.get("jax")
    with suppress(Exception):  # nothing is known of a device that has gone
        found = jax.devices()[0].memory_stats() or {}
        names = {"bytes_limit": "Limit", "bytes_in_use": "InUse"}
        yield from (f"{name}: {found[key]}" for key, name in names.items() if key in found)


def find_largest_program() -> str:
    """Return the compiled program of JAX that needs most memory, an `HloProto` in base 64; "" where
    there is none.
    """
    jax: Any = sys.modules.get("jax")
    with suppress(Exception):  # an older JAX tells less
        programs = jax.devices()[0].client.live_executables()
        largest, stats = max(((each, each.get_compiled_memory_stats()) for each in programs), key=lambda pair: _total(pair[1]))
        return base64.b64encode(_encode(largest.hlo_modules()[0], stats)).decode()
    return ""


def _total(stats: Any) -> int:
    sizes = stats.temp_size_in_bytes + stats.argument_size_in_bytes + stats.output_size_in_bytes
    return int(sizes - stats.alias_size_in_bytes)


def _encode(module: Any, stats: Any) -> bytes:
    from outpace.model.protobuf_wire import encode_bytes

    return encode_bytes(_MODULE, module.as_serialized_hlo_module_proto()) + encode_bytes(
        _ASSIGNMENT, stats.serialized_buffer_assignment_proto
    )
