# SPDX-License-Identifier: Apache-2.0
"""`outpace lint`: findings from a training script's source, without running it.

The record of a capture, if one is passed, confirms or withdraws findings that the source only
suggests.
"""

from __future__ import annotations

from outpace.lint.context import Edit, Level, Message, Origin, Rule
from outpace.lint.rules import RULES
from outpace.lint.runner import find_files, find_newest_record, lint_file, lint_text, read_record

__all__ = [
    "RULES",
    "Edit",
    "Level",
    "Message",
    "Origin",
    "Rule",
    "find_files",
    "find_newest_record",
    "lint_file",
    "lint_text",
    "read_record",
]  # fmt: skip
