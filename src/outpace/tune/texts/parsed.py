# SPDX-License-Identifier: Apache-2.0
"""Python's parser, for one thread at a time."""

from __future__ import annotations

import ast
import threading

_ALONE = threading.Lock()


def parsed(text: str | bytes) -> ast.Module:
    """The tree of a text. Raises SyntaxError and ValueError, as `ast.parse` does; that ends in a
    SystemError now and then where two threads are in it (python/cpython#106905, until 3.11.9 and
    3.12.3).
    """
    with _ALONE:
        return ast.parse(text)
