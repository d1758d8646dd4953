# SPDX-License-Identifier: Apache-2.0
"""Rows and columns of text that fit a terminal: numbers are right-aligned, long names take several
lines, columns that do not fit are left out.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from outpace._dataclass import dataclass
from outpace.report.terminal_cells import MAX_LINES, is_prose, longest_word_width, max_line_count, truncate, wrap_cells

GAP = 2
_LEAST = 10  # minimum width of a name, cells; a narrower one would only show ends of lines
_MOST_LINES = 3  # lines of a row above which columns are left out instead
_MAX_HEADER_LINES = 2


@dataclass(frozen=True)
class TextColumn:
    """One column of a grid.

    title: heading
    cells: text of each row
    right: whether the column has numbers, which are right-aligned and never broken
    fixed: whether cells are never broken
    prose: whether the column contains sentences
    """

    title: str
    cells: tuple[str, ...]
    right: bool = False
    fixed: bool = False
    prose: bool = False


def layout_grid(
    columns: Sequence[TextColumn], width: int, styles: Sequence[str] = (), *, header: bool = True
) -> tuple[list[Text], list[str]]:
    """Lay out `columns` in `width` cells.

    `styles[i]` is the style of row i. Returns the lines, and the titles of the columns for which
    there was no room.
    """
    widths = _fit(columns, width)
    fitting, dropped = columns[: len(widths)], [c.title for c in columns[len(widths) :]]
    lines = _header(fitting, widths) if header else []
    return [*lines, *(line for row in _rows(fitting, widths, styles) for line in row)], dropped


def layout_rows(columns: Sequence[TextColumn], width: int) -> list[list[Text]]:
    """Return the grid without a heading, as a list of lines for each row."""
    widths = _fit(columns, width)
    return _rows(columns[: len(widths)], widths, ())


def natural_width(columns: Sequence[TextColumn]) -> int:
    """Return the width, in cells, in which every cell shows its whole text on one line."""
    return sum(map(_natural, columns)) + GAP * (len(columns) - 1)


def fits_width(columns: Sequence[TextColumn], width: int) -> bool:
    """Whether every cell shows its whole text on one line."""
    return natural_width(columns) <= width


def _rows(columns: Sequence[TextColumn], widths: Sequence[int], styles: Sequence[str]) -> list[list[Text]]:
    cells = [_cells(column, width) for column, width in zip(columns, widths, strict=True)]
    rows = []
    for i in range(len(columns[0].cells) if columns else 0):
        height = max(len(column[i]) for column in cells)
        style = styles[i] if styles else ""
        lines = ([column[i][at] if at < len(column[i]) else "" for column in cells] for at in range(height))
        rows.append([Text(_line(line, columns, widths), style=style) for line in lines])
    return rows


def _cells(column: TextColumn, width: int) -> list[list[str]]:
    if _rigid(column):
        return [[truncate(cell, width)] for cell in column.cells]
    return wrap_cells(column.cells, width, _is_prose(column))


def _is_prose(column: TextColumn) -> bool:
    return column.prose or is_prose(column.cells)


def _fit(columns: Sequence[TextColumn], width: int) -> list[int]:
    """Return the widths of as many columns as fit, from the left, chosen so that rows take few
    lines; the remaining width goes to the columns that need it most.
    """
    natural = [_natural(c) for c in columns]
    least = [_least(c, n) for c, n in zip(columns, natural, strict=True)]
    count = len(columns)
    while count > 1 and sum(least[:count]) + GAP * (count - 1) > width:
        count -= 1
    tried = [(count, _MOST_LINES)]
    # numbers may be left out where that gives lower rows, names may not
    while tried[-1][0] > 1 and _rigid(columns[tried[-1][0] - 1]):
        tried.append((tried[-1][0] - 1, _MOST_LINES))
    layouts = (
        _lowest(columns[:most], natural, least, width - GAP * (most - 1), lines) for most, lines in (*tried, (count, MAX_LINES))
    )
    widths = next((layout for layout in layouts if layout), least[:count])
    _widen(columns, widths, natural, width - GAP * (len(widths) - 1) - sum(widths))
    return [min(w, width) for w in widths]


def _rigid(column: TextColumn) -> bool:
    return column.right or column.fixed


def _least(column: TextColumn, natural: int) -> int:
    words = longest_word_width((*column.cells, *column.title.split()))
    return natural if _rigid(column) else min(natural, max(_LEAST, words))


def _lowest(columns: Sequence[TextColumn], natural: Sequence[int], least: Sequence[int], room: int, most: int) -> list[int]:
    """Return the widths with which rows take the fewest lines; empty where that is more than
    `most`.
    """
    for lines in range(1, most + 1):
        widths = [_narrowest(c, low, high, lines) for c, low, high in zip(columns, least, natural, strict=False)]
        if sum(widths) <= room:
            return widths
    return []


def _narrowest(column: TextColumn, low: int, high: int, lines: int) -> int:
    """Return the smallest width at which no cell takes more lines than allowed; sentences may take
    more lines than names.
    """
    if _rigid(column):
        return high
    prose = _is_prose(column)
    while low < high:
        middle = (low + high) // 2
        if max_line_count(column.cells, middle, prose) <= lines + _MOST_LINES * prose:
            high = middle
        else:
            low = middle + 1
    return low


def _widen(columns: Sequence[TextColumn], widths: list[int], natural: Sequence[int], room: int) -> None:
    """Distribute the remaining width: first to columns that then need fewer lines, in order of the
    width they need.
    """
    for lines in range(1, _MOST_LINES):
        costs = [_narrowest(columns[i], widths[i], natural[i], lines) - widths[i] for i in range(len(widths))]
        for i in sorted(range(len(widths)), key=costs.__getitem__):
            if costs[i] <= room:
                widths[i] += costs[i]
                room -= costs[i]
    for _ in range(room):
        need = max(range(len(widths)), key=lambda i: natural[i] / widths[i])
        widths[need] += natural[need] > widths[need]


def _natural(column: TextColumn) -> int:
    widest = max((cell_len(c) for c in column.cells), default=0)
    return max(widest, _header_width(column.title))


def _header_width(title: str) -> int:
    """Return the smallest width at which a heading takes at most two lines."""
    longest = max((cell_len(w) for w in title.split()), default=0)
    return next(
        w for w in range(max(longest, 1), max(cell_len(title), 1) + 1) if len(textwrap.wrap(title, w)) <= _MAX_HEADER_LINES
    )


def _header(columns: Sequence[TextColumn], widths: Sequence[int]) -> list[Text]:
    wrapped = [textwrap.wrap(c.title, w) for c, w in zip(columns, widths, strict=True)]
    height = max((len(w) for w in wrapped), default=0)
    padded = [[""] * (height - len(w)) + w for w in wrapped]
    return [Text(_line([p[i] for p in padded], columns, widths), style="dim") for i in range(height)]


def _line(cells: Sequence[str], columns: Sequence[TextColumn], widths: Sequence[int]) -> str:
    out = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        pad = " " * (width - cell_len(cell))
        out.append(pad + cell if column.right else cell + pad)
    return (" " * GAP).join(out).rstrip()
