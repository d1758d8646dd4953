"""The knobs of the training step and its precision, one file each; a module makes one and calls it `KNOB`."""

from __future__ import annotations

import importlib
import pkgutil

from outpace.tune.knobs.knob import Knob

__all__ = ["Knob", "knobs"]


def knobs() -> tuple[Knob, ...]:
    """All knobs, in the order in which they are tried."""
    modules = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    found = [module.KNOB for module in modules if hasattr(module, "KNOB")]
    return tuple(sorted(found, key=lambda knob: (knob.order, knob.id)))
