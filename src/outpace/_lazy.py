"""What is imported by its name and late: training processes import Outpace too, and must stay as
they were.

`tests/architecture/test_late_imports.py` lists every such import of the package with its reason.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def lazy_getattr(package: str, modules: Mapping[str, str], former: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """Build a module's `__getattr__`, which imports a name's module when the name is asked for.

    `modules` maps modules below `package` to the names that they hold, parted by spaces; `former`
    maps names of the version before to today's.
    """
    home_of = {name: home for home, names in modules.items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        name = (former or {}).get(name, name)
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)

    return __getattr__


def make_package_callable(package: str, module: str, name: str) -> None:
    """Let a package itself be called, as the function `name` of its module `module`: Python binds a
    package's name in its parent on the first import, so that `outpace.capture` cannot be both a
    package and a function.
    """

    class Package(ModuleType):
        """A package that is called as one of its functions."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return getattr(importlib.import_module(f"{package}.{module}"), name)(*args, **kwargs)

    sys.modules[package].__class__ = Package


render_fragment: Callable[[Any], str]
"""A page as static HTML, which a notebook asks the page itself for. `outpace` sets it: what is
shown stands below what shows it.
"""
