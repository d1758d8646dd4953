# SPDX-License-Identifier: Apache-2.0
"""One stacked bar as text, and its legend: the picture of the first screen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from outpace.model import Chart
from outpace.model.units import format_count
from outpace.report import chart_data, palette

WIDEST = 118
"""Maximum width of a bar, cells; a longer one is no easier to read."""
_GLYPHS = "█▓▒░#=+:o.-"
_WORTH_NAMING = 0.01  # minimum share of the whole for a part to be named


def bar_and_legend(chart: Chart, width: int, colored: bool) -> tuple[Text, list[Text]]:
    """Return one stacked bar, and its parts with time and share, largest first; those of less than
    a hundredth are combined.
    """
    parts = chart_data.compute_parts(chart)
    order = sorted((i for i, p in enumerate(parts) if p.value > 0), key=lambda i: -parts[i].value)
    large = [i for i in order if parts[i].share >= _WORTH_NAMING]
    legend = [
        Text()
        .append(part_glyph(i, colored) + " ", part_style(parts[i].color_key, colored))
        .append(f"{parts[i].name} {parts[i].label}")
        .append(f" {parts[i].share:.0%}", "dim")
        for i in large
    ]
    if rest := len(order) - len(large):
        legend.append(Text(f"{format_count(rest, 'other')} under 1%", "dim"))
    return stack_parts(parts, width, colored), legend


def stack_parts(parts: Sequence[chart_data.ChartPart], width: int, colored: bool) -> Text:
    """Return one bar that consists of the parts."""
    bar = Text()
    for i, (part, cells) in enumerate(zip(parts, split_cells([p.value for p in parts], min(width, WIDEST)), strict=True)):
        bar.append(part_glyph(i, colored) * cells, style=part_style(part.color_key, colored))
    return bar


def split_cells(values: Sequence[float], width: int) -> list[int]:
    """Divide exactly `width` cells among `values`; every positive value gets at least one while
    there are enough.
    """
    total = sum(values)
    if total <= 0:
        return [0] * len(values)
    exact = [v / total * width for v in values]
    cells = [max(int(e), 1 if v > 0 else 0) for e, v in zip(exact, values, strict=True)]
    while sum(cells) > width:
        cells[max(range(len(cells)), key=lambda i: cells[i] - exact[i] if cells[i] > 1 else -width)] -= 1
    for i in sorted(range(len(cells)), key=lambda i: cells[i] - exact[i])[: width - sum(cells)]:
        cells[i] += 1
    return cells


def part_glyph(position: int, colored: bool) -> str:
    """Return the glyph of a part, by its position, which tells parts apart without colours."""
    return "█" if colored else _GLYPHS[position % len(_GLYPHS)]


def part_style(key: str, colored: bool) -> str:
    """Return the style of a part with a colour key; "" without colours."""
    return palette.hex_color(key, dark=True) if colored else ""
