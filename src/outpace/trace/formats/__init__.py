"""The formats of profiles that can be opened, one folder each. They are discovered; a file's name
says which one it is of.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil

from outpace.trace.formats.format import ProfileFormat
from outpace.trace.formats.in_memory import InMemoryProfile

__all__ = ["InMemoryProfile", "ProfileFormat", "discover", "find_ending", "find_format"]

_USUAL = "xspace"  # what a file is taken for whose name says nothing


@functools.cache
def discover() -> tuple[ProfileFormat, ...]:
    """All formats, in the order of their folders' names."""
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__) if m.ispkg)
    return tuple(module.FORMAT for module in modules)


def find_ending(name: str, *, in_folders: bool = False) -> str:
    """The longest ending of a profile's name, "" for a name without one; `in_folders`: only those
    that are looked for there.
    """
    known = (end for each in discover() for end in (each.endings if in_folders else (*each.endings, *each.extra_endings)))
    return max((end for end in known if name.endswith(end)), key=len, default="")


def find_format(name: str) -> ProfileFormat:
    """The format of a file of this name."""
    ending = find_ending(name)
    usual = next(each for each in discover() if each.package.endswith(f".{_USUAL}"))
    return next((each for each in discover() if ending and ending in (*each.endings, *each.extra_endings)), usual)
