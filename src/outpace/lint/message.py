"""`Rule` and `Message`: what a check knows by itself, and what it says about one place of a file."""

from __future__ import annotations

import ast
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any


class Level(str, Enum):
    """How much a message asks for: a warning fails the check, a note does not."""

    WARNING = "warning"
    NOTE = "note"


class Origin(str, Enum):
    """Where a message comes from: the source alone, or a capture that confirms it."""

    SOURCE = "source"
    CAPTURE = "capture"


@dataclass(frozen=True)
class Rule:
    """What one rule looks for.

    `why` says what happens at run time and `reference` who says so; `fix` says what to write instead, `harmless` in which case the finding
    does not matter. `level` is the level without further knowledge of the place.
    """

    id: str
    level: Level
    title: str
    why: str
    reference: str
    fix: str
    harmless: str


@dataclass(frozen=True)
class Edit:
    """A replacement of the text between two positions (lines from 1, columns from 0 in characters), safe to make as it stands."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True)
class Message:
    """One rule at one place. Lines and columns count from 1, `end_column` is the first column after the marked text of `line`."""

    rule: str
    level: Level
    path: str
    line: int
    column: int
    end_column: int
    sentence: str
    fix: str
    harmless: str
    origin: Origin = Origin.SOURCE
    evidence: str = ""
    edit: Edit | None = None
    node: ast.AST | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The message as JSON-ready values; `docs/lint.md` lists the keys."""
        found = {key: value for key, value in vars(self).items() if key not in ("node", "edit")}
        found["level"], found["origin"] = self.level.value, self.origin.value
        found["edit"] = None if self.edit is None else asdict(self.edit)
        return found
