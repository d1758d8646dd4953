"""What tests of loops share."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from outpace.tune.loop.jax_calls import JaxCalls


@pytest.fixture
def calls() -> Iterator[JaxCalls]:
    """JAX, whose functions are seen, and tell where they were made."""
    jax: Any = importlib.import_module("jax")
    before = {name: getattr(jax, name) for name in ("jit", "pmap", "grad", "value_and_grad")}
    made = JaxCalls(jax)
    made.install()
    yield made
    for name, value in before.items():
        setattr(jax, name, value)
