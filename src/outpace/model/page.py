"""`Page`: what a tool says, in a form that every renderer can show.

A page is a title, the question that it answers, one sentence that answers it, and sections in
reading order. Renderers know the section types below and nothing about tools. Every chart is drawn
from a table, so there is always a table behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from enum import Enum

from outpace import _lazy
from outpace._dataclass import dataclass
from outpace.model.finding import Finding
from outpace.model.table import Table
from outpace.model.units import Unit


class ChartKind(str, Enum):
    """How a chart reads its table.

    STACK_TOTAL   one stacked bar; `x` names the parts, `series[0]` holds their sizes (the average
    step). STACK_SERIES  one stacked column per row; `x` is the axis, each of `series` is one part
    (the step graph). PIE           `x` names the parts of a whole, `series[0]` holds their sizes.
    Drawn as bars, largest first and the rest last: lengths
                  are compared more easily than angles, and names have room beside them.
    BARS          one horizontal bar per row; `x` names it, `series[0]` is its length. GRAPH
    nodes of a tree; `x` is the node's id, `series` = (parent id, label, role, what each node says
    of itself...); the role is
                  one of "bottleneck", "critical", "other". Texts and counts are written into the node, other numbers drawn as bars, the
                  first of them being the one that the role was decided by. All columns are shown on hover.
    ICICLE        nodes of a tree as nested bars; `x` is the node's id, `series` = (parent id,
    label, size, what is shown on hover...); a
                  node's size holds those of its children. Rows come parents first. Kinds of names have colours of their own, or, where
                  `state` names a column of words, these words have those that `colors` gives them, and stand in a legend.
    AREA          what fills up over time, as stacked areas: `x` is a time that only rises, each row
    is an event and holds until the next;
                  `series` = (what is free above the parts, name of the step that the event belongs to, fragmentation, parts...).
    """

    STACK_TOTAL = "stack_total"
    STACK_SERIES = "stack_series"
    PIE = "pie"
    BARS = "bars"
    GRAPH = "graph"
    ICICLE = "icicle"
    AREA = "area"


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
    """A block of summary numbers. Where they are those of a choice that a chart of the page offers,
    `choice` are its values, in the order of `Chart.choice_columns`, and `others` the same numbers
    for the other ones.
    """

    title: str
    items: tuple[Figure, ...]
    choice: tuple[str, ...] = ()
    others: tuple[Figures, ...] = ()


@dataclass(frozen=True)
class Link:
    """A number and where to read on: `tables` names tables (see `Page`), the best one first; `why`
    says what is found there.
    """

    label: str
    value: object
    unit: Unit
    tables: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True)
class Links:
    """Numbers with the tables behind them. A renderer leads to the first of a link's tables that
    the report holds.
    """

    title: str
    items: tuple[Link, ...]


@dataclass(frozen=True)
class Paragraph:
    """A short paragraph; `title` may be empty."""

    title: str
    body: str


@dataclass(frozen=True)
class Chart:
    """A picture of `table`; see `ChartKind` for what `x` and `series` mean. `colors` maps a part's
    name to a category key.

    `select` names a column whose values a reader chooses between: the rows with one value are drawn
    at a time, those with the first value to begin with (PIE, STACK_SERIES, GRAPH and AREA). `then`
    names further such columns: of each, a reader chooses among what the choices before it leave.
    `detail` names another table of the page: what the highest point of an AREA is made of. `aside`
    names a column of yes and no: its nodes are drawn in HTML only when a reader asks for them, and
    no size of another node holds theirs (ICICLE).
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
        """Columns whose values a reader chooses between."""
        return tuple(name for name in (self.select, *self.then) if name)

    def iter_choices(self) -> Iterator[tuple[tuple[str, ...], Chart]]:
        """The charts that a reader may choose, in the order of the table, each with the values
        chosen; without choices the chart itself.
        """
        names = self.choice_columns()
        values = list(zip(*(self.table[name].tolist() for name in names), strict=True)) if names else [()]
        for chosen in dict.fromkeys(values):
            rows = [i for i, own in enumerate(values) if own == chosen]
            yield chosen, replace(self, table=self.table.take(rows), select="", then=()) if names else self

    def initial_table(self) -> Table:
        """The rows that are drawn to begin with."""
        table = self.table.take(~self.table[self.aside].astype(bool)) if self.aside else self.table
        for name in self.choice_columns():
            table = table.take(table[name] == table[name][0]) if len(table) else table
        return table


