"""`outpace lint`: what a training script's text shows by itself, without running it.

A capture knows more: given its record, what the text only suggests is confirmed or withdrawn.
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
