"""Numbers as a person would write them."""

from __future__ import annotations

import pytest

from outpace.model import Unit, humanize
from outpace.model.units import format_count


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B/s"), (512, "512 B/s"), (10_000_000_000, "9.31 GiB/s"), (3.35e12, "3.05 TiB/s"), (float("nan"), "–"), (None, "–")],
)
def test_rates(value: float | None, text: str) -> None:
    assert humanize(value, Unit.BYTES_PER_S) == text


@pytest.mark.parametrize(
    ("ps", "text"),
    [
        (999.7e9, "1.00 s"),
        (999.4e9, "999 ms"),
        (9.996e9, "10.0 ms"),
        (9.994e9, "9.99 ms"),
        (99.96e9, "100 ms"),
        (-999.7e9, "-1.00 s"),
        (999.6, "1.00 ns"),
        (0.4, "0 ps"),
        (999.7e12, "1,000 s"),
    ],
)
def test_unit_and_digits_are_those_of_the_rounded_number(ps: float, text: str) -> None:
    assert humanize(ps, Unit.PS) == text


def test_bytes_never_reach_the_next_unit() -> None:
    assert humanize(1023.9 * 1024, Unit.BYTES) == "1.00 MiB"
    assert humanize(1023.4 * 1024, Unit.BYTES) == "1,023 KiB"
    assert humanize(1023.6 * 2**20, Unit.BYTES_PER_S) == "1.00 GiB/s"


@pytest.mark.parametrize(
    ("value", "text"),
    [(1784, "1,780"), (11_532.0, "11,500"), (999.7, "1,000"), (3.14159, "3.14"), (0.0412, "0.0412"), (-2500, "-2,500")],
)
def test_a_plain_number_is_never_a_power_of_ten(value: float, text: str) -> None:
    assert humanize(value, Unit.RATIO) == text


def test_percent_stands_without_a_space() -> None:
    assert humanize(0.812, Unit.FRACTION) == "81.2%"


def test_what_is_counted_agrees_with_its_number() -> None:
    assert [format_count(number, "more line") for number in (0, 1, 2)] == ["0 more lines", "1 more line", "2 more lines"]
    assert format_count(1200, "more memory", "more memories") == "1,200 more memories"
