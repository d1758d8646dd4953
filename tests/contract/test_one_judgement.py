"""A finding is as grave, and saves as much, in a report of its tool alone as in one of
all tools.
"""

from __future__ import annotations

import pytest

from outpace.tools import discover_tools
from tests.support import SOME, opened


@pytest.mark.parametrize("name", SOME)
def test_one_tool_says_the_same_as_all(name: str) -> None:
    whole = opened(name).report()
    for tool in discover_tools():
        alone = opened(name).report([tool.id])
        assert [page.id for page in alone.pages] == [tool.id]
        assert alone.page(tool.id).findings == whole.page(tool.id).findings
        assert [f for f in alone.findings if f in whole.findings] == [f for f in whole.findings if f in alone.findings]
        assert set(map(id, alone.findings)) == set(map(id, alone.page(tool.id).findings))
