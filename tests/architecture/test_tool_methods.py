"""Editors know the tools of a profile: `tools/tool_methods.pyi` says what the tools themselves say.

Make it again with: python -m tests.architecture.test_tool_methods
"""

from __future__ import annotations

import inspect
import re

from outpace.tools import discover_tools
from tests.architecture.source import SOURCE

STUB = SOURCE / "tools" / "tool_methods.pyi"
HEAD = '''"""The tools as methods, for editors and type checkers.

Made from the tools by tests/architecture/test_tool_methods.py.
"""

from collections.abc import Callable, Iterable
from typing import Any

from outpace.model import Page
{imports}

class ToolMethods:
    """Gives a class that has `page(tool_id)` one method per tool, also of other distributions."""

    def page(self, tool: str, **options: Any) -> Page: ...
    def __dir__(self) -> Iterable[str]: ...
    def __getattr__(self, name: str) -> Callable[..., Page]: ...
'''


def stub() -> str:
    """The text of the stub: for each tool its question, and the options of its `analyse`."""
    methods, modules = [], set()
    for tool in sorted(discover_tools(), key=lambda t: t.id):
        module = tool.load()
        options = list(inspect.signature(module.analyse).parameters.values())[1:]
        for word in {name for option in options for name in re.findall(r"\w+", str(option.annotation))}:
            home = getattr(getattr(module, word, None), "__module__", "")
            if home.startswith("outpace."):
                modules.add(f"from {home} import {word}")
        given = "".join(f", {o.name}: {o.annotation} = ..." for o in options)
        methods.append(f'    def {tool.id}(self{", *" * bool(options)}{given}) -> Page:\n        """{tool.question}"""\n')
    return HEAD.format(imports="\n".join(sorted(modules))) + "".join(methods)


def test_the_stub_says_what_the_tools_say() -> None:
    assert STUB.read_text(encoding="utf-8") == stub(), "make regen writes the stub anew"


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
