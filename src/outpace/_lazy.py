"""What is imported by its name and late: training processes import Outpace too, and must stay as they were.

`tests/architecture/test_late_imports.py` lists every such import of the package with its reason.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__`; `homes` maps modules below `package` to the names that they hold, parted by spaces."""
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)

    return __getattr__


def callable_package(package: str, home: str, name: str) -> None:
    """Let a package itself be called, as the function `name` of its module `home`: Python binds a package's name in its parent on the
    first import, so that `outpace.capture` cannot be both a package and a function."""

    class Package(ModuleType):
        """A package that is called as one of its functions."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return getattr(importlib.import_module(f"{package}.{home}"), name)(*args, **kwargs)

    sys.modules[package].__class__ = Package


as_html: Callable[[Any], str]
"""A page as static HTML, which a notebook asks the page itself for. `outpace` sets it: what is shown stands below what shows it."""
