# SPDX-License-Identifier: Apache-2.0
"""Why something failed, in one line: the sentence of an error that says something, without its
traces and graph nodes.
"""

from __future__ import annotations

import os
import re
from typing import IO

from outpace.model.errors import OutpaceError

LONGEST = 300  # characters
_LAST_LINES, _LAST_BYTES = 3, 20_000
_NODES = re.compile(r"\{\{[^{}]*\}\}\s*")  # {{function_node ...}}, {{node ...}}
_EMPTY = re.compile(
    r"^(graph execution error:?|detected at .*|<stack traces unavailable>|traceback .*|file \".*|\d+ root error.*"
    r"|\(\d+\) \w+:|stack trace for op definition:?|exception encountered when calling .*|could not interpret .*)?$",
    re.IGNORECASE,
)


def reason_of(error: BaseException) -> str:
    """The type of an error and the first of its lines that says something; of an error of Outpace's
    own, its sentence.
    """
    text = str(error).strip()
    if isinstance(error, OutpaceError):
        return text
    return _short(type(error).__name__, text)


def reason_in(output: str) -> str:
    """The same of what a process of Python wrote at its end; empty where that is no traceback."""
    _, found, rest = output.rpartition("Traceback (most recent call last):")
    lines = rest.splitlines() if found else []
    first = next((at for at, line in enumerate(lines) if line and not line[0].isspace()), len(lines))
    name, _, said = "\n".join(lines[first:]).partition(":")
    return _short(name.rpartition(".")[2], said) if name and name.replace(".", "").isidentifier() else ""


def last_words(log: IO[bytes]) -> str:
    """Of what a process wrote, its error, else its last lines, as sentences."""
    log.seek(0, os.SEEK_END)
    log.seek(max(0, log.tell() - _LAST_BYTES))
    text = log.read().decode(errors="replace")
    if error := reason_in(text):
        return f"{error}."
    lines = [line.strip() for line in text.splitlines() if line.strip(" ^~\t")]
    return "Its last lines: " + " | ".join(lines[-_LAST_LINES:]) if lines else "It wrote nothing."


def _short(name: str, text: str) -> str:
    lines = [_NODES.sub("", line).strip() for line in text.splitlines()]
    said = next((line for line in lines if not _EMPTY.match(line)), "")
    said = said.removeprefix(f"{name}:").strip().rstrip(".")
    short = said if len(said) <= LONGEST else f"{said[: LONGEST - 1]}…"
    return f"{name}: {short}" if short and short != name else name
