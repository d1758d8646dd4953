"""The page of name scopes."""

from __future__ import annotations

from typing import Any

from outpace.model import Chart, ChartKind, Page, Rows, Section, Table, Unavailable
from outpace.timeline import Run
from outpace.tools.scopes import layers as keras
from outpace.tools.scopes.compute import MAX_DEPTH, by_type, scopes, tree
from outpace.tools.scopes.lines import lines

_ID, _TITLE = "scopes", "Name scopes"
_QUESTION = "Which layer, which part of the model, or which line of code takes the time and the memory?"
_NONE = Unavailable("no op with a name was recorded", "Capture with host tracer level 2 (the default of 'outpace profile').")


def analyse(run: Run, *, model: Any = None, max_depth: int = MAX_DEPTH, show_trainable: bool = True) -> Page:
    """Build the page of a run.

    `model`, a Keras model, adds parameters, FLOPs and time by layer; `max_depth` limits the levels of the tree (deeper ops count for the scope
    at that depth); `show_trainable` shows trainable parameters apart.
    """
    found = tree(run, max_depth)
    table, code = scopes(found), lines(run)
    sections: list[Section] = list(keras.sections(keras.layers(model, run, max_depth), show_trainable)) if model is not None else []
    for side in ("Device", "Host"):
        mine = table.take(table["side"] == side)
        if len(mine):
            named = Table(f"{side.lower()}_scopes", f"Scopes on the {side.lower()}", mine.fields, mine.columns)
            sections.append(Chart(f"Self time by scope on the {side.lower()}", ChartKind.ICICLE, named, "id", ("parent", "scope", "total_ps")))
            shown = ("id", "total_ps", "fraction", "self_ps", "occurrences", "ops", "allocated_bytes")
            sections.append(Rows(named, shown, limit=15))
    if len(code):
        sections.append(Rows(code, ("source", "what", "occurrences", "total_ps", "self_ps"), limit=15))
    if not sections:
        return Page(_ID, _TITLE, _QUESTION, unavailable=_NONE)
    sections.append(Rows(by_type(found), ("scope", "type", "side", "occurrences", "self_ps", "allocated_bytes"), limit=10))
    return Page(_ID, _TITLE, _QUESTION, _headline(table, code), tuple(sections))


def _headline(table: Table, code: Table) -> str:
    leaves = [row for row in table.records() if row["depth"] == 0]
    if leaves:
        side = "Device" if any(row["side"] == "Device" for row in leaves) else "Host"
        most = max((row for row in leaves if row["side"] == side), key=lambda row: int(row["total_ps"]))
        return f"{most['scope']} takes {most['fraction']:.0%} of the op time on the {side.lower()}."
    top = next(code.records())
    return f"{top['source']} takes the most time of all source lines."
