"""Attributes of a compiled model that are set for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def switched(model: Any, **values: Any) -> Iterator[None]:
    """Set attributes of the model inside the block."""
    before = {name: getattr(model, name) for name in values}
    try:
        for name, value in values.items():
            setattr(model, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(model, name, value)
