"""The questions, and what answers them: the facade and the tables of its reports. Each method's arguments are those of the protocol's tool."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Sequence

from outpace import api
from outpace.compare import Side, report_of
from outpace.compare import compare as compared
from outpace.compare.verdict import EFFECT
from outpace.lint.program import Message
from outpace.lint.run import files_in, lint_file, selected
from outpace.mcp import rows, told
from outpace.mcp.fit import cut, fitted
from outpace.mcp.folders import Folders
from outpace.mcp.shapes import (
    Column,
    Linted,
    Named,
    Planned,
    Run,
    Runs,
    Table,
    Tables,
    Told,
    Verdict,
    Warned,
)
from outpace.model import UsageError
from outpace.model.text import meant
from outpace.store.logdir import run_at

DryRun = Callable[[str, Sequence[str]], Planned]
"""Says what a tuning of a script, with its arguments, would try."""

MOST_ROWS = 100
_OPEN = 4  # profiles that are kept open


class Questions:
    """What may be asked of the runs and scripts in some folders. A question without an answer there raises an OutpaceError."""

    def __init__(self, folders: Folders, dry_run: DryRun | None = None) -> None:
        self._folders, self._dry_run = folders, dry_run
        self._profile = functools.lru_cache(_OPEN)(self._opened)

    def runs(self, offset: int = 0, limit: int = 20) -> Runs:
        """List the runs, newest first. Other questions take a run's id."""
        every, offset = self._folders.runs(), max(offset, 0)
        part = [
            Run(
                id=each.id,
                name=cut(each.info.run),
                folder=cut(each.place) or ".",
                modified=_time(each.info.modified),
                hosts=each.info.hosts,
            )
            for each in every[offset : offset + max(limit, 1)]
        ]
        more = "" if offset + len(part) >= len(every) else _next("runs", offset + len(part))
        return fitted(Runs(runs=part, total=len(every), more=more), [part], lambda: _next("runs", offset + len(part)))

    def verdict(self, run: str) -> Verdict:
        """Say what bounds a run, how long its steady step is and what it is made of, and what to change first, with what each change saves."""
        return told.verdict(self._open(run).report())

    def tables(self, run: str, tool: str = "") -> Tables:
        """List the tables of a run (of one tool, where it is given), with their columns, for the question 'table'."""
        pages = self._open(run).pages([tool] if tool else None)
        told.require(pages if tool else ())
        found = [
            Named(
                name=f"{page.id}.{table.name}",
                title=cut(table.title),
                rows=len(table),
                columns=[f.name for f in table.fields] if tool else [],
            )
            for page in pages
            for table in page.tables()
            if len(table) or tool
        ]
        more = "" if tool else "Give a tool, the first part of a table's name, to see its columns."
        return fitted(
            Tables(tables=found, more=more), [found], lambda: "Give a tool, the first part of a table's name, to see the rest."
        )

    def table(
        self,
        run: str,
        table: str,
        where: Sequence[str] = (),
        sort: str = "",
        columns: Sequence[str] = (),
        offset: int = 0,
        limit: int = 10,
    ) -> Table:
        """Rows of a table, named as 'TOOL.TABLE'. `where`: conditions that all hold, as 'self_ps > 1e9', 'type = MatMul', 'name ~ dense';
        `sort`: largest first by this column ('-column': smallest first); `columns`: only these. Times are picoseconds."""
        tool, _, name = table.partition(".")
        (page,) = self._open(run).pages([tool])
        known = {each.name: each for each in page.tables()}
        if not len(known.get(name, ())):
            told.require([page])
        if name not in known:
            raise UsageError(
                f"There is no table {table!r}.{meant(name, known)} There are: {', '.join(f'{page.id}.{each}' for each in known)}."
            )
        found = rows.chosen(known[name], where, sort)
        wanted = [rows.column(found, each) for each in dict.fromkeys(columns)] or [field.name for field in found.fields]
        offset = max(offset, 0)
        end = offset + min(max(limit, 1), MOST_ROWS)
        answer = Table(
            table=f"{page.id}.{name}",
            title=cut(found.title),
            columns=[
                Column(name=each, unit=found.field(each).unit.value, meaning=found.field(each).meaning) for each in wanted
            ],
            rows=rows.cells(found.take(slice(offset, end)), wanted),
            total=len(found),
            more=_next("rows", end) if end < len(found) else "",
        )
        return fitted(answer, [answer.rows], lambda: f"{_next('rows', offset + len(answer.rows))} Or name fewer columns.")

    def explain(self, run: str, step: int | None = None, category: str = "", host: str = "") -> Told:
        """The events behind a step's time: of a step by its number (the slowest by default), and of one category such as 'kernel_launch'."""
        page = self._open(run).explain(step=step, category=category or None, host=host or None)
        return told.page_of(page, "Give a category, such as the largest one, to see its events alone.")

    def compare(self, before: str, after: str) -> Told:
        """Say whether the second run is faster or slower than the first, which parts of a step make the difference, and whether it is the
        program or the machine."""
        sides = [Side.of(name, self._open(name).run) for name in (before, after)]
        return told.page_of(
            report_of(compared(sides[0], sides[1], EFFECT), None).pages[0],
            "The smaller changes are left out: 'outpace compare' shows all.",
        )

    def lint(self, path: str, select: str = "") -> Linted:
        """What a training script's text shows without running it. `path`: a file or a folder below the served ones; `select`: rules, as in
        'DS,LP101'."""
        wanted = [rule.strip().upper() for rule in select.split(",") if rule.strip()]
        found = [
            Warned(
                rule=m.rule,
                level=m.level.value,
                path=self._folders.shown(file),
                line=m.line,
                finding=cut(m.sentence),
                action=cut(m.fix),
            )
            for file in files_in([self._folders.file(path)])
            if self._folders.holds(file)
            for m in selected(self._linted(file), wanted, ())
        ]
        return fitted(
            Linted(messages=found, total=len(found)), [found], lambda: "Give one file, or rules to select, to see the rest."
        )

    def tune_dry_run(self, script: str, arguments: Sequence[str] = ()) -> Planned:
        """Say what a tuning of a script would try, and what not and why. The script is started for it, up to its first steps, and may write
        nothing."""
        if self._dry_run is None:
            raise UsageError("A dry run starts the script, which this server may not: 'outpace mcp --run-scripts' allows it.")
        answer = self._dry_run(self._folders.file(script), arguments)
        return fitted(
            answer,
            [answer.would_try, answer.not_tried, answer.advice],
            lambda: "Further reasons are left out: 'outpace tune --dry-run SCRIPT' shows all.",
        )

    def _open(self, run: str) -> api.Profile:
        folder = self._folders.run(run)
        return self._profile(folder, run_at(folder).state)

    def _opened(self, folder: str, state: str) -> api.Profile:
        """The profile in a folder, whose files are in a state: another one is another profile."""
        with self._folders.confined():  # a link may take its place before it is read
            return api.open(folder)

    def _linted(self, file: str) -> list[Message]:
        with self._folders.confined():
            return lint_file(file)[0]


def _next(what: str, offset: int) -> str:
    return f"There are more {what}: ask again with offset={offset}."


def _time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat(timespec="seconds") if seconds else ""
