# SPDX-License-Identifier: Apache-2.0
"""A base class with every tool as a method.

Editors and type checkers read the stub of this module instead, which names the tools that Outpace
brings.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from outpace.tools import discover_tools

if TYPE_CHECKING:
    from outpace.model import Page


class ToolMethods:
    """Gives a class that has `page(tool_id)` one method per tool, tools of other distributions
    included.
    """

    page: Callable[..., Page]

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *(t.id for t in discover_tools())]

    def __getattr__(self, name: str) -> Callable[..., Page]:
        if name.startswith("_") or name not in {t.id for t in discover_tools()}:
            raise AttributeError(
                f"{type(self).__name__!r} has no tool or attribute {name!r}; the tools are: {', '.join(t.id for t in discover_tools())}"
            )
        return functools.partial(self.page, name)
