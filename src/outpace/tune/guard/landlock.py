# SPDX-License-Identifier: Apache-2.0
"""Landlock as a backstop: what slips through a redirection gets PermissionError instead of changing
a file. Standard library only.

Rights over content and folders only: it does not know `chmod`, `chown`, times and extended
attributes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from outpace.tune.guard import kernel

_WRITE, _REMOVE_FOLDER, _REMOVE_FILE, _MAKE, _REFER, _TRUNCATE = 1 << 1, 1 << 4, 1 << 5, range(6, 13), 1 << 13, 1 << 14
_OF_FILES = _WRITE | _TRUNCATE
_CACHES = ("~/.nv",)  # of compiled kernels, which CUDA writes by itself


def restrict(writable: Sequence[str]) -> bool:
    """Let this process, and all that it starts, write below these folders and to devices alone;
    whether the kernel can.
    """
    try:
        version = kernel.landlock_version()
        if not version:
            return False
        rights = _WRITE | _REMOVE_FOLDER | _REMOVE_FILE | sum(1 << bit for bit in _MAKE)
        rights |= (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
        places = [*writable, "/dev", "/proc", *map(os.path.expanduser, _CACHES)]
        kernel.landlock(rights, {place: rights if os.path.isdir(place) else rights & _OF_FILES for place in places})
    except OSError:
        return False
    return True
