# SPDX-License-Identifier: Apache-2.0
"""`Page`: the result of one tool, in a form that every renderer can show.

A page is a title, the question that it answers, one sentence that answers it, and sections in
reading order. Renderers know the section types below and nothing about tools. Every chart is drawn
from a table, so there is always a table behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, fields, replace
from enum import Enum
from typing import TypeVar, cast

from outpace import _lazy
from outpace._dataclass import dataclass
from outpace.model.finding import Finding
from outpace.model.table import Table
from outpace.model.units import Unit


class ChartKind(str, Enum):
    """How a chart reads its table.

    STACK_TOTAL: one stacked bar (the average step); `x` names the parts, `series[0]` holds their
        sizes.
    STACK_SERIES: one stacked column per row (the step graph); `x` is the axis, each of `series` is
        one part.
    PIE: `x` names the parts of a whole, `series[0]` holds their sizes. It is drawn as bars, largest
        first and the rest last: lengths are compared more easily than angles, and there is room
        for the names.
    BARS: one horizontal bar per row; `x` names it, `series[0]` is its length.
    GRAPH: nodes of a tree; `x` is the node's id, `GraphColumns` are its series. All columns of the
        table are shown on hover.
    ICICLE: nodes of a tree as nested bars; `x` is the node's id, `IcicleColumns` are its series.
        Parents' rows precede their children's. Kinds of names have colours of their own; where
        `state` names a column of words, `colors` maps these words to colours, and a legend shows
        them.
    AREA: amounts that fill up over time, as stacked areas; `x` is a time that only rises, each row
        is an event and is valid until the next one; `AreaColumns` are its series.
    SCATTER: points, and lines between points, on two logarithmic axes; `x` is the horizontal one,
        `ScatterColumns` are its series.
    """

    STACK_TOTAL = "stack_total"
    STACK_SERIES = "stack_series"
    PIE = "pie"
    BARS = "bars"
    GRAPH = "graph"
    ICICLE = "icicle"
    AREA = "area"
    SCATTER = "scatter"


_Columns = TypeVar("_Columns")


@dataclass(frozen=True)
class _ColumnNames:
    """Names of the columns that one kind of chart reads: some names, then a tuple of names."""

    @property
    def series(self) -> tuple[str, ...]:
        """All names, as `Chart.series` holds them."""
        *names, more = (getattr(self, item.name) for item in fields(self))
        return (*names, *more)

    @classmethod
    def of(cls: Callable[..., _Columns], chart: Chart) -> _Columns:
        """Return the names of the columns that `chart` reads."""
        count = len(fields(cast("type[_ColumnNames]", cls))) - 1
        return cls(*chart.series[:count], chart.series[count:])


@dataclass(frozen=True)
class GraphColumns(_ColumnNames):
    """Names of the columns that a GRAPH chart reads.

    parent: id of the node above; a node whose parent has no row is a root.
    label: name of the node.
    role: "bottleneck", "critical" or "other".
    shown: further columns. Texts and counts are written into the node, other numbers are drawn as
        bars; the role was decided by the first of these numbers.
    """

    parent: str
    label: str
    role: str
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class IcicleColumns(_ColumnNames):
    """Names of the columns that an ICICLE chart reads.

    parent: id of the node above; a node whose parent has no row is a root.
    label: name of the node.
    size: size of the node, with the sizes of its children.
    shown: columns to show on hover.
    """

    parent: str
    label: str
    size: str
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class AreaColumns(_ColumnNames):
    """Names of the columns that an AREA chart reads.

    free: free space above the parts.
    step: name of the step in which the event lies.
    fragmentation: fraction of the free space that lies outside its largest piece.
    parts: amounts that are stacked.
    """

    free: str
    step: str
    fragmentation: str
    parts: tuple[str, ...]


@dataclass(frozen=True)
class ScatterColumns(_ColumnNames):
    """Names of the columns that a SCATTER chart reads. A row without a positive number on both axes
    is not drawn.

    y: vertical axis.
    size: amount that a point stands for, drawn as its area.
    label: name of the point.
    line: name of the line that the row is a place of; "" for a point.
    row: number of the point's row, from 1, in the table `Chart.detail`, to which a click leads.
    shown: columns to show on hover.
    """

    y: str
    size: str
    label: str
    line: str
    row: str
    shown: tuple[str, ...] = ()

    @property
    def drawn(self) -> tuple[str, ...]:
        """Columns whose numbers are drawn, but for the horizontal axis."""
        return self.y, self.size


@dataclass(frozen=True)
class Figure:
    """One number of a summary: its name, value and unit, and an optional remark (`± 1.2 ms`, `of
    step time`).
    """

    label: str
    value: object
    unit: Unit
    remark: str = ""


@dataclass(frozen=True)
class Figures:
    """Block of summary numbers.

    title: heading.
    items: the numbers.
    choice: where the numbers belong to one choice of a chart of the page, the chosen values, in the
        order of `Chart.choice_columns`.
    others: the same numbers for the other choices.
    """

    title: str
    items: tuple[Figure, ...]
    choice: tuple[str, ...] = ()
    others: tuple[Figures, ...] = ()


@dataclass(frozen=True)
class Link:
    """Number with the tables that explain it.

    tables: names of tables (see `Page`), best one first.
    why: what a reader finds there.
    """

    label: str
    value: object
    unit: Unit
    tables: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True)
class Links:
    """Numbers with the tables that explain them. A renderer links to the first of a number's tables
    that the report has.
    """

    title: str
    items: tuple[Link, ...]


@dataclass(frozen=True)
class Paragraph:
    """Short paragraph; `title` may be empty."""

    title: str
    body: str


@dataclass(frozen=True)
class Chart:
    """Picture of a table.

    kind: how the chart reads `table`; `ChartKind` says what `x` and `series` mean for each kind.
    colors: maps the name of a part to a category key.
    select: column whose values a reader chooses between. Only the rows with one value are drawn, at
        first those with the first value (PIE, STACK_SERIES, GRAPH and AREA).
    then: further such columns; each offers the values that the choices before it leave.
    detail: name of another table of the page, which lists the parts of the highest point (AREA), or
        whose rows the points are (SCATTER).
    state: column of words that decide the colours (ICICLE).
    aside: boolean column; HTML draws its nodes only when a reader asks for them, and no other
        node's size includes theirs (ICICLE).
    """

    title: str
    kind: ChartKind
    table: Table
    x: str
    series: tuple[str, ...]
    colors: dict[str, str] = field(default_factory=dict)
    remark: str = ""
    select: str = ""
    then: tuple[str, ...] = ()
    detail: str = ""
    state: str = ""
    aside: str = ""

    def choice_columns(self) -> tuple[str, ...]:
        """Return the names of the columns whose values a reader chooses between."""
        return tuple(name for name in (self.select, *self.then) if name)

    def iter_choices(self) -> Iterator[tuple[tuple[str, ...], Chart]]:
        """Yield (chosen values, chart of these rows) for every choice, in the order of the table;
        ((), the chart itself) where it has no choices.
        """
        names = self.choice_columns()
        values = list(zip(*(self.table[name].tolist() for name in names), strict=True)) if names else [()]
        for chosen in dict.fromkeys(values):
            rows = [i for i, value in enumerate(values) if value == chosen]
            yield chosen, replace(self, table=self.table.take(rows), select="", then=()) if names else self

    def initial_table(self) -> Table:
        """Return the rows that are drawn before a reader chooses anything."""
        table = self.table.take(~self.table[self.aside].astype(bool)) if self.aside else self.table
        for name in self.choice_columns():
            table = table.take(table[name] == table[name][0]) if len(table) else table
        return table


@dataclass(frozen=True)
class TableView:
    """Table to show.

    columns: columns to show first; empty: all.
    limit: maximum number of rows in a terminal.
    aside: boolean column; HTML shows its rows (such as idle time among ops) only when a reader asks
        for them.
    folded: whether a picture above shows the same, so that HTML folds the table and a terminal only
        names it.
    pick: columns (host or device) by whose values a reader of the HTML can select rows.
    by: columns (type of op) by whose values a reader of the HTML can group rows.
    sums: columns that the groups add up; the first orders the groups. All other additive columns
        are appended.
    """

    table: Table
    columns: tuple[str, ...] = ()
    limit: int = 10
    remark: str = ""
    aside: str = ""
    folded: bool = False
    pick: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.by:  # groups have the sums of all columns that add up
            fields = (*map(self.table.field, self.columns), *self.table.fields)
            sums = dict.fromkeys((*self.sums, *(f.name for f in fields if f.additive)))
            object.__setattr__(self, "sums", tuple(sums))


Section = Figures | Links | Paragraph | Chart | TableView


def select_nonempty(*sections: Chart | TableView) -> list[Section]:
    """Return the sections whose table has rows: what did not occur needs no heading."""
    return [section for section in sections if len(section.table)]


@dataclass(frozen=True)
class Unavailable:
    """Why a page has nothing to show for this profile (`reason`), and how to get it (`remedy`)."""

    reason: str
    remedy: str


@dataclass(frozen=True)
class ToolFailure:
    """Error that a tool raised: `error` in one line, and the traceback `trace` for developers."""

    error: str
    trace: str


@dataclass(frozen=True, repr=False)
class Page:
    """Result of one tool for one run.

    id, title: of the tool.
    question: what the page answers.
    headline: the answer in one sentence.
    verdict: what bounds the program, in two words and its share ("Input-bound 82%"); only of the
        page whose headline says it.
    sections: content in reading order.
    findings: the tool's advice.
    hidden_tables: tables that are exported and not shown.
    unavailable: set where the profile cannot answer the question.
    glance: picture of the answer, above the sections. The first screen of a report shows the one of
        the first page that has it, with its `key_figures`.
    evidence: sentences on the quality of the page's evidence.
    failure: set where the tool raised.
    key_figures: the few numbers that belong to `glance`.

    Evidence and links refer to a table of the page by its name and to a table of another page as
    `tool.table` (the stem of its CSV file). A page stores all references in the long form, so that
    they stay valid when a finding is moved. Raises ValueError for two tables of one name.
    """

    id: str
    title: str
    question: str
    headline: str = ""
    sections: tuple[Section, ...] = ()
    findings: tuple[Finding, ...] = ()
    hidden_tables: tuple[Table, ...] = ()
    unavailable: Unavailable | None = None
    glance: Chart | None = None
    evidence: tuple[str, ...] = ()
    failure: ToolFailure | None = None
    key_figures: tuple[Figure, ...] = ()
    verdict: str = ""

    def __post_init__(self) -> None:
        by_name: dict[str, Table] = {}
        for table in _all_tables(self.glance, self.sections, self.hidden_tables):
            if by_name.setdefault(table.name, table) is not table:
                raise ValueError(f"page {self.id} has two tables called {table.name!r}")

        def full(reference: str) -> str:
            return reference if reference not in by_name and "." in reference else f"{self.id}.{reference}"

        def cited(finding: Finding) -> Finding:
            evidence = tuple(replace(value, table=full(value.table)) for value in finding.evidence)
            return finding if evidence == finding.evidence else replace(finding, evidence=evidence)

        def led(section: Section) -> Section:
            if not isinstance(section, Links):
                return section
            return replace(section, items=tuple(replace(item, tables=tuple(map(full, item.tables))) for item in section.items))

        object.__setattr__(self, "findings", tuple(map(cited, self.findings)))
        object.__setattr__(self, "sections", tuple(map(led, self.sections)))

    def __repr__(self) -> str:
        headline = self.headline or (self.unavailable.reason if self.unavailable else "")
        return f"<outpace page {self.id!r}: {headline} Tables: {', '.join(t.name for t in self.tables())}>"

    def tables(self) -> Iterator[Table]:
        """Yield every table of the page once: those shown as rows, those behind charts, and those
        that are only exported.
        """
        return iter({table.name: table for table in _all_tables(self.glance, self.sections, self.hidden_tables)}.values())

    def table(self, name: str) -> Table:
        """Return the page's table called `name`. Raises KeyError where there is none."""
        for table in self.tables():
            if table.name == name:
                return table
        raise KeyError(f"page {self.id} has no table {name!r}")

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows for the page."""
        return _lazy.render_fragment(self)


def _all_tables(glance: Chart | None, sections: Sequence[Section], hidden: Sequence[Table]) -> Iterator[Table]:
    if glance is not None:
        yield glance.table
    yield from (s.table for s in sections if isinstance(s, (TableView, Chart)))
    yield from hidden
