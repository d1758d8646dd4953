"""Whether a file of Python belongs to an installed library, wherever that was installed to.
Standard library only.

`site-packages` is one of many folders that libraries are installed to: `pip install --target`,
build systems and containers put them elsewhere on `sys.path`. What all installers write beside a
library is its record (`NAME.dist-info/RECORD`), and it says which packages it holds.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from functools import lru_cache

_PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\]([^/\\]+)")
_RECORD = ".dist-info"


@lru_cache(maxsize=8192)
def library_of(file: str) -> str:
    """The top package of the installed library that a file belongs to; empty for a file of none."""
    found = _PACKAGE.search(file)
    name = found.group(1) if found else _recorded(file)
    return name.removesuffix(".py")


def _recorded(file: str) -> str:
    """The same of a library in any other folder of `sys.path`: the name below the innermost one
    whose records hold it.
    """
    folders = (folder for folder in dict.fromkeys(sys.path) if isinstance(folder, str) and folder)
    for folder in sorted(folders, key=len, reverse=True):
        inside = folder.rstrip("/\\") + os.sep
        if file.startswith(inside):
            name = re.split(r"[/\\]", file[len(inside) :], maxsplit=1)[0]
            if name in _installed(inside):
                return name
    return ""


@lru_cache(maxsize=64)
def _installed(folder: str) -> frozenset[str]:
    """Names below a folder that records of installers beside them list."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):
            if entry.endswith(_RECORD):
                with open(os.path.join(folder, entry, "RECORD"), encoding="utf-8", errors="replace") as lines:
                    found.update(line.replace("\\", "/").partition("/")[0].partition(",")[0] for line in lines)
    return frozenset(found)
