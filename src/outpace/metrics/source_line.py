# SPDX-License-Identifier: Apache-2.0
"""Format a place in the user's program (file and line) for a report."""

from __future__ import annotations

import os

from outpace._lazy import compile_lazily

_CELL = compile_lazily(r"(In \[\d+\]):(\d.*)$")


def format_source_line(file: str, line: int) -> str:
    """Return `train.py:41`, without folders, for a file and a line number.

    Return `train.py` where the line is unknown (0), "" where the file is unknown (""), and `In [3],
    line 1` for a cell of a notebook.
    """
    return shorten_source_path(f"{file}:{line}" if file and line else file)


def shorten_source_path(source: str) -> str:
    """Return "file:line" without folders, or as `In [3], line 1` for a cell of a notebook.

    Several lines may follow the file (`train.py:41 and 43`).
    """
    return _CELL.sub(r"\1, line \2", os.path.basename(source))
