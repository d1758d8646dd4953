"""Practices that Outpace explains and does not try, one file each; a module that knows one has a function `advise`."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from outpace.tune.advice.advice import Advice
from outpace.tune.advice.facts import Facts, facts_of

if TYPE_CHECKING:
    from outpace.tune.climb.limits import Limits
    from outpace.tune.program.program import Program

__all__ = ["Advice", "Facts", "advice_for", "advice_on"]


def advice_for(program: Program, limits: Limits | None = None) -> tuple[Advice, ...]:
    """What fits a program; with its limits, measured, also where it depends on what holds the program back. Runs nothing."""
    return advice_on(facts_of(program, limits))


def advice_on(facts: Facts) -> tuple[Advice, ...]:
    """What fits a program of which these facts are known, by the practice's name."""
    modules = (importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
    found = (module.advise(facts) for module in modules if hasattr(module, "advise"))
    return tuple(advice for advice in found if advice is not None)
