# SPDX-License-Identifier: Apache-2.0
"""Everything that Outpace tries or explains, files by subject. A module lists what it has in
`OPTIMISATIONS`: nothing else names it.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outpace.tune.optimisations.knob import Knob
    from outpace.tune.optimisations.optimisation import Rewrite


@functools.cache
def _found() -> tuple[Any, ...]:
    """All of them, in the order in which they are tried."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    found = [each for module in modules for each in getattr(module, "OPTIMISATIONS", ())]
    return tuple(sorted(found, key=lambda each: (each.order, each.id)))


def all_rewrites() -> tuple[Rewrite, ...]:
    """Those of an input pipeline."""
    return _that_have("patch")


def knobs() -> tuple[Knob, ...]:
    """Those of the training step of a model or a loop, and of an input that is no pipeline."""
    return _that_have("keywords")


def _that_have(member: str) -> tuple[Any, ...]:
    return tuple(each for each in _found() if hasattr(each, member))
