# SPDX-License-Identifier: Apache-2.0
"""Which private names the installed frameworks lack, by the text of their modules: nothing of them
is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from outpace.frameworks import jax, keras, tensorflow

NAMES = (*jax.NAMES, *keras.NAMES, *tensorflow.NAMES)


def missing_names(folder: str, read: Callable[[str], str | None]) -> list[str]:
    """Return the private names that the packages in a folder lack; `read` returns a file's text,
    None where it cannot.
    """
    text_of = cache(read)
    there = (name for name in NAMES if text_of(f"{folder}/{name.package}/__init__.py") is not None)
    return [str(name) for name in there if name.is_missing(folder, text_of)]
