# SPDX-License-Identifier: Apache-2.0
"""Formats of profiles that can be opened, one subpackage each, discovered at run time. A file's
name determines its format.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil

from outpace.trace.formats.format import ProfileFormat
from outpace.trace.formats.in_memory import InMemoryProfile

__all__ = ["InMemoryProfile", "ProfileFormat", "discover", "find_ending", "find_format"]

_USUAL = "xspace"  # format of files whose name determines none


@functools.cache
def discover() -> tuple[ProfileFormat, ...]:
    """Return all formats, in the order of their subpackages' names."""
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__) if m.ispkg)
    return tuple(module.FORMAT for module in modules)


def find_ending(name: str, *, in_folders: bool = False) -> str:
    """Return the longest known ending of a profile's name, "" where it has none; `in_folders`: only
    among the endings that are searched for in folders.
    """
    known = (end for each in discover() for end in (each.endings if in_folders else (*each.endings, *each.extra_endings)))
    return max((end for end in known if name.endswith(end)), key=len, default="")


def find_format(name: str) -> ProfileFormat:
    """Return the format of a file with this name."""
    ending = find_ending(name)
    usual = next(each for each in discover() if each.package.endswith(f".{_USUAL}"))
    return next((each for each in discover() if ending and ending in (*each.endings, *each.extra_endings)), usual)
