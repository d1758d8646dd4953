"""From when on slow workers are a kind of workers, and no stragglers."""

from __future__ import annotations

import pytest

from outpace.tools.pod.findings import is_slow_group


@pytest.mark.parametrize(
    ("slow", "every", "kind"),
    [(2, 4, False), (3, 4, True), (3, 29, True), (3, 30, False), (4, 39, True), (20, 200, False), (21, 200, True)],
)
def test_many_slow_workers_are_a_kind(slow: int, every: int, kind: bool) -> None:
    """From three on, and of more than a tenth."""
    assert is_slow_group(slow, every) is kind
