"""Rows and columns of text that fit a terminal: numbers to the right, names cut in the middle, what does not fit left out."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from outpace._dataclass import dataclass
from outpace.model.text import ELLIPSIS, shorten

GAP = 2
_MIN_FIRST = 22  # a name cut shorter than this says nothing any more
_MIN_OTHER = 10
_MAX_HEADER_LINES = 2


@dataclass(frozen=True)
class Column:
    """One column: its heading and cells; `right` aligns numbers, which are never cut; nor is a `fixed` column."""

    title: str
    cells: tuple[str, ...]
    right: bool = False
    fixed: bool = False


def grid(
    columns: Sequence[Column], width: int, styles: Sequence[str] = (), *, header: bool = True
) -> tuple[list[Text], list[str]]:
    """Lay out `columns` in `width` cells.

    `styles[i]` is the style of row i. Returns the lines, and the titles of the columns for which there was no room.
    """
    widths = _fit(columns, width)
    shown, dropped = columns[: len(widths)], [c.title for c in columns[len(widths) :]]
    lines = _header(shown, widths) if header else []
    for i in range(len(columns[0].cells) if columns else 0):
        line = _line([c.cells[i] for c in shown], shown, widths)
        lines.append(Text(line, style=styles[i] if styles else ""))
    return lines, dropped


def fit(text: str, width: int) -> str:
    """Cut `text` in the middle so that it takes at most `width` terminal cells."""
    if cell_len(text) <= width:
        return text
    short = shorten(text, width)
    if cell_len(short) <= width:
        return short
    # wide (CJK) characters take two cells each, so both halves are cut by cells
    head = (width - 1) // 2
    tail = set_cell_size(text[::-1][:width], width - 1 - head)[::-1]
    return set_cell_size(text[:width], head) + ELLIPSIS + tail


def _fit(columns: Sequence[Column], width: int) -> list[int]:
    natural = [_natural(c) for c in columns]
    least = [
        n if c.right or c.fixed else min(n, _MIN_OTHER if i else _MIN_FIRST)
        for i, (c, n) in enumerate(zip(columns, natural, strict=True))
    ]
    count = len(columns)
    while count > 1 and sum(least[:count]) + GAP * (count - 1) > width:
        count -= 1
    widths = least[:count]
    room = width - sum(widths) - GAP * (count - 1)
    for i in range(count):
        grow = max(0, min(natural[i] - widths[i], room))
        widths[i] += grow
        room -= grow
    return [min(w, width) for w in widths]


def _natural(column: Column) -> int:
    widest = max((cell_len(c) for c in column.cells), default=0)
    return max(widest, _header_width(column.title))


def _header_width(title: str) -> int:
    """Narrowest width at which a heading takes at most two lines."""
    longest = max((cell_len(w) for w in title.split()), default=0)
    return next(
        w for w in range(max(longest, 1), max(cell_len(title), 1) + 1) if len(textwrap.wrap(title, w)) <= _MAX_HEADER_LINES
    )


def _header(columns: Sequence[Column], widths: Sequence[int]) -> list[Text]:
    wrapped = [textwrap.wrap(c.title, w) for c, w in zip(columns, widths, strict=True)]
    height = max((len(w) for w in wrapped), default=0)
    padded = [[""] * (height - len(w)) + w for w in wrapped]
    return [Text(_line([p[i] for p in padded], columns, widths), style="dim") for i in range(height)]


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    out = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        text = fit(cell, width)
        pad = " " * (width - cell_len(text))
        out.append(pad + text if column.right else text + pad)
    return (" " * GAP).join(out).rstrip()
