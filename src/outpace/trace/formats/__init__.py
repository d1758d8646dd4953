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
    endings = (
        end
        for profile_format in discover()
        for end in (profile_format.endings if in_folders else (*profile_format.endings, *profile_format.extra_endings))
    )
    return max((end for end in endings if name.endswith(end)), key=len, default="")


def find_format(name: str) -> ProfileFormat:
    """Return the format of a file with this name."""
    ending = find_ending(name)
    usual = next(profile_format for profile_format in discover() if profile_format.package.endswith(f".{_USUAL}"))
    return next(
        (
            profile_format
            for profile_format in discover()
            if ending and ending in (*profile_format.endings, *profile_format.extra_endings)
        ),
        usual,
    )
