"""How a report names a place in the program."""

from __future__ import annotations

import os


def source_line(file: str, line: int) -> str:
    """`train.py:41`, without folders; `train.py` where no line (0) is known, empty where no file is."""
    return f"{os.path.basename(file)}:{line}" if file and line else os.path.basename(file)
