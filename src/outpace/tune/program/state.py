"""What a Keras model consists of."""

from __future__ import annotations

from typing import Any


def layers_of(model: Any) -> list[Any]:
    """All layers of a model, those inside others too."""
    return list(model._flatten_layers(include_self=False))
