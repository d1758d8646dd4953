# SPDX-License-Identifier: Apache-2.0
"""Static pictures as SVG: they need no script, follow the theme through CSS classes (`k-<colour
color_key>`), and print.

Colours and tooltips are what a strict content security policy allows: classes, `columns-tip`, and a
`<title>` for every shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from outpace.report.chart_data import ChartPart, IcicleNode, StackedColumns
from outpace.report.labels import shorten_name
from outpace.report.scatter import ScatterPlot

_ROW = 22  # height of one level of an icicle, pixels
# approximate number of characters of a name that fit into the full width of an icicle on a phone or
# a desktop screen
_CHARACTERS = 110
_MOST_TOLD = 5
_LEFT, _TOP, _WIDE, _HIGH = 74.0, 10.0, 870.0, 380.0  # plane of a scatter chart, of 960 x 430 pixels
_LINE_NAME = 14.0  # height of the name of a line, pixels
_LARGEST = 60.0  # radius of a point that has the whole of the sizes, pixels


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


def scatter(plot: ScatterPlot, title: str, route: str = "") -> Markup:
    """Return points as circles whose area is their share, and lines with their names, between two
    logarithmic axes. `route`: address of the table whose rows the points are, to which they link.
    """
    label = Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(
        _number(_LEFT + _WIDE / 2), _number(_TOP + _HIGH + 34), f"{plot.y_label} over {plot.x_label}"
    )
    return _svg(
        "scatter",
        'viewBox="0 0 960 430"',
        [*_scatter_grid(plot), *_scatter_lines(plot), *_scatter_points(plot, route), label],
        title,
        "group" if route else "img",  # a picture holds no links
    )


def _scatter_grid(plot: ScatterPlot) -> Iterator[Markup]:
    """Yield the lines and labels of both axes' powers of ten."""
    for place, label in plot.x_ticks:
        at = _number(_LEFT + place * _WIDE)
        yield Markup('<path class="grid" d="M{} {}v{}"/>').format(at, _number(_TOP), _number(_HIGH))
        yield Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(at, _number(_TOP + _HIGH + 16), label)
    for place, label in plot.y_ticks:
        at = _number(_TOP + (1 - place) * _HIGH)
        yield Markup('<path class="grid" d="M{} {}h{}"/>').format(_number(_LEFT), at, _number(_WIDE))
        yield Markup('<text x="{}" y="{}" dy="4" text-anchor="end">{}</text>').format(_number(_LEFT - 8), at, label)


def _scatter_lines(plot: ScatterPlot) -> Iterator[Markup]:
    """Yield each line with its name at its right end, below the names of lines above it."""
    free = 0.0
    for name, places in sorted(plot.lines, key=lambda line: -line[1][-1][1]):
        ends = [(_number(_LEFT + x * _WIDE), _TOP + (1 - y) * _HIGH) for x, y in places]
        moves = "L".join(f"{x} {_number(y)}" for x, y in ends)
        yield Markup('<path class="roof" d="M{}"><title>{}</title></path>').format(moves, name)
        at = max(ends[-1][1] - 5, free)
        free = at + _LINE_NAME
        yield Markup('<text class="roof" x="{}" y="{}" text-anchor="end">{}</text>').format(ends[-1][0], _number(at), name)


def _scatter_points(plot: ScatterPlot, route: str) -> Iterator[Markup]:
    for point in plot.points:
        circle = Markup('<circle cx="{}" cy="{}" r="{}" class="k-{}"><title>{}</title></circle>').format(
            _number(_LEFT + point.x * _WIDE),
            _number(_TOP + (1 - point.y) * _HIGH),
            _number(max(2.0, _LARGEST * point.share**0.5)),
            point.color_key,
            point.tip,
        )
        yield Markup('<a href="#{}/{}">{}</a>').format(route, point.row, circle) if route and point.row else circle


def _description(title: str, parts: Sequence[ChartPart]) -> str:
    """Return the description of a chart for screen readers: its title and its largest parts."""
    largest = sorted((p for p in parts if p.value > 0), key=lambda p: -p.value)[:_MOST_TOLD]
    return f"{title}: " + ", ".join(f"{p.name} {p.share * 100:.1f}%" for p in largest)


def _add_tip(shape: Markup, tag: str, part: ChartPart) -> Markup:
    tip = f"{part.name}: {part.label} ({part.share * 100:.1f}%)"
    return shape + Markup(' data-tip="{}"><title>{}</title></{}>').format(tip, tip, tag)


def _svg(kind: str, attributes: str, shapes: Sequence[Markup], label: str, role: str = "img") -> Markup:
    head = Markup('<svg class="{}" role="{}" aria-label="{}" ').format(kind, role, label) + Markup(attributes) + Markup(">")
    return head + Markup("").join(shapes) + Markup("</svg>")


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
