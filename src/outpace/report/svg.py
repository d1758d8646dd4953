# SPDX-License-Identifier: Apache-2.0
"""Static pictures as SVG: they need no script, follow the theme through CSS classes (`k-<colour
color_key>`), and print.

Colours and tooltips are what a strict content security policy allows: classes, `columns-tip`, and a
`<title>` for every shape.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from outpace.report.chart_data import ChartPart, IcicleNode, StackedColumns
from outpace.report.labels import shorten_name

_ROW = 22  # height of one level of an icicle, pixels
# approximate number of characters of a name that fit into the full width of an icicle on a phone or
# a desktop screen
_CHARACTERS = 110
_MOST_TOLD = 5


def stacked_bar(parts: Sequence[ChartPart], title: str) -> Markup:
    """Return one horizontal stacked bar over the full width."""
    shapes, x = [], 0.0
    for part in parts:
        if part.share > 0:
            shape = Markup('<rect x="{}%" y="0" width="{}%" height="100%" class="k-{}"').format(
                _number(x * 100), _number(part.share * 100), part.color_key
            )
            shapes.append(_add_tip(shape, "rect", part))
            x += part.share
    return _svg("bar", 'width="100%" height="34"', shapes, _description(title, parts))


def single_bar(part: ChartPart, maximum: float) -> Markup:
    """Return one bar of a bar chart, with the length of `part` relative to `maximum`."""
    share = part.value / maximum if maximum > 0 else 0.0
    shape = Markup('<rect x="0" y="0" width="{}%" height="100%" class="k-{}"').format(_number(share * 100), part.color_key)
    return _svg("length", 'width="100%" height="14"', [_add_tip(shape, "rect", part)], f"{part.name}: {part.label}")


def stacked_columns(columns: StackedColumns, axis_label: str, *, gap: float = 2.0) -> Markup:
    """Return stacked columns, one path per part; the axis ends at `columns.axis_end`, and columns
    are at most `gap` apart.
    """
    count = columns.heights.shape[1]
    wide, high = 960.0, 220.0
    step = wide / max(count, 1)
    gap = min(gap, step * 0.2)
    bottom = [high] * count
    shapes = []
    for i, key in enumerate(columns.color_keys):
        moves = []
        for j, value in enumerate(columns.heights[i].tolist()):
            end = max(0.0, bottom[j] - value / columns.axis_end * high)
            if bottom[j] - end > 0.05:
                moves.append(
                    f"M{_number(j * step)} {_number(bottom[j])}V{_number(end)}h{_number(step - gap)}V{_number(bottom[j])}z"
                )
            bottom[j] = end
        if moves:
            shapes.append(
                Markup('<path d="{}" class="k-{}"><title>{}</title></path>').format("".join(moves), key, columns.names[i])
            )
    return _svg("columns", f'viewBox="0 0 {wide:.0f} {high:.0f}" preserveAspectRatio="none"', shapes, axis_label)


def icicle(cells: Sequence[IcicleNode]) -> Markup:
    """Return nested bars: every row is one level of the tree, a bar's width its share of the whole,
    with its name where it fits.
    """
    rows = max((cell.depth for cell in cells), default=-1) + 1
    siblings: dict[str, list[str]] = {}
    for cell in cells:
        siblings.setdefault(cell.path.removesuffix(cell.name), []).append(cell.name)
    shapes = []
    for cell in cells:
        tip = f"{cell.path}: {cell.label} ({cell.width * 100:.1f}%){cell.state and f', {cell.state}'}"
        left, top, wide = _number(cell.left * 100), cell.depth * _ROW, _number(max(cell.width * 100 - 0.1, 0.05))
        shape = Markup('<rect x="{}%" y="{}" width="{}%" height="{}" class="k-{}"><title>{}</title></rect>').format(
            left, top, wide, _ROW - 1, cell.color_key, tip
        )
        shapes.append(shape)
        if name := shorten_name(cell.name, siblings[cell.path.removesuffix(cell.name)], int(cell.width * _CHARACTERS) - 1):
            shapes.append(Markup('<text x="{}%" y="{}" dx="4">{}</text>').format(left, top + _ROW - 7, name))
    return _svg("icicle", f'width="100%" height="{rows * _ROW}"', shapes, "icicle")


def _description(title: str, parts: Sequence[ChartPart]) -> str:
    """Return the description of a chart for screen readers: its title and its largest parts."""
    largest = sorted((p for p in parts if p.value > 0), key=lambda p: -p.value)[:_MOST_TOLD]
    return f"{title}: " + ", ".join(f"{p.name} {p.share * 100:.1f}%" for p in largest)


def _add_tip(shape: Markup, tag: str, part: ChartPart) -> Markup:
    tip = f"{part.name}: {part.label} ({part.share * 100:.1f}%)"
    return shape + Markup(' data-tip="{}"><title>{}</title></{}>').format(tip, tip, tag)


def _svg(kind: str, attributes: str, shapes: Sequence[Markup], label: str) -> Markup:
    head = Markup('<svg class="{}" role="img" aria-label="{}" ').format(kind, label) + Markup(attributes) + Markup(">")
    return head + Markup("").join(shapes) + Markup("</svg>")


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
