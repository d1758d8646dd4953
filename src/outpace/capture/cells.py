# SPDX-License-Identifier: Apache-2.0
"""Cells of a notebook, or of an IPython shell, in which code was typed. Standard library only."""

from __future__ import annotations

import sys


def find_cells() -> dict[str, str]:
    """Return the cell, such as `In [3]`, of each file name under which IPython compiled code; empty
    where no IPython shell runs.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", None)
    return {str(file): f"In [{number}]" for file, number in numbers.items()} if isinstance(numbers, dict) else {}