@dataclass(frozen=True)
class TableView:
    """A table to show: `columns` are the ones worth showing first (empty: all), `limit` what a
    terminal prints.

    `aside` names a column of yes and no: its rows are shown in HTML only when a reader asks for
    them (idle time among ops). `folded`: a picture above says the same, so that the table waits
    behind a fold, and a terminal only names it. In HTML a reader may `pick` rows by the value of a
    column (host or device), and have the columns `sums` added up `by` the values of another one
    (type of op): those that the page names here, the first of which orders the groups, and behind
    them all others that are additive.
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
        if self.by:
            shown = (*map(self.table.field, self.columns), *self.table.fields)
            self.__dict__.update(sums=tuple(dict.fromkeys((*self.sums, *(f.name for f in shown if f.additive)))))


Section = Figures | Links | Paragraph | Chart | TableView


def select_nonempty(*sections: Chart | TableView) -> list[Section]:
    """Those of the sections whose table has rows: what was not met needs no heading."""
    return [section for section in sections if len(section.table)]


@dataclass(frozen=True)
class Unavailable:
    """Why a page has nothing to show in this profile, and how to get it."""

    reason: str
    remedy: str


@dataclass(frozen=True)
class ToolFailure:
    """A tool that raised: `error` in a line, and the `trace` that whoever mends it needs."""

    error: str
    trace: str


@dataclass(frozen=True, repr=False)
class Page:
    """What one tool says of one run.

    `glance` is the picture of the answer, above the sections, and `key_figures` are the few numbers
    that go with it; the first screen of a report shows those of the first page that has them.
    `evidence` says in sentences how good the evidence of the page is. `hidden_tables` are exported
    and not shown. `unavailable`: the profile cannot answer the question. `failure`: the tool
    raised.

    Evidence and links name a table of the page itself by its name and one of another page as
    `tool.table` (the stem of its CSV file). A page holds them all in the long form, so that they
    mean the same wherever a finding goes. Two tables of one name are an error.
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

    def __post_init__(self) -> None:
        own: dict[str, Table] = {}
        for table in self._all_tables():
            if own.setdefault(table.name, table) is not table:
                raise ValueError(f"page {self.id} has two tables called {table.name!r}")

        def full(reference: str) -> str:
            return reference if reference not in own and "." in reference else f"{self.id}.{reference}"

        def cited(finding: Finding) -> Finding:
            evidence = tuple(replace(each, table=full(each.table)) for each in finding.evidence)
            return finding if evidence == finding.evidence else replace(finding, evidence=evidence)

        def led(section: Section) -> Section:
            if not isinstance(section, Links):
                return section
            return replace(section, items=tuple(replace(item, tables=tuple(map(full, item.tables))) for item in section.items))

        self.__dict__.update(findings=tuple(map(cited, self.findings)), sections=tuple(map(led, self.sections)))

    def __repr__(self) -> str:
        said = self.headline or (self.unavailable.reason if self.unavailable else "")
        return f"<outpace page {self.id!r}: {said} Tables: {', '.join(t.name for t in self.tables())}>"

    def tables(self) -> Iterator[Table]:
        """Every table of the page once, by name: shown as rows, behind a chart, or only
        exported.
        """
        return iter({table.name: table for table in self._all_tables()}.values())

    def table(self, name: str) -> Table:
        """The page's table called `name`."""
        for table in self.tables():
            if table.name == name:
                return table
        raise KeyError(f"page {self.id} has no table {name!r}")

    def _all_tables(self) -> Iterator[Table]:
        if self.glance is not None:
            yield self.glance.table
        yield from (s.table for s in self.sections if isinstance(s, (TableView, Chart)))
        yield from self.hidden_tables

    def _repr_html_(self) -> str:
        """A notebook shows the page itself."""
        return _lazy.render_fragment(self)
