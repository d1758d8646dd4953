"""Outpace finds where a training step's time goes, changes what holds it back, and proves the gain by measurement."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from outpace._version import __version__

if TYPE_CHECKING:
    from outpace.api import Profile, open
    from outpace.model import OutpaceError

__all__ = ["OutpaceError", "Profile", "__version__", "open"]
_HOMES = {"OutpaceError": "outpace.model", "Profile": "outpace.api", "open": "outpace.api"}


def __getattr__(name: str) -> object:
    """Load a public name when it is first used: training processes import the package too, and must stay as they were."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if os.path.isdir(os.path.join(__path__[0], "tools", name)):  # a tool that also speaks of a Keras model alone
        of_model = importlib.import_module(f"outpace.tools.{name}").TOOL.of_model
        if of_model is not None:
            return of_model
    raise AttributeError(f"module 'outpace' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
