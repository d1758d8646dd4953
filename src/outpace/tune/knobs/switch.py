"""Attributes of a compiled model that are set for a while."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any

from outpace.tune.knobs.turned import Turned


def switched(model: Any, **values: Any) -> AbstractContextManager[None]:
    """Set attributes of the model inside the block."""

    def on(back: ExitStack) -> None:
        for name, value in values.items():
            back.callback(setattr, model, name, getattr(model, name))
            setattr(model, name, value)

    return Turned(on)
