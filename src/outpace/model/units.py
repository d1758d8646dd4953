# SPDX-License-Identifier: Apache-2.0
"""Units of values, and the text of a value for a person.

Inside Outpace time is int64 picoseconds. A `Unit` is the unit of a column's numbers; `humanize`
chooses the form that a person would choose (`12.8 ms`, `1.4 MiB`, `31.2%`), with as many digits as
a noisy measurement deserves.
"""

from __future__ import annotations

import math
from enum import Enum


class Unit(str, Enum):
    """Unit of a column; the value is the text of the JSON output."""

    NONE = ""
    TEXT = "text"
    BOOL = "bool"
    COUNT = "count"
    PS = "ps"
    BYTES = "bytes"
    BYTES_PER_S = "bytes_per_s"
    FRACTION = "fraction"  # 0..1, shown as a percentage; the column's meaning says of which whole
    RATIO = "ratio"
    CORES = "cores"


_TIME_STEPS = ((1e12, "s"), (1e9, "ms"), (1e6, "µs"), (1e3, "ns"), (1.0, "ps"))
_LARGE_STEPS = ((1e12, " T"), (1e9, " G"), (1e6, " M"))
_BYTE_STEPS = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))


def humanize(value: object, unit: Unit) -> str:
    """Return `value` (in `unit`) as a person would write it; missing values become an en dash."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if unit is Unit.BOOL:
        return "yes" if value else "no"
    if unit in (Unit.TEXT, Unit.NONE) or not isinstance(value, (int, float)):
        return str(value)
    return _humanize_number(float(value), unit)


def ordinal(number: int) -> str:
    """Return an ordinal number as text: `1st`, `2nd`, `3rd`, `11th`, `25th`."""
    ending = "th" if 10 <= number % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: `1 step`, `1,200 steps`, `2 memories`. `plural` is needed
    where it is not the noun with an s.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def _humanize_number(value: float, unit: Unit) -> str:
    if unit is Unit.PS:
        return _format_scaled(value, _TIME_STEPS)
    if unit is Unit.BYTES:
        return _format_scaled(value, _BYTE_STEPS)
    if unit is Unit.BYTES_PER_S:
        return _format_scaled(value, _BYTE_STEPS) + "/s"
    if unit is Unit.FRACTION:
        return f"{value * 100:.1f}%"
    if unit is Unit.COUNT:
        return f"{round(value):,}"
    if unit is Unit.CORES:
        return f"{value:.2f} cores"
    return _format_general(value)


def _format_general(value: float) -> str:
    """Return three significant digits, without an exponent where a person would not write one."""
    rounded = float(f"{value:.3g}")
    factor, name = next((step for step in _LARGE_STEPS if abs(rounded) >= step[0]), (1.0, ""))
    scaled = rounded / factor
    if not 1000 <= abs(scaled) < 1e6:
        return f"{scaled:.3g}{name}"
    return f"{scaled:,.0f}{name}"


def _format_scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    if value == 0:
        return f"0 {steps[-3][1] if steps is _TIME_STEPS else steps[-1][1]}"
    at = next((i for i, (factor, _) in enumerate(steps) if abs(value) >= factor), len(steps) - 1)
    # A rounded value may reach the next unit: 999.7 ms is 1.00 s, not 1,000 ms
    if at and round(abs(value) / steps[at][0]) * steps[at][0] >= steps[at - 1][0]:
        at -= 1
    factor, name = steps[at]
    scaled = value / factor
    size = abs(scaled)  # the rounded value decides the number of digits: 9.996 is 10.0, not 10.00
    digits = 0 if round(size, 1) >= 100 or factor == 1.0 else 1 if round(size, 2) >= 10 else 2
    return f"{scaled:,.{digits}f} {name}"
