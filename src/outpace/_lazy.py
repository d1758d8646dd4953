"""Names of a package that load when they are first used: training processes import Outpace too, and must stay as they were."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__`; `homes` maps modules below `package` to the names that they hold, parted by spaces."""
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)

    return __getattr__
