# SPDX-License-Identifier: Apache-2.0
"""Data of charts, extracted from their tables once for all renderers: parts, columns, bars and tree
nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.model import AreaColumns, Chart, ChartKind, Field, GraphColumns, IcicleColumns, Unit, median
from outpace.model.text import clean, format_cell
from outpace.report import palette

OTHERS_NAME = "all others"
"""Name of the part that combines all parts too small to be shown."""

NAMELESS = "(no name)"
_NO_NAME = compile_lazily(r"\(.*\)$")  # label of an unnamed item, such as "(no scope)"
# multiple of the median from which a column is clipped, so that one compiling first step does not
# flatten all others
_TALL = 4.0


@dataclass(frozen=True)
class ChartPart:
    """One part of a whole: a segment of a stacked bar, a slice of a pie, or a bar.

    name: label of the part
    value: size in the unit of its column
    share: fraction of the sum of all parts
    label: the value as text
    color_key: colour key of the palette
    """

    name: str
    value: float
    share: float
    label: str
    color_key: str


@dataclass(frozen=True)
class StackedColumns:
    """Stacked columns: `heights[i, j]` is part `i` of column `j`.

    A column stands for one row, or for the mean of `rows_per_column` neighbouring rows where there
    are more rows than room. `axis_end` is the end of the axis. Where single rows reach beyond it,
    `maximum` is the label and height of the highest one, and `clipped` are the columns that do.
    """

    color_keys: tuple[str, ...]
    names: tuple[str, ...]
    labels: tuple[str, ...]
    heights: npt.NDArray[np.float64]
    unit: Unit
    rows_per_column: int
    axis_end: float
    clipped: tuple[int, ...]
    maximum: tuple[str, float] | None


@dataclass(frozen=True)
class GraphNode:
    """One node of a tree, in reading order (parents first). `cells` are the texts of its further
    columns, in the order of `ChartTree.fields`.
    """

    depth: int
    label: str
    role: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class ChartTree:
    """The nodes of a GRAPH chart, and the further columns that each node has."""

    fields: tuple[Field, ...]
    nodes: tuple[GraphNode, ...]


def compute_parts(chart: Chart) -> tuple[ChartPart, ...]:
    """Return the parts of a STACK_TOTAL, PIE or BARS chart; missing and negative sizes count as
    zero.

    The parts are in table order; those of a PIE by decreasing size, with "all others" last and
    grey. Bars have one colour unless the chart defines others: each bar has its name next to it, so
    colours would add no information.
    """
    unit = chart.table.field(chart.series[0]).unit
    values = sizes(chart.table[chart.series[0]]).tolist()
    named = [(clean(name) or NAMELESS, value) for name, value in zip(chart.table[chart.x].tolist(), values, strict=True)]
    pairs = sorted(named, key=lambda pair: (pair[0] == OTHERS_NAME, -pair[1])) if chart.kind is ChartKind.PIE else named
    stacked = chart.kind is ChartKind.STACK_TOTAL
    total = sum(values)
    parts = []
    for i, (name, value) in enumerate(pairs):
        key = palette.OTHERS_KEY if name == OTHERS_NAME else palette.color_key(name, i if stacked else 0, chart.colors)
        parts.append(ChartPart(name, value, value / total if total else 0.0, format_cell(value, unit), key))
    return tuple(parts)


def max_bar_value(parts: Sequence[ChartPart]) -> float:
    """Return the value of the longest bar. The part "all others" is ignored and has no bar, because
    it would shrink the bars of the named parts to points.
    """
    return max((p.value for p in parts if p.name != OTHERS_NAME), default=0.0) or 1.0


def compute_columns(chart: Chart, limit: int) -> StackedColumns:
    """Return the stacked columns of a STACK_SERIES chart, at most `limit` of them (neighbours are
    averaged).
    """
    fields = [chart.table.field(name) for name in chart.series]
    table = chart.initial_table()
    heights = np.array([sizes(table[f.name]) for f in fields]).reshape(len(fields), len(table))
    totals = heights.sum(axis=0)
    top = compute_axis_end(totals)
    beyond = totals.size > 0 and totals.max() > top
    per_column = max(1, math.ceil(len(table) / max(limit, 1)))
    starts = np.arange(0, heights.shape[1], per_column)
    if per_column > 1:
        counts = np.diff(np.append(starts, heights.shape[1]))
        heights = np.add.reduceat(heights, starts, axis=1) / counts
    return StackedColumns(
        color_keys=tuple(series_key(chart, f, i) for i, f in enumerate(fields)),
        names=tuple(clean(f.label) for f in fields),
        labels=tuple(clean(v) for v in table[chart.x][starts].tolist()),
        heights=heights,
        unit=fields[0].unit if fields else Unit.NONE,
        rows_per_column=per_column,
        axis_end=top,
        clipped=tuple(int(j) for j in np.flatnonzero(heights.sum(axis=0) > top * (1 + 1e-9))),
        maximum=(clean(table[chart.x][int(totals.argmax())]), float(totals.max())) if beyond else None,
    )


def compute_area_columns(chart: Chart, column_count: int) -> StackedColumns:
    """Return an AREA chart as columns: `column_count` equal slices of time, each with the state at
    the moment of its highest use.
    """
    table, fields = chart.initial_table(), [chart.table.field(name) for name in AreaColumns.of(chart).parts]
    heights = np.array([sizes(table[f.name]) for f in fields]).reshape(len(fields), len(table))
    labels: tuple[str, ...] = ()
    if len(table):
        time, used = table[chart.x].astype(np.int64), heights.sum(axis=0)
        width = int(time[-1] - time[0]) // column_count + 1
        slot = (time - time[0]) // width
        order = np.lexsort((used, slot))
        highest = order[np.flatnonzero(np.diff(slot[order], append=column_count))]
        begins = time[0] + np.arange(column_count) * width
        row = np.maximum(np.searchsorted(time, begins) - 1, 0)  # a slice begins with the state after the last event before it
        higher = highest[used[highest] > used[row[slot[highest]]]]
        row[slot[higher]] = higher
        heights = heights[:, row]
        labels = tuple(format_cell(begin, chart.table.field(chart.x).unit) for begin in begins.tolist())
    totals = heights.sum(axis=0)
    return StackedColumns(
        color_keys=tuple(series_key(chart, f, i) for i, f in enumerate(fields)),
        names=tuple(clean(f.label) for f in fields),
        labels=labels,
        heights=heights,
        unit=fields[0].unit if fields else Unit.NONE,
        rows_per_column=1,
        axis_end=float(totals.max()) if totals.size and totals.max() > 0 else 1.0,
        clipped=(),
        maximum=None,
    )


@dataclass(frozen=True)
class IcicleNode:
    """One node of an icicle.

    depth: level in the tree, 0 for a root
    left, width: position and width, as shares of the whole
    name, label: name of the node, and its size as text
    color_key: colour key of the palette
    path: names from the root down to the node, separated by "/"
    state: word for the node's state; empty without states
    """

    depth: int
    left: float
    width: float
    name: str
    label: str
    color_key: str
    path: str
    state: str = ""


def find_states(chart: Chart) -> tuple[tuple[str, str], ...]:
    """Return (colour key, word) of each state that nodes of an ICICLE chart have, in the order of
    the chart's colours.
    """
    met = set(chart.table[chart.state].tolist()) if chart.state else ()
    return tuple((palette.color_key(word, 0, chart.colors), clean(word)) for word in chart.colors if word in met)


def layout_icicle(chart: Chart, min_width: float) -> tuple[IcicleNode, ...]:
    """Return the nodes of an ICICLE chart in reading order, without nodes narrower than `min_width`
    (a share of the whole) and their descendants.
    """
    columns, table = IcicleColumns.of(chart), chart.initial_table()
    unit = table.field(columns.size).unit
    size = sizes(table[columns.size]).tolist()
    parents, ids = table[columns.parent].tolist(), table[chart.x].tolist()
    words = table[chart.state].tolist() if chart.state else [""] * len(ids)
    id_set = set(ids)
    whole = sum(s for s, p in zip(size, parents, strict=True) if p not in id_set)
    cells: dict[object, IcicleNode] = {}
    used: dict[object, float] = {}
    branch = 0
    for node, parent, name, value, word in zip(ids, parents, table[columns.label].tolist(), size, words, strict=True):
        above = cells.get(parent)
        if whole <= 0 or node in cells or (above is None and parent in id_set):
            continue
        width = value / whole
        left = (above.left if above else 0.0) + used.get(parent if above else None, 0.0)
        used[parent if above else None] = used.get(parent if above else None, 0.0) + width
        if width < min_width:
            continue
        name = clean(name)
        key = palette.color_key(word, 0, chart.colors) if chart.state else _key(name, above, branch)
        branch += above is None
        path = f"{above.path}/{name}" if above else name
        cells[node] = IcicleNode(
            above.depth + 1 if above else 0, left, width, name, format_cell(value, unit), key, path, clean(word)
        )
    return tuple(cells.values())


def _key(name: str, above: IcicleNode | None, branch: int) -> str:
    """Return the colour key of a node without a state: the key of its branch."""
    return palette.NO_NAME_KEY if _NO_NAME.match(name) else above.color_key if above else palette.color_key("", branch, {})


def compute_axis_end(totals: npt.NDArray[np.float64]) -> float:
    """Return the end of the axis for columns of these heights; columns far above the median extend
    beyond it.
    """
    if not totals.size or not totals.max() > 0:
        return 1.0
    limit = _TALL * median(totals)
    if limit <= 0 or totals.max() <= limit:
        return float(totals.max())
    return float(totals[totals <= limit].max()) * 1.15


def build_tree(chart: Chart) -> ChartTree:
    """Return the nodes of a GRAPH chart in reading order. A node whose parent is unknown, or that
    is only reachable through a cycle, is a root.
    """
    columns = GraphColumns.of(chart)
    used = {chart.x, columns.parent, columns.label, columns.role, *chart.choice_columns()}
    names = columns.shown or [f.name for f in chart.table.fields if f.name not in used]
    extra = tuple(chart.table.field(name) for name in names)
    rows = list(chart.initial_table().records())
    ids = {row[chart.x]: i for i, row in enumerate(rows)}
    children: dict[int, list[int]] = {}
    roots: list[int] = []
    for i, row in enumerate(rows):
        parent = ids.get(row[columns.parent])
        (roots if parent is None or parent == i else children.setdefault(parent, [])).append(i)
    nodes = []
    for depth, i in _walk(roots, children, len(rows)):
        cells = tuple(format_cell(rows[i][f.name], f.unit) for f in extra)
        nodes.append(GraphNode(depth, clean(rows[i][columns.label]), str(rows[i][columns.role]), cells))
    return ChartTree(extra, tuple(nodes))


def _walk(roots: Sequence[int], children: dict[int, list[int]], count: int) -> Iterator[tuple[int, int]]:
    """Yield (depth, row) of every row once, without recursion: a hostile profile may nest deeper
    than the stack.
    """
    visited: set[int] = set()
    for start in (*roots, *range(count)):
        stack = [(0, start)]
        while stack:
            depth, row = stack.pop()
            if row in visited:
                continue
            visited.add(row)
            yield depth, row
            stack.extend((depth + 1, child) for child in reversed(children.get(row, ())))


def series_key(chart: Chart, field: Field, position: int) -> str:
    """Return the colour key of one series column; the chart may map the column's name or its
    heading.
    """
    named = field.label if field.label in chart.colors else field.name
    return palette.color_key(named, position, chart.colors)


def sizes(column: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return a column as sizes that can be drawn: missing, infinite and negative values become
    zero.
    """
    values = np.array([math.nan if v is None else v for v in column.tolist()], dtype=np.float64)
    return np.where(np.isfinite(values) & (values > 0), values, 0.0)
