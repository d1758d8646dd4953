# SPDX-License-Identifier: Apache-2.0
"""`outpace lint`: checks a training script for performance problems without running it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outpace.cli.console import print_note
from outpace.cli.options import Color, Json, Width
from outpace.model.units import format_count

if TYPE_CHECKING:
    from rich.console import Console

    from outpace.lint import Message
    from outpace.lint.runner import CheckedFile
    from outpace.store.record import CaptureRecord

_STYLES = {"warning": "bold yellow", "note": "cyan"}


class OutputFormat(str, Enum):
    """Output format of the messages."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def lint(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Python files, or folders with all Python files below them.")
    ],
    record: Annotated[
        str,
        typer.Option(
            metavar="LOGDIR", help="Use the newest capture record there; `auto` looks in outpace-logs, `none` nowhere."
        ),
    ] = "none",
    select: Annotated[
        list[str] | None, typer.Option(metavar="RULES", help="Only these rules (`DS102,LP`), by id or its start.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(metavar="RULES", help="All but these rules.")] = None,
    form: Annotated[
        OutputFormat, typer.Option("--format", help="SARIF is what code hosts and editors read; --json is short for json.")
    ] = OutputFormat.TEXT,
    json: Json = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit code 0 also when there are warnings.")] = False,
    width: Width = None,
    color: Color = None,
) -> None:
    """Check training scripts for what slows TensorFlow and JAX down, without running them.

    The files are only read. Warnings name what costs time or does not do what it seems to do; notes
    name what TensorFlow may already do by itself. Exit code: 0 without warnings, 1 with warnings (0
    with --exit-zero), 2 when a file cannot be parsed (docs/exit-codes.md).
    """
    from outpace.lint import lint_file
    from outpace.lint.runner import CheckedFile, find_files, select_messages
    from outpace.model import UsageError

    form = _form(form, json)
    files, facts = find_files(paths), _record(record)
    chosen, left_out = _rules(select), _rules(ignore)
    select_messages([], chosen, left_out)  # raises for an unknown rule before any work is done
    checked: list[CheckedFile] = []
    failures: list[str] = []
    for path in files:
        try:
            messages, lines = lint_file(path, facts)
        except UsageError as error:
            failures.append(str(error))
            continue
        checked.append(CheckedFile(path, select_messages(messages, chosen, left_out), lines))
    if form is OutputFormat.TEXT:
        _show(checked, width, color)
    else:
        _encode(_as_json(checked, failures, facts) if form is OutputFormat.JSON else _as_sarif(checked, failures))
    for failure in failures:
        print_note(f"outpace: {failure}")
    if failures:
        raise typer.Exit(UsageError.exit_code)
    if any(message.level == "warning" for _, messages, _ in checked for message in messages) and not exit_zero:
        raise typer.Exit(1)


def _rules(values: Sequence[str] | None) -> list[str]:
    """Return the rules in the values of an option."""
    return [name.strip().upper() for text in values or () for name in text.split(",")]


def _record(place: str) -> CaptureRecord | None:
    """Return the capture record that the option names; None without one."""
    from outpace.capture.options import DEFAULT_LOGDIR
    from outpace.lint.runner import find_newest_record, read_record

    if place == "none" or (place == "auto" and find_newest_record(DEFAULT_LOGDIR) is None):
        return None
    return read_record(DEFAULT_LOGDIR if place == "auto" else place)


def _form(form: OutputFormat, json: bool) -> OutputFormat:
    """Return the output format. Raises UsageError where the options contradict each other."""
    from outpace.model import UsageError

    if json and form not in (OutputFormat.TEXT, OutputFormat.JSON):
        raise UsageError(f"--json and --format {form.value} contradict each other. Give one of them.")
    return OutputFormat.JSON if json else form


def _encode(document: dict[str, Any]) -> None:
    """Print an object as JSON."""
    import json as encoder

    sys.stdout.write(encoder.dumps(document, indent=1) + "\n")


def _as_sarif(checked: Sequence[CheckedFile], failures: Sequence[str]) -> dict[str, Any]:
    """Return the messages as a SARIF log."""
    from outpace.lint import sarif

    return sarif.build_log(checked, failures)


def _as_json(checked: Sequence[CheckedFile], failures: Sequence[str], facts: CaptureRecord | None) -> dict[str, Any]:
    """Return the messages as the object of `--json`."""
    messages = [message.to_dict() for _, some, _ in checked for message in some]
    warnings = sum(message["level"] == "warning" for message in messages)
    return {
        "files": len(checked),
        "warnings": warnings,
        "notes": len(messages) - warnings,
        "capture": facts.created if facts else None,
        "messages": messages,
        "errors": list(failures),
    }


def _show(checked: Sequence[CheckedFile], width: int | None, color: bool | None) -> None:
    """Print the messages as text."""
    from outpace.cli.console import build_console

    console = build_console(width, color)
    for path, messages, lines in checked:
        if messages:
            console.print(os.path.normpath(path), style="bold underline", soft_wrap=True)
        for message in messages:
            _message(console, message, lines)
    console.print(_summary(len(checked), [message for _, messages, _ in checked for message in messages]), style="bold")


def _message(console: Console, message: Message, lines: Sequence[str]) -> None:
    """Print one message: the sentence, the place, the source line with the place marked, and the
    remedy.
    """
    from rich.table import Table
    from rich.text import Text

    level, side = message.level.value, len(str(message.line))
    console.print(Text.assemble((f"{level}[{message.rule}]", _STYLES[level]), ": ", (message.sentence, "bold")))
    console.print(
        Text.assemble((f"{'':{side}}--> ", "blue"), f"{message.path}:{message.line}:{message.column}"), soft_wrap=True
    )
    text, before, marks = _excerpt(lines[message.line - 1], message, console.width - side - 4)
    console.print(Text(f"{'':{side}} |", style="blue"))
    console.print(Text.assemble((f"{message.line} | ", "blue"), text), overflow="crop", no_wrap=True)
    console.print(Text.assemble((f"{'':{side}} | ", "blue"), " " * before, ("^" * marks, _STYLES[level])), no_wrap=True)
    origin = f"{message.origin.value}: {message.evidence}" if message.evidence else message.origin.value
    table = Table.grid(padding=(0, 1))
    table.add_column(width=side + 2, style="blue", justify="right")
    table.add_column(width=15, style="dim")
    table.add_column(ratio=1)
    for name, words in (("fix", message.fix), ("does not matter", message.harmless), ("known from", origin)):
        table.add_row("=", Text(name, no_wrap=False), Text(words))
    console.print(table)
    console.print()


def _excerpt(line: str, message: Message, room: int) -> tuple[str, int, int]:
    """Return the part of a source line that fits, the number of columns before the marked text,
    and the marked text's width.
    """
    from rich.cells import cell_len

    start, end = message.column - 1, message.end_column - 1
    line, marked = line.replace("\t", " "), max(end - start, 1)
    if cell_len(line) > room:
        first = max(0, min(start - room // 3, len(line) - room + 2))
        head = "…" if first else ""
        line, start = head + line[first + len(head) :], start - first
        if cell_len(line) > room:
            line = line[: room - 1] + "…"
    before = cell_len(line[:start])
    return line, before, max(1, min(cell_len(line[start : start + marked]), room - before))


def _summary(files: int, messages: Sequence[Message]) -> str:
    """Return the sentence with the numbers of warnings and notes."""
    warnings = sum(message.level == "warning" for message in messages)
    captured = sum(message.origin == "capture" for message in messages)
    counts = f"{format_count(warnings, 'warning')} and {format_count(len(messages) - warnings, 'note')} in {format_count(files, 'file')}"
    return f"{counts}, {captured} of them confirmed by the capture." if captured else f"{counts}."
