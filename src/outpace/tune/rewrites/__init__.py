"""The rewrites of input pipelines, one file each. A file is found by being here: nothing else names it."""

from __future__ import annotations

import importlib
import pkgutil

from outpace.tune.rewrites.rewrite import Rewrite


def all_rewrites() -> tuple[Rewrite, ...]:
    """Every rewrite of this package, in the order of their file names."""
    found = []
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        made = getattr(importlib.import_module(f"{__name__}.{module.name}"), "REWRITE", None)
        if made is not None:
            found.append(made)
    return tuple(found)
