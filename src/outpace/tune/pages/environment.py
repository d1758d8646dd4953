"""The page of a search through the environment, and its outcome as plain data for another process."""

from __future__ import annotations

import math
from typing import Any

from outpace.model import Page, Rows, Section, Table, Text
from outpace.model.units import counted
from outpace.tune.climb.environment import EnvironmentOutcome
from outpace.tune.climb.outcome import Tried
from outpace.tune.pages.tried import TRIED, row_of, why_of
from outpace.tune.trial.script import assignments

ID, TITLE = "environment", "The environment"
QUESTION = "Which environment settings, made before TensorFlow starts, make this training faster?"
TABLE = "What was tried in processes of its own"
_SHOWN = ("practice", "outcome", "ratio", "low", "high")
_NAN = math.nan


def page_of(outcome: EnvironmentOutcome) -> Page:
    """The page: what was tried in processes of its own, and the line to write."""
    sections: list[Section] = [
        Rows(table_of(outcome), _SHOWN, limit=30),
        Text("Why", "\n".join(map(why_of, _ordered(outcome)))),
    ]
    if outcome.variables:
        sections.append(Text("How to keep it", str(outcome.command)))
    sections.append(Text("How it was measured", _how(outcome)))
    return Page(ID, TITLE, QUESTION, headline(outcome), tuple(sections))


def headline(outcome: EnvironmentOutcome) -> str:
    """The outcome in a sentence."""
    if not outcome.variables:
        return "No setting of the environment was proven to make the training faster."
    return f"Faster with {' '.join(assignments(outcome.variables))}."


def table_of(outcome: EnvironmentOutcome) -> Table:
    """What was tried, raced settings first, in the columns that `outpace tune` has for every optimisation."""
    return Table.from_rows(ID, TABLE, TRIED, [_row(outcome, tried) for tried in _ordered(outcome)])


def plain(outcome: EnvironmentOutcome) -> dict[str, Any]:
    """The outcome ready for JSON: rows as in `table_of` (None for missing numbers), variables and command."""
    rows = [[None if cell != cell else cell for cell in _row(outcome, tried)] for tried in _ordered(outcome)]
    return {"headline": headline(outcome), "rows": rows, "variables": dict(outcome.variables), "command": str(outcome.command)}


def page_of_plain(found: dict[str, Any]) -> Page:
    """The page of an outcome that another process measured (see `plain`)."""
    rows = [[_NAN if cell is None else cell for cell in row] for row in found["rows"]]
    sections: list[Section] = [Rows(Table.from_rows(ID, TABLE, TRIED, rows), _SHOWN, limit=30)]
    if found["variables"]:
        sections.append(Text("How to keep it", found["command"]))
    return Page(ID, TITLE, QUESTION, found["headline"], tuple(sections))


def _ordered(outcome: EnvironmentOutcome) -> list[Tried]:
    return sorted(outcome.tried, key=lambda tried: (tried.title not in outcome.kept, tried.ratio is None))


def _row(outcome: EnvironmentOutcome, tried: Tried) -> tuple[Any, ...]:
    return row_of(tried, "kept" if tried.title in outcome.kept else tried.decision)


def _how(outcome: EnvironmentOutcome) -> str:
    count = len(outcome.races)
    if not count:
        return "Nothing applied here, so nothing was raced."
    processes = max(len(experiment.trials) for experiment in outcome.races)
    return (
        f"{counted(count, 'race')} of up to {processes} processes of the script, each stopped while others ran, the script as it is "
        f"in two of them, in {outcome.seconds:.0f} s with all starts. What took no provable effect is not judged."
    )
