# SPDX-License-Identifier: Apache-2.0
"""Answers the questions of `outpace mcp` from the public API and the tables of its reports. The
arguments of each method are those of the protocol's tool.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Sequence

from outpace import api
from outpace.compare import Side, build_report
from outpace.compare import compare as compared
from outpace.compare.verdict import MIN_EFFECT
from outpace.lint.context import Message
from outpace.lint.runner import find_files, lint_file, select_messages
from outpace.mcp import conversion, rows
from outpace.mcp.answers import (
    ColumnEntry,
    DryRunAnswer,
    LintAnswer,
    LintWarning,
    PageAnswer,
    RunEntry,
    RunsAnswer,
    TableAnswer,
    TableEntry,
    TablesAnswer,
    VerdictAnswer,
)
from outpace.mcp.folders import ServedFolders
from outpace.mcp.size_limit import shorten_text, truncate_answer
from outpace.model import UsageError
from outpace.model.text import format_suggestion
from outpace.store.logdir import read_run_info

DryRun = Callable[[str, Sequence[str]], DryRunAnswer]
"""Function that returns what a tuning of a script, with its arguments, would try."""

MOST_ROWS = 100
_OPEN = 4  # maximum number of open profiles


class Questions:
    """What may be asked of the runs and scripts in some folders. A question without an answer there
    raises an OutpaceError.
    """

    def __init__(self, folders: ServedFolders, dry_run: DryRun | None = None) -> None:
        self._folders, self._dry_run = folders, dry_run
        self._profile = functools.lru_cache(_OPEN)(self._open_folder)

    def runs(self, offset: int = 0, limit: int = 20) -> RunsAnswer:
        """List the runs, newest first. Other questions take a run's id."""
        runs, offset = self._folders.find_runs(), max(offset, 0)
        part = [
            RunEntry(
                id=run.id,
                name=shorten_text(run.info.run),
                folder=shorten_text(run.logdir) or ".",
                modified=_time(run.info.modified),
                hosts=run.info.hosts,
            )
            for run in runs[offset : offset + max(limit, 1)]
        ]
        more = "" if offset + len(part) >= len(runs) else _next("runs", offset + len(part))
        return truncate_answer(
            RunsAnswer(runs=part, total=len(runs), more=more), [part], lambda: _next("runs", offset + len(part))
        )

    def verdict(self, run: str) -> VerdictAnswer:
        """Say what bounds a run, how long its steady step is and what it is made of, and what to
        change first, with what each change saves.
        """
        return conversion.build_verdict(self._open(run).report())

    def tables(self, run: str, tool: str = "") -> TablesAnswer:
        """List the tables of a run (of one tool, where it is given), with their columns, for the
        question 'table'.
        """
        pages = self._open(run).pages([tool] if tool else None)
        conversion.require_available(pages if tool else ())
        entries = [
            TableEntry(
                name=f"{page.id}.{table.name}",
                title=shorten_text(table.title),
                rows=len(table),
                columns=[field.name for field in table.fields] if tool else [],
            )
            for page in pages
            for table in page.tables()
            if len(table) or tool
        ]
        more = "" if tool else "Give a tool, the first part of a table's name, to see its columns."
        return truncate_answer(
            TablesAnswer(tables=entries, more=more),
            [entries],
            lambda: "Give a tool, the first part of a table's name, to see the rest.",
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
    ) -> TableAnswer:
        """Rows of a table, named as 'TOOL.TABLE'. `where`: conditions that all hold, as 'self_ps >
        1e9', 'type = MatMul', 'name ~ dense'; `sort`: largest first by this column ('-column':
        smallest first); `columns`: only these. Times are picoseconds.
        """
        tool, _, name = table.partition(".")
        (page,) = self._open(run).pages([tool])
        by_name = {entry.name: entry for entry in page.tables()}
        if not len(by_name.get(name, ())):
            conversion.require_available([page])
        if name not in by_name:
            raise UsageError(
                f"There is no table {table!r}.{format_suggestion(name, by_name)} There are: {', '.join(f'{page.id}.{key}' for key in by_name)}."
            )
        selected = rows.select_rows(by_name[name], where, sort)
        names = [rows.require_column(selected, column) for column in dict.fromkeys(columns)] or [
            field.name for field in selected.fields
        ]
        offset = max(offset, 0)
        end = offset + min(max(limit, 1), MOST_ROWS)
        answer = TableAnswer(
            table=f"{page.id}.{name}",
            title=shorten_text(selected.title),
            columns=[
                ColumnEntry(name=column, unit=selected.field(column).unit.value, meaning=selected.field(column).meaning)
                for column in names
            ],
            rows=rows.format_cells(selected.take(slice(offset, end)), names),
            total=len(selected),
            more=_next("rows", end) if end < len(selected) else "",
        )
        return truncate_answer(
            answer, [answer.rows], lambda: f"{_next('rows', offset + len(answer.rows))} Or name fewer columns."
        )

    def explain(self, run: str, step: int | None = None, category: str = "", host: str = "") -> PageAnswer:
        """The events behind a step's time: of a step by its number (the slowest by default), and of
        one category such as 'kernel_launch'.
        """
        page = self._open(run).explain(step=step, category=category or None, host=host or None)
        return conversion.build_page_answer(page, "Give a category, such as the largest one, to see its events alone.")

    def compare(self, before: str, after: str) -> PageAnswer:
        """Say whether the second run is faster or slower than the first, which parts of a step make
        the difference, and whether it is the program or the machine.
        """
        sides = [Side.from_runs(name, self._open(name).run) for name in (before, after)]
        return conversion.build_page_answer(
            build_report(compared(sides[0], sides[1], MIN_EFFECT), None).pages[0],
            "The smaller changes are left out: 'outpace compare' shows all.",
        )

    def lint(self, path: str, select: str = "") -> LintAnswer:
        """What a training script's text shows without running it. `path`: a file or a folder below
        the served ones; `select`: rules, as in 'DS,LP101'.
        """
        rules = [rule.strip().upper() for rule in select.split(",") if rule.strip()]
        warnings = [
            LintWarning(
                rule=message.rule,
                level=message.level.value,
                path=self._folders.relative_path(file),
                line=message.line,
                finding=shorten_text(message.sentence),
                action=shorten_text(message.fix),
            )
            for file in find_files([self._folders.require_file(path)])
            if self._folders.contains(file)
            for message in select_messages(self._lint_file(file), rules, ())
        ]
        return truncate_answer(
            LintAnswer(messages=warnings, total=len(warnings)),
            [warnings],
            lambda: "Give one file, or rules to select, to see the rest.",
        )

    def tune_dry_run(self, script: str, arguments: Sequence[str] = ()) -> DryRunAnswer:
        """Say what a tuning of a script would try, and what not and why. The script is started for
        it, up to its first steps, and may write nothing.
        """
        if self._dry_run is None:
            raise UsageError("A dry run starts the script, which this server may not: 'outpace mcp --run-scripts' allows it.")
        answer = self._dry_run(self._folders.require_file(script), arguments)
        return truncate_answer(
            answer,
            [answer.would_try, answer.not_tried, answer.advice],
            lambda: "Further reasons are left out: 'outpace tune --dry-run SCRIPT' shows all.",
        )

    def _open(self, run: str) -> api.Profile:
        folder = self._folders.require_run(run)
        return self._profile(folder, read_run_info(folder).state)

    def _open_folder(self, folder: str, state: str) -> api.Profile:
        """Return the opened profile of a folder; `state` identifies the version of its files, and
        another one is opened anew.
        """
        with self._folders.confined():  # the file may be replaced by a link before it is read
            return api.open(folder)

    def _lint_file(self, file: str) -> list[Message]:
        with self._folders.confined():
            return lint_file(file)[0]


def _next(what: str, offset: int) -> str:
    return f"There are more {what}: ask again with offset={offset}."


def _time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat(timespec="seconds") if seconds else ""
