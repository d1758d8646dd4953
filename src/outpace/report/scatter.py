# SPDX-License-Identifier: Apache-2.0
"""Layout of SCATTER charts: points and lines on two logarithmic axes."""

from __future__ import annotations

import math

from outpace._dataclass import dataclass
from outpace.model import Chart, ScatterColumns, Unit
from outpace.model.text import clean, format_cell
from outpace.report import palette

_MOST_POINTS = 400  # maximum number of points that are drawn, the largest ones
_MARGIN = 0.04  # room around the points, as a share of the axis


@dataclass(frozen=True)
class ScatterPoint:
    """A point: position on both axes (0 to 1, upwards), share of the summed sizes, name, tip,
    colour key, and the number of its row in the chart's other table.
    """

    x: float
    y: float
    share: float
    name: str
    tip: str
    color_key: str
    row: int


@dataclass(frozen=True)
class ScatterPlot:
    """A laid out SCATTER chart.

    points: the largest first.
    lines: name and positions of each line, from left to right.
    x_ticks, y_ticks: position and label of the powers of ten on each axis.
    x_label, y_label: names of the axes.
    """

    points: tuple[ScatterPoint, ...]
    lines: tuple[tuple[str, tuple[tuple[float, float], ...]], ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    x_label: str
    y_label: str


@dataclass(frozen=True)
class _Axis:
    """A logarithmic axis: powers of ten at its ends."""

    low: float
    high: float

    def position(self, value: float) -> float:
        """Return the position of a positive number, 0 to 1 between the axis' ends."""
        return (math.log10(value) - self.low) / (self.high - self.low)


def layout_scatter(chart: Chart) -> ScatterPlot | None:
    """Return the positions of a SCATTER chart's points and lines, without rows that have no place
    on logarithmic axes; None where no row has.
    """
    columns, table = ScatterColumns.of(chart), chart.initial_table()
    rows = [row for row in table.records() if _is_positive(row[chart.x]) and _is_positive(row[columns.y])]
    points = sorted((row for row in rows if not row[columns.line]), key=lambda row: -_size(row[columns.size]))[:_MOST_POINTS]
    lines = [row for row in rows if row[columns.line]]
    if not points and not lines:
        return None
    x, y = (_axis([row[name] for row in (*points, *lines)]) for name in (chart.x, columns.y))
    whole = sum(_size(row[columns.size]) for row in points) or 1.0
    by_line: dict[str, list[tuple[float, float]]] = {}
    for row in lines:
        by_line.setdefault(clean(row[columns.line]), []).append((x.position(row[chart.x]), y.position(row[columns.y])))
    units = {name: table.field(name).unit for name in (chart.x, columns.y, columns.size)}
    return ScatterPlot(
        tuple(
            ScatterPoint(
                x.position(row[chart.x]),
                y.position(row[columns.y]),
                _size(row[columns.size]) / whole,
                clean(row[columns.label]),
                ", ".join(
                    (
                        f"{clean(row[columns.label])}: {format_cell(row[columns.size], units[columns.size])}",
                        *(f"{format_cell(row[n], units[n])} {clean(table.field(n).label)}" for n in (columns.y, chart.x)),
                        *(f"{clean(table.field(n).label)} {format_cell(row[n], table.field(n).unit)}" for n in columns.shown),
                    )
                ),
                palette.color_key(row[chart.state], 0, chart.colors) if chart.state else palette.color_key("", 0, {}),
                int(_size(row[columns.row])),
            )
            for row in points
        ),
        tuple((name, tuple(sorted(places))) for name, places in by_line.items()),
        _ticks(x, units[chart.x]),
        _ticks(y, units[columns.y]),
        clean(table.field(chart.x).label),
        clean(table.field(columns.y).label),
    )


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value) and value > 0


def _size(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) and value > 0 else 0.0


def _axis(values: list[float]) -> _Axis:
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(high - low, 1.0) * _MARGIN
    return _Axis(low - room, high + room)


def _ticks(axis: _Axis, unit: Unit) -> tuple[tuple[float, str], ...]:
    powers = range(math.ceil(axis.low), math.floor(axis.high) + 1)
    step = max(1, -(-len(powers) // 10))
    return tuple((axis.position(10.0**n), format_cell(10.0**n, unit)) for n in powers if n % step == 0)
