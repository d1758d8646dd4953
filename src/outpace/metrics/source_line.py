"""How a report names a place in the program."""

from __future__ import annotations

import os
import re

_CELL = re.compile(r"(In \[\d+\]):(\d.*)$")


def format_source_line(file: str, line: int) -> str:
    """`train.py:41`, without folders; `train.py` where no line (0) is known, empty where no file
    is. Of a notebook, `In [3], line 1`.
    """
    return shorten_source_path(f"{file}:{line}" if file and line else file)


def shorten_source_path(source: str) -> str:
    """The same of a file with its line, or with several (`train.py:41 and 43`)."""
    return _CELL.sub(r"\1, line \2", os.path.basename(source))
