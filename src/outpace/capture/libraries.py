# SPDX-License-Identifier: Apache-2.0
"""Tells files of installed libraries from the user's own, wherever a library was installed.
Standard library only.

`site-packages` is one of many folders that libraries are installed to: `pip install --target`,
build systems and containers put them elsewhere on `sys.path`. All installers write a record next to
the library (`NAME.dist-info/RECORD`), which lists the packages that it installed.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from functools import lru_cache

_PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\]([^/\\]+)")
_RECORD_SUFFIX = ".dist-info"


@lru_cache(maxsize=8192)
def library_of(file: str) -> str:
    """Return the top-level package of the installed library that a file belongs to; "" for a file
    of no library.

    Example: `library_of("/usr/lib/python3/site-packages/keras/src/layers/layer.py")` is `"keras"`.
    """
    match = _PACKAGE.search(file)
    name = match.group(1) if match else _find_recorded_library(file)
    return name.removesuffix(".py")


def _find_recorded_library(file: str) -> str:
    """Return the library of a file outside `site-packages`, or "".

    The library's name is the first part of the path below the innermost folder of `sys.path` that
    holds the file, where an installer's record in that folder lists the name.
    """
    folders = (folder for folder in dict.fromkeys(sys.path) if isinstance(folder, str) and folder)
    for folder in sorted(folders, key=len, reverse=True):
        prefix = folder.rstrip("/\\") + os.sep
        if file.startswith(prefix):
            name = re.split(r"[/\\]", file[len(prefix) :], maxsplit=1)[0]
            if name in _read_installed_names(prefix):
                return name
    return ""


@lru_cache(maxsize=64)
def _read_installed_names(folder: str) -> frozenset[str]:
    """Return the top-level names that the installers' records in a folder list."""
    names: set[str] = set()
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):
            if entry.endswith(_RECORD_SUFFIX):
                with open(os.path.join(folder, entry, "RECORD"), encoding="utf-8", errors="replace") as record:
                    names.update(line.replace("\\", "/").partition("/")[0].partition(",")[0] for line in record)
    return frozenset(names)
