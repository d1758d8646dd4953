"""Numbers as a person would write them."""

from __future__ import annotations

import pytest

from outpace.model import Unit, humanize


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B/s"), (512, "512 B/s"), (10_000_000_000, "9.31 GiB/s"), (3.35e12, "3.05 TiB/s"), (float("nan"), "–"), (None, "–")],
)
def test_rates(value: float | None, text: str) -> None:
    assert humanize(value, Unit.BYTES_PER_S) == text
