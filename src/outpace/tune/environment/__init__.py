"""Knobs that must be there before TensorFlow starts, one file each; a module makes one and calls it `KNOB`. Tried in processes."""

from __future__ import annotations

import importlib
import pkgutil

from outpace.tune.environment.setting import EnvironmentKnob

__all__ = ["EnvironmentKnob", "environment_knobs"]


def environment_knobs() -> tuple[EnvironmentKnob, ...]:
    """All knobs of the environment, in the order in which they are tried."""
    modules = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    found = [module.KNOB for module in modules if hasattr(module, "KNOB")]
    return tuple(sorted(found, key=lambda knob: (knob.order, knob.id)))
