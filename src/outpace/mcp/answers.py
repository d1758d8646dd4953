# SPDX-License-Identifier: Apache-2.0
"""The answers of `outpace mcp`: plain records whose schema the protocol's clients see. Every
answer is an `Answer` and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Cell = str | int | float | bool | None


@dataclass(kw_only=True)
class Answer:
    """abstained: the question cannot be answered, for the `reason`, a sentence. more: how to ask
    for what was left out, where some was.
    """

    abstained: bool = False
    reason: str = ""
    more: str = ""


@dataclass(kw_only=True)
class RunEntry:
    """id: what other questions take. folder: below which of the served folders. modified: ISO 8601,
    UTC; empty where unknown.
    """

    id: str
    name: str
    folder: str
    modified: str
    hosts: int


@dataclass(kw_only=True)
class RunsAnswer(Answer):
    """The runs there are, newest first, of `total`."""

    runs: list[RunEntry] = field(default_factory=list)
    total: int = 0


@dataclass(kw_only=True)
class AdvisedChange:
    """What to change: what is the case, what to do, what a step saves, where, how sure that is, and
    the measured values.
    """

    id: str
    finding: str
    action: str
    saves: str
    location: str
    host: str
    certainty: str
    evidence: list[str]


@dataclass(kw_only=True)
class StepPart:
    """A part of the steady step."""

    name: str
    time: str
    share: float


@dataclass(kw_only=True)
class VerdictAnswer(Answer):
    """What bounds a run, its steady step, and what to change first."""

    headline: str = ""
    warnings: list[str] = field(default_factory=list)
    figures: dict[str, str] = field(default_factory=dict)
    step: list[StepPart] = field(default_factory=list)
    changes: list[AdvisedChange] = field(default_factory=list)
    confidence: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class TableEntry:
    """A table that may be asked for: its name, title, rows, and columns."""

    name: str
    title: str
    rows: int
    columns: list[str]


@dataclass(kw_only=True)
class TablesAnswer(Answer):
    """The tables of a run."""

    tables: list[TableEntry] = field(default_factory=list)


@dataclass(kw_only=True)
class ColumnEntry:
    """A column: unit of its numbers (ps: picoseconds; fraction: of 1), and what they mean."""

    name: str
    unit: str
    meaning: str


@dataclass(kw_only=True)
class TableAnswer(Answer):
    """Rows of a table, `total` of which pass the filter."""

    table: str = ""
    title: str = ""
    columns: list[ColumnEntry] = field(default_factory=list)
    rows: list[list[Cell]] = field(default_factory=list)
    total: int = 0


@dataclass(kw_only=True)
class TablePreview:
    """The first rows of a table of a page."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]


@dataclass(kw_only=True)
class PageAnswer(Answer):
    """A page: its sentence, its numbers, and its tables."""

    headline: str = ""
    figures: dict[str, str] = field(default_factory=dict)
    tables: list[TablePreview] = field(default_factory=list)


@dataclass(kw_only=True)
class LintWarning:
    """One rule at one place of a script."""

    rule: str
    level: str
    path: str
    line: int
    finding: str
    action: str


@dataclass(kw_only=True)
class LintAnswer(Answer):
    """What a script's text shows by itself, of `total` messages."""

    messages: list[LintWarning] = field(default_factory=list)
    total: int = 0


@dataclass(kw_only=True)
class DryRunAnswer(Answer):
    """What a tuning of a script would race, and what not, with the reasons."""

    would_try: list[str] = field(default_factory=list)
    not_tried: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
