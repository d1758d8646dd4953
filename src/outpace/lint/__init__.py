"""`outpace lint`: what a training script's text shows by itself, without running it.

A capture knows more: given its record, what the text only suggests is confirmed or withdrawn.
"""

from __future__ import annotations

from outpace.lint.program import Edit, Level, Message, Origin, Rule
from outpace.lint.rules import RULES
from outpace.lint.run import files_in, lint_file, lint_text, newest_record, read_record

__all__ = [
    "RULES", "Edit", "Level", "Message", "Origin", "Rule", "files_in", "lint_file", "lint_text", "newest_record", "read_record",
]  # fmt: skip
