"""How a report names a place in the program."""

from __future__ import annotations

import os


def source_line(file: str, line: int) -> str:
    """`train.py:41`, without folders; empty where no file is known."""
    return f"{os.path.basename(file)}:{line}" if file else ""
