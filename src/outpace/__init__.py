"""Outpace finds where a training step's time goes, changes what holds it back, and proves the gain by measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outpace.model import OutpaceError

if TYPE_CHECKING:
    from outpace.api import Profile, open, tools

__version__ = "0.1.0"
__all__ = ["OutpaceError", "Profile", "__version__", "open", "tools"]


def __getattr__(name: str) -> object:
    """Load the facade when it is first used: the package is also imported inside training processes, which need only the model."""
    if name in ("Profile", "open", "tools"):
        from outpace import api

        return getattr(api, name)
    raise AttributeError(f"module 'outpace' has no attribute {name!r}")
