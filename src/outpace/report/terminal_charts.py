# SPDX-License-Identifier: Apache-2.0
"""Charts as text. Every part has its own glyph besides its colour, so that a log file without
colours reads the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len
from rich.text import Text

from outpace.model import Chart, ChartKind, Unit
from outpace.model.text import clean, format_cell
from outpace.model.units import format_count
from outpace.report import chart_data, palette
from outpace.report.terminal_bar import WIDEST, part_glyph, part_style, split_cells, stack_parts
from outpace.report.terminal_cells import truncate, wrap_cells
from outpace.report.terminal_grid import GAP, TextColumn, fits_width, layout_grid, layout_rows, natural_width

HEIGHT = 7
_EDGE = 10  # width left of the axis, cells: room for "14.0 GiB"
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_MOST_BARS = 12
_LEAST_BAR = 10  # cells
_MOST_NODES = 60
_SMALLEST = 0.02
_ROLE_STYLES = {"bottleneck": "bold red", "critical": "bold", "other": ""}
_ROLE_MARKS = {"bottleneck": "◀ bottleneck", "critical": "● critical path", "other": ""}


def render_chart(chart: Chart, width: int, colored: bool) -> list[Text]:
    """Return lines that show `chart` in `width` cells."""
    if chart.kind is ChartKind.PIE and chart.choice_columns():
        return _pies(chart, width, colored)
    lines = _DRAWERS[chart.kind](chart, width, colored)
    for name in chart.choice_columns() if len(chart.table) else ():
        values = list(dict.fromkeys(chart.table[name].tolist()))
        if len(values) > 1:
            remark = f"{chart.table.field(name).label}: {clean(values[0])}; {format_count(len(values) - 1, 'other')} in the HTML report"
            lines += _remark(remark, width)
    return lines


def _remark(text: str, width: int, indent: int = 0) -> list[Text]:
    """Return a sentence below a chart, in as many lines as needed."""
    (lines,) = wrap_cells((text,), width - indent, prose=True)
    return [Text(" " * indent + line, style="dim") for line in lines]


def stacked_bar(chart: Chart, width: int, colored: bool) -> list[Text]:
    """Return one stacked bar, and a legend with the size and share of every non-empty part."""
    parts = chart_data.compute_parts(chart)
    if not any(p.value for p in parts):
        return [Text("nothing to draw", style="dim")]
    total = format_cell(sum(p.value for p in parts), chart.table.field(chart.series[0]).unit)
    order = sorted((i for i, p in enumerate(parts) if p.value > 0), key=lambda i: -parts[i].value)
    columns = [
        TextColumn("", tuple(parts[i].name for i in order)),
        TextColumn("", tuple(parts[i].label for i in order), right=True),
        TextColumn("", tuple(f"{parts[i].share * 100:.1f}%" for i in order), right=True),
    ]
    marks = [Text().append(part_glyph(i, colored) + " ", part_style(parts[i].color_key, colored)) for i in order]
    legend = zip(marks, layout_rows(columns, width - 2), strict=True)
    lines = ((Text("  ") if at else mark) + line for mark, row in legend for at, line in enumerate(row))
    return [stack_parts(parts, width, colored), *lines, Text(f"  total {total}", style="dim")]


def stacked_columns(chart: Chart, width: int, colored: bool) -> list[Text]:
    """Return stacked columns as a block of text with an axis and a legend."""
    if chart.table.field(chart.x).unit is Unit.TEXT:
        return stacked_rows(chart, width, colored)
    width = min(width, WIDEST)
    return _block(chart_data.compute_columns(chart, max(width - _EDGE, 1)), width, colored)


def area(chart: Chart, width: int, colored: bool) -> list[Text]:
    """Return an area chart of use over time, with one column per slice of time."""
    width = min(width, WIDEST)
    return _block(chart_data.compute_area_columns(chart, max(width - _EDGE, 1)), width, colored)


def _block(data: chart_data.StackedColumns, width: int, colored: bool) -> list[Text]:
    edge, count = _EDGE, data.heights.shape[1]
    if not count:
        return [Text("nothing to draw", style="dim")]
    wide = max(1, min(4, (width - edge) // count))
    lines = [Text(" " * (edge - 2) + "│ ") for _ in range(HEIGHT)]
    for j in range(count):
        column = _column(data.heights[:, j].tolist(), data.axis_end)
        for row in range(HEIGHT):
            part, glyph = column[row] if j not in data.clipped or row < HEIGHT - 1 else (-1, "▲")
            text = glyph if colored or part < 0 or glyph != "█" else part_glyph(part, colored)
            gap = " " if wide > 2 else ""
            lines[HEIGHT - 1 - row].append(
                text * (wide - len(gap)), part_style(data.color_keys[part], colored) if part >= 0 else ""
            )
            lines[HEIGHT - 1 - row].append(gap)
    top = truncate(format_cell(data.axis_end, data.unit), edge - 2).rjust(edge - 2)
    lines[0] = Text(top + "│ ") + lines[0][edge:]
    lines.append(_axis(data, edge, wide * count))
    notes = [line for note in _notes(data) for line in _remark(note, width, edge)]
    return [*lines, *_legend(data, edge, width, colored), *notes]


def stacked_rows(chart: Chart, width: int, colored: bool) -> list[Text]:
    """Return one stacked bar per named column, longest first where there are many, because names do
    not fit below columns.
    """
    data = chart_data.compute_columns(chart, len(chart.table))
    totals = data.heights.sum(axis=0).tolist()
    longest = sorted(sorted(range(len(totals)), key=lambda i: -totals[i])[:_MOST_BARS])
    if not longest:
        return [Text("nothing to draw", style="dim")]
    width = min(width, WIDEST)
    sizes = tuple(format_cell(totals[i], data.unit) for i in longest)
    named = layout_rows([TextColumn("", tuple(data.labels[i] for i in longest)), TextColumn("", sizes, right=True)], width // 2)
    edge = _edge(named)
    for (line, *_), i in zip(named, longest, strict=True):
        line.pad_right(edge - line.cell_len)
        room = round((width - edge) * min(1.0, totals[i] / data.axis_end))
        for part, cells in enumerate(split_cells(data.heights[:, i].tolist(), room)):
            line.append(part_glyph(part, colored) * cells, style=part_style(data.color_keys[part], colored))
    more = [Text(f"… and {len(totals) - len(longest):,} more", style="dim")] if len(totals) > len(longest) else []
    return [*(line for row in named for line in row), *more, *_legend(data, edge, width, colored)]


def bars(chart: Chart, width: int, colored: bool) -> list[Text]:
    """Return one horizontal bar per row; parts of a whole also show their share."""
    parts = chart_data.compute_parts(chart)
    drawn = parts[:_MOST_BARS]
    if not drawn:
        return [Text("nothing to draw", style="dim")]
    most = chart_data.max_bar_value(drawn)
    columns = [TextColumn("", tuple(p.name for p in drawn)), TextColumn("", tuple(p.label for p in drawn), right=True)]
    if chart.kind is ChartKind.PIE:
        columns.append(TextColumn("", tuple(f"{p.share * 100:.1f}%" for p in drawn), right=True))
    room = _bar_room(columns, width)
    named = layout_rows(columns, width - room - GAP)
    edge = _edge(named)
    for (line, *_), part in zip(named, drawn, strict=True):
        line.pad_right(edge - line.cell_len)
        if part.name != chart_data.OTHERS_NAME:
            line.append(_bar(part.value / most, room), style=part_style(part.color_key, colored))
    lines = [line for row in named for line in row]
    if len(parts) > len(drawn):
        lines.append(Text(f"… and {len(parts) - len(drawn):,} more", style="dim"))
    return lines


def _bar_room(columns: Sequence[TextColumn], width: int) -> int:
    """Return the width of bars beside their names: a third, or what names leave that then need one
    line each.
    """
    third, left = max(_LEAST_BAR, min(width, WIDEST) // 3), width - GAP - natural_width(columns)
    return min(third, left) if left >= _LEAST_BAR else third


def _pies(chart: Chart, width: int, colored: bool) -> list[Text]:
    """Return the parts of each whole (host, device), by the first of the available groupings."""
    lines: list[Text] = []
    wholes: set[str] = set()
    for chosen, part in chart.iter_choices():
        whole = chosen[0] if chart.select else ""
        if whole not in wholes:
            wholes.add(whole)
            labels = [part.table.field(name).label for name in chart.choice_columns()]
            heading = ", ".join(f"{label}: {clean(value)}" for label, value in zip(labels, chosen, strict=True))
            lines += [Text(line.plain, style="bold") for line in _remark(heading, width)] + bars(part, width, colored)
    return lines


def graph(chart: Chart, width: int, colored: bool) -> list[Text]:
    """Return an indented tree with its numbers next to it; the critical path is bold, the
    bottleneck red, and both are also named in text.
    """
    tree = chart_data.build_tree(chart)
    nodes = tree.nodes[:_MOST_NODES]
    if not nodes:
        return [Text("nothing to draw", style="dim")]
    marks = tuple(_ROLE_MARKS.get(n.role, "") for n in nodes)
    columns = [TextColumn("", marks, fixed=True)] if any(marks) else []
    for i, field in enumerate(tree.fields):
        columns.append(TextColumn(field.label, tuple(n.cells[i] for n in nodes), right=is_numeric_unit(field.unit.value)))
    names = next(
        (column for column in (_indent_names(nodes, 2), _indent_names(nodes, 1)) if fits_width((column, *columns), width)),
        _indent_names(nodes, 1),
    )
    lines, _ = layout_grid((names, *columns), width, [_ROLE_STYLES.get(n.role, "") for n in nodes])
    if len(tree.nodes) > len(nodes):
        lines.append(Text(f"… and {format_count(len(tree.nodes) - len(nodes), 'more node')}", style="dim"))
    return lines


def _indent_names(nodes: Sequence[chart_data.GraphNode], step: int) -> TextColumn:
    return TextColumn("", tuple(" " * step * min(n.depth, 12) + ("└ " if n.depth else "") + n.label for n in nodes))


def icicle(chart: Chart, width: int, colored: bool) -> list[Text]:
    """Return an icicle's tree as indented names with a bar each, without nodes too small to be
    visible.
    """
    cells = chart_data.layout_icicle(chart, _SMALLEST)[:_MOST_NODES]
    if not cells:
        return [Text("nothing to draw", style="dim")]
    columns = [
        TextColumn("", tuple("  " * min(c.depth, 12) + c.name for c in cells)),
        TextColumn("", tuple(c.label for c in cells), right=True),
        TextColumn("", tuple(f"{c.width * 100:.1f}%" for c in cells), right=True),
    ]
    if chart.state:
        columns.append(TextColumn("", tuple("" if c.color_key == palette.NO_NAME_KEY else c.state for c in cells)))
    room = _bar_room(columns, width)
    named = layout_rows(columns, width - room - GAP)
    edge = _edge(named)
    for (line, *_), cell in zip(named, cells, strict=True):
        line.pad_right(edge - line.cell_len)
        line.append(_bar(cell.width, room), style=part_style(cell.color_key, colored))
    return [line for row in named for line in row]


def scatter(chart: Chart, width: int, colored: bool) -> list[Text]:
    """Return what a terminal shows of points on two axes: the names of the lines."""
    from outpace.report.scatter import layout_scatter  # few pages have such a chart

    plot = layout_scatter(chart)
    if plot is None:
        return [Text("nothing to draw", style="dim")]
    lines = [line for name, _ in plot.lines for line in wrap_cells((name,), min(width, WIDEST), prose=True)[0]]
    counted = f"{format_count(len(plot.points), 'point')} in the HTML report: {plot.y_label} over {plot.x_label}"
    return [*(Text(line) for line in lines), *_remark(counted, width)]


def _edge(named: Sequence[Sequence[Text]]) -> int:
    """Return the position of the bars to the right of names and numbers, which may take several
    lines.
    """
    return max(line.cell_len for row in named for line in row) + 2


def is_numeric_unit(unit: str) -> bool:
    """Whether a column of this unit is aligned to the right."""
    return unit not in ("text", "bool")


def _column(parts: Sequence[float], top: float) -> list[tuple[int, str]]:
    """Return the cells of one column from the bottom up as (part, glyph); part -1 is empty."""
    ends, height = [], 0.0
    for value in parts:
        height += value / top * HEIGHT
        ends.append(height)
    cells = []
    for row in range(HEIGHT):
        middle = min(row + 0.5, (row + height) / 2)
        part = next((i for i, end in enumerate(ends) if end > middle), -1) if height > row else -1
        eighth = min(8, max(1, round((height - row) * 8))) if part >= 0 else 0
        cells.append((part, _EIGHTHS[eighth]))
    return cells


def _axis(data: chart_data.StackedColumns, edge: int, length: int) -> Text:
    first, last = data.labels[0], data.labels[-1]
    labels = first if len(data.labels) == 1 else first + " " * max(1, length - len(first) - len(last)) + last
    return Text("0".rjust(edge - 2) + "└ " + labels, style="dim")


def _legend(data: chart_data.StackedColumns, edge: int, width: int, colored: bool) -> list[Text]:
    lines = [Text(" " * edge)]
    for i, (name, key) in enumerate(zip(data.names, data.color_keys, strict=True)):
        if not data.heights[i].any():
            continue
        name = truncate(name, width - edge - 5)
        if lines[-1].cell_len + cell_len(name) + 2 > width:
            lines.append(Text(" " * edge))
        lines[-1].append(part_glyph(i, colored), part_style(key, colored)).append(f" {name}   ")
    return lines


def _notes(data: chart_data.StackedColumns) -> list[str]:
    notes = []
    if data.rows_per_column > 1:
        notes.append(f"each column is the mean of {format_count(data.rows_per_column, 'row')}")
    if data.maximum:
        label, height = data.maximum
        beyond = "▲ reaches" if data.clipped else "some rows reach"
        notes.append(f"{beyond} beyond the axis; the highest ({label}) is {format_cell(height, data.unit)}")
    return notes


def _bar(share: float, room: int) -> str:
    eighths = round(share * room * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "" if full or share <= 0 else "▏")


_DRAWERS: dict[ChartKind, Callable[[Chart, int, bool], list[Text]]] = {
    ChartKind.STACK_TOTAL: stacked_bar,
    ChartKind.STACK_SERIES: stacked_columns,
    ChartKind.PIE: bars,
    ChartKind.BARS: bars,
    ChartKind.GRAPH: graph,
    ChartKind.ICICLE: icicle,
    ChartKind.AREA: area,
    ChartKind.SCATTER: scatter,
}
