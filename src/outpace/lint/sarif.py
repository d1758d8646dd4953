# SPDX-License-Identifier: Apache-2.0
"""Messages as SARIF 2.1.0, which code hosts show next to the lines of a change and which editors
read.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from outpace._version import __version__
from outpace.lint.context import Edit, Message, Rule
from outpace.lint.rules import RULES
from outpace.lint.runner import CheckedFile

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "outpaceLine/v1"
_ROOT = "SRCROOT"
_ORDER = {rule: index for index, rule in enumerate(RULES)}


def build_log(files: Sequence[CheckedFile], failures: Sequence[str] = (), root: str = ".") -> dict[str, Any]:
    """Return the messages about some files as a SARIF log of one run; `failures` are sentences on
    files that could not be checked.

    Files below the folder `root` have paths relative to it, and the location of `root` is not in
    the log.
    """
    driver = {"name": "outpace", "semanticVersion": __version__, "rules": [_rule(rule) for rule in RULES.values()]}
    ran = {
        "executionSuccessful": not failures,
        "toolExecutionNotifications": [{"level": "error", "message": {"text": text}} for text in failures],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [ran],
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The folder in which 'outpace lint' ran."}}},
        "results": [result for checked in files for result in _results(checked, root)],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    text = f"{rule.why} {rule.fix} It does not matter {rule.harmless}."
    descriptor = {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": text, "markdown": f"{text}\n\nSource: {rule.reference}"},
        "defaultConfiguration": {"level": rule.level.value},
    }
    address = rule.reference.partition(" ")[0]
    return descriptor | ({"helpUri": address} if address.startswith("https://") else {})


def _results(checked: CheckedFile, root: str) -> Iterator[dict[str, Any]]:
    place = _place(checked.path, root)
    counts: Counter[str] = Counter()
    for message in checked.messages:
        same = f"{message.rule}\n{place['uri']}\n{checked.lines[message.line - 1].strip()}"
        counts[same] += 1  # lines of equal text are distinguished by their order
        yield _result(message, place, hashlib.sha256(f"{same}\n{counts[same]}".encode()).hexdigest()[:32])


def _result(message: Message, place: dict[str, str], fingerprint: str) -> dict[str, Any]:
    region = {"startLine": message.line, "startColumn": message.column, "endColumn": message.end_column}
    result = {
        "ruleId": message.rule,
        "ruleIndex": _ORDER[message.rule],
        "level": message.level.value,
        "message": {"text": f"{message.sentence} {message.fix}"},
        "locations": [{"physicalLocation": {"artifactLocation": place, "region": region}}],
        "partialFingerprints": {FINGERPRINT: fingerprint},
        "properties": {"harmless": message.harmless, "origin": message.origin.value, "evidence": message.evidence},
    }
    return result if message.edit is None else result | {"fixes": [_fix(message.fix, message.edit, place)]}


def _fix(words: str, edit: Edit, place: dict[str, str]) -> dict[str, Any]:
    region = {
        "startLine": edit.line,
        "startColumn": edit.column + 1,
        "endLine": edit.end_line,
        "endColumn": edit.end_column + 1,
    }
    change = {"deletedRegion": region, "insertedContent": {"text": edit.text}}
    return {"description": {"text": words}, "artifactChanges": [{"artifactLocation": place, "replacements": [change]}]}


def _place(path: str, root: str) -> dict[str, str]:
    """Return the location of a file: relative to the root, or for a file elsewhere its absolute
    URI.
    """
    absolute = Path(os.path.abspath(path))
    try:
        return {"uri": quote(absolute.relative_to(os.path.abspath(root)).as_posix()), "uriBaseId": _ROOT}
    except ValueError:
        return {"uri": absolute.as_uri()}
