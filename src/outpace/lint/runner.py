# SPDX-License-Identifier: Apache-2.0
"""Lint runner: selects files, capture record and rules, and returns messages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from outpace.lint.context import Level, LintContext, Message, Origin
from outpace.lint.rules import CHECKS, RULES
from outpace.lint.source import SourceFile
from outpace.model.errors import NotFoundError, ProfileError, UsageError
from outpace.model.input_files import RECORD, format_error, read_file
from outpace.store.record import RECORD_SUFFIX, CaptureRecord

_SKIPPED_FOLDERS = {"__pycache__", "node_modules", "site-packages", "build", "dist", "venv"}


class CheckedFile(NamedTuple):
    """A checked file: its path, messages and lines."""

    path: str
    messages: list[Message]
    lines: list[str]


def lint_text(text: str, path: str = "<text>", record: CaptureRecord | None = None) -> list[Message]:
    """Return the messages about a Python text, in text order. Raises UsageError where it cannot be
    parsed.
    """
    return _check(lambda: SourceFile(text, path), path, record)[0]


def lint_file(path: str, record: CaptureRecord | None = None) -> tuple[list[Message], list[str]]:
    """Return the messages about a file, and its lines. Raises NotFoundError where it does not
    exist, or UsageError where it cannot be parsed.
    """
    return _check(lambda: SourceFile.read(path), path, record)


def find_files(paths: Sequence[str]) -> list[str]:
    """Return the files that paths name: files themselves, and all Python files below folders.
    Raises NotFoundError.
    """
    files: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            scripts = sorted(_scripts_below(path))
            if not scripts:
                raise NotFoundError(f"There is no Python file in {path}.")
            files += scripts
        elif os.path.exists(path):
            files.append(path)
        else:
            raise NotFoundError(f"There is no file or folder {path}.")
    return list(dict.fromkeys(files))


def select_messages(messages: Iterable[Message], select: Sequence[str], ignore: Sequence[str]) -> list[Message]:
    """Return the messages of the selected rules; a name may be the prefix of
    several rules (`DS`).
    """
    rule_ids = tuple(RULES)
    for name in (*select, *ignore):
        if not name or not any(rule.startswith(name) for rule in rule_ids):
            raise UsageError(f"There is no rule {name!r}. The rules are {', '.join(rule_ids)}.")
    return [
        item
        for item in messages
        if (not select or item.rule.startswith(tuple(select))) and not (ignore and item.rule.startswith(tuple(ignore)))
    ]


def find_newest_record(root: str) -> str | None:
    """Return the path of the newest capture record below a folder; None where there is none."""
    records = [
        os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names if name.endswith(RECORD_SUFFIX)
    ]
    return max(records, key=lambda path: (os.path.getmtime(path), path)) if records else None


def read_record(source: str) -> CaptureRecord:
    """Return the record at a path, or the newest below a log directory. Raises NotFoundError or
    ProfileError.
    """
    path = find_newest_record(source) if os.path.isdir(source) else source
    if path is None or not os.path.exists(path):
        raise NotFoundError(f"There is no capture record in {source}. `outpace profile SCRIPT` makes one.")
    try:
        return CaptureRecord.from_json(read_file(path, RECORD).decode("utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ProfileError(
            f"{path} is no capture record: {format_error(error)}. Capture again, or leave --record out."
        ) from None


def _check(read: Callable[[], SourceFile], path: str, record: CaptureRecord | None) -> tuple[list[Message], list[str]]:
    try:
        source = read()
        return _messages(source, record), source.lines
    except (RecursionError, MemoryError):  # raised by Python's parser for deep nesting
        raise UsageError(
            f"{path} cannot be checked: it is nested too deeply. Leave it out, or break up its longest expression."
        ) from None


def _messages(source: SourceFile, record: CaptureRecord | None) -> list[Message]:
    program = LintContext(source, record)
    best: dict[tuple[str, int, int], Message] = {}
    for check in CHECKS:
        for message in check(program):
            place = (message.rule, message.line, message.column)
            if place not in best or _rank(message) > _rank(best[place]):
                best[place] = message
    messages = (message for message in best.values() if not _is_ignored(source, message))
    return sorted(messages, key=lambda message: (message.line, message.column, message.rule))


def _rank(message: Message) -> tuple[bool, bool]:
    """Return the sort key by which one of several messages of one rule at one place is kept: the
    more certain, then the more severe.
    """
    return message.origin is Origin.CAPTURE, message.level is Level.WARNING


def _is_ignored(source: SourceFile, message: Message) -> bool:
    """Whether a comment switches the message off, on the message's line or on the first or last
    line of the marked code.
    """
    lines = {message.line, getattr(message.node, "lineno", message.line), getattr(message.node, "end_lineno", message.line)}
    return any(line in source.ignore_comments and source.ignore_comments[line].covers(message.rule) for line in lines)


def _scripts_below(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith(".")]
        scripts = (os.path.join(place, name) for name in names if name.endswith(".py"))
        yield from filter(os.path.isfile, scripts)  # reading a pipe would never end
