"""Outpace finds where a training step's time goes, changes what holds it back, and proves the gain by measurement."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from outpace._version import __version__

if TYPE_CHECKING:
    from outpace.api import Profile, open, tools
    from outpace.model import OutpaceError

__all__ = ["OutpaceError", "Profile", "__version__", "open", "tools"]
_HOMES = {"OutpaceError": "outpace.model", "Profile": "outpace.api", "open": "outpace.api", "tools": "outpace.api"}


def __getattr__(name: str) -> object:
    """Load a public name when it is first used: training processes import the package too, and must stay as they were."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if not name.startswith("_"):  # what a tool says of a Keras model alone
        for tool in importlib.import_module("outpace.tools").discover():
            if tool.id == name and tool.of_model is not None:
                return tool.of_model
    raise AttributeError(f"module 'outpace' has no attribute {name!r}")
