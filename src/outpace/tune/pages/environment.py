# SPDX-License-Identifier: Apache-2.0
"""The page of a search through the environment."""

from __future__ import annotations

from dataclasses import replace

from outpace.model import Page, Paragraph, Section, TableView
from outpace.model.units import format_count
from outpace.tune.climb.environment import EnvironmentOutcome
from outpace.tune.pages.tried import TRIED, row_of, why_of
from outpace.tune.trial.script import assignments

ID, TITLE = "environment", "The environment"
QUESTION = "Which environment settings, made before TensorFlow starts, make this training faster?"
TABLE = "What was tried in processes of its own"
_SHOWN = ("practice", "outcome", "ratio", "low", "high")


def page_of(outcome: EnvironmentOutcome, secrets: bool = False) -> Page:
    """The page: what was tried in processes of its own, raced settings first, and the line to
    write, with or without dots for secrets.
    """
    tried = sorted(outcome.tried, key=lambda each: (each.title not in outcome.kept, each.ratio is None))
    rows = [row_of(each, "kept" if each.title in outcome.kept else each.decision) for each in tried]
    sections: list[Section] = [
        TableView(replace(TRIED, name=ID, title=TABLE).build(rows), _SHOWN, limit=30),
        Paragraph("Why", "\n".join(map(why_of, tried))),
    ]
    if outcome.variables:
        sections.append(Paragraph("How to keep it", outcome.command.line(secrets)))
    sections.append(Paragraph("How it was measured", _how(outcome)))
    return Page(ID, TITLE, QUESTION, headline(outcome), tuple(sections))


def headline(outcome: EnvironmentOutcome) -> str:
    """The outcome in a sentence."""
    if not outcome.variables:
        return "No setting of the environment was shown to make the training faster."
    return f"Faster with {' '.join(assignments(outcome.variables))}."


def _how(outcome: EnvironmentOutcome) -> str:
    count = len(outcome.races)
    if not count:
        return "Nothing applied here, so nothing was raced."
    processes = max(len(experiment.trials) for experiment in outcome.races)
    return (
        f"{format_count(count, 'race')} of up to {processes} processes of the script, each stopped while others ran, the script as it is "
        f"in two of them, in {outcome.seconds:.0f} s with all starts. What took no provable effect is not judged."
    )
