# SPDX-License-Identifier: Apache-2.0
"""Imports by name on first use, and regular expressions that are compiled on first use: training
processes import Outpace too, and must load nothing that their script does not load; a short report
uses few of the expressions.

`tests/architecture/test_late_imports.py` lists every such import of the package with its reason.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, AnyStr, Generic, cast


def compile_lazily(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern like `re.compile`, which is compiled when one of its attributes is first
    used. An error of the expression shows only then.
    """
    return cast("re.Pattern[AnyStr]", _Pattern(pattern, flags))


class _Pattern(Generic[AnyStr]):
    """Stand-in for a compiled pattern, which keeps the methods that were used."""

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self.pattern: AnyStr = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(re.compile(self.pattern, self.flags), name)
        return value


def lazy_getattr(package: str, modules: Mapping[str, str], former: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package, which imports the module of a name on first access.

    `modules` maps modules below `package` to the names that they define, separated by spaces;
    `former` maps names of the previous version to today's names. The returned function raises
    AttributeError for a name in neither.
    """
    home_of = {name: home for home, names in modules.items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        name = (former or {}).get(name, name)
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)
        return vars(sys.modules[package]).setdefault(name, value)  # the next access does not come here

    return __getattr__


def make_package_callable(package: str, module: str, name: str) -> None:
    """Make a package callable: a call runs the function `name` of its module `module`.

    Python binds a package's name in its parent on the first import, so that `outpace.capture`
    cannot be a package and a separate function.
    """

    class Package(ModuleType):
        """Package that can be called like one of its functions."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return getattr(importlib.import_module(f"{package}.{module}"), name)(*args, **kwargs)

    sys.modules[package].__class__ = Package


render_fragment: Callable[[Any], str]
"""Function that renders a page as static HTML; a page calls it to show itself in a notebook.
`outpace/__init__.py` sets it, because the packages that define pages must not import renderers.
"""
