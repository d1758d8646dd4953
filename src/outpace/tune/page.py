"""The page of a tuning: before and after, the limits, what was tried and why it was kept or not, and how to keep it."""

from __future__ import annotations

import math

from outpace.model import Field, Figure, Figures, Page, Rows, Section, Table, Text, Unit
from outpace.tune.climb.limits import MODEL
from outpace.tune.session import Tuned
from outpace.tune.trial.statistics import Estimate

ID, TITLE = "tune", "Tuning"
QUESTION = "How fast could this training be, what makes it faster, and what proves it?"
TRIED = (
    Field("practice", Unit.TEXT, "what was tried"),
    Field(
        "outcome",
        Unit.TEXT,
        "kept; the race's verdict; not here: it does not apply; opt-in: it may change results, and was not allowed",
    ),
    Field("ratio", Unit.RATIO, "rate with it / rate without it, in the race where it was tried"),
    Field("low", Unit.RATIO, "lower end of the 95 % interval", "From"),
    Field("high", Unit.RATIO, "upper end of it", "To"),
    Field("why", Unit.TEXT, "why it may help here, or why it was not tried"),
    Field("verdict", Unit.TEXT, "what the race says"),
)
_NAN = math.nan


def page_of(tuned: Tuned) -> Page:
    """The page of what came of a tuning."""
    sections: list[Section] = [
        _figures(tuned),
        Rows(_tried(tuned), ("practice", "outcome", "ratio", "low", "high", "why"), limit=30),
    ]
    if tuned.recipe:
        sections.append(Text("How to keep it", "\n".join(f"{at}. {line}" for at, line in enumerate(tuned.recipe, start=1))))
    sections.append(Text("How it was measured", _how(tuned)))
    if tuned.left:
        sections.append(Text("Not put back", f"These variables could not be restored: {', '.join(tuned.left)}."))
    return Page(ID, TITLE, QUESTION, headline(tuned), tuple(sections))


def gain(tuned: Tuned) -> Estimate | None:
    """The ratio of the best variant to the program as it was, on the fresh rounds of the last race; None where nothing was kept."""
    final = tuned.climbed.final
    if final is None or not tuned.best.changes:
        return None
    verdict = next((v for v in final.verdicts if v.arm == tuned.best.name), None)
    return verdict.estimate if verdict is not None and verdict.confirmed else None


def headline(tuned: Tuned) -> str:
    """The outcome in a sentence."""
    found = gain(tuned)
    if found is None:
        return f"Nothing was proven to make the training faster ({tuned.climbed.ended})."
    names = " and ".join(change.title for change in tuned.best.changes)
    return f"{found.ratio:.2f} times as fast, 95 % interval {found.low:.2f} to {found.high:.2f}, with: {names}."


def _figures(tuned: Tuned) -> Figures:
    limits = tuned.climbed.limits
    shared = "their times add up on shared cores" if limits.shared else "the slower of the two"
    items = [
        Figure("As it is", limits.today, Unit.RATIO, "steps per second"),
        Figure("Model alone", limits.model, Unit.RATIO, f"on a batch in memory{_times(limits.model_ratio)}"),
        Figure("Input alone", limits.input, Unit.RATIO, f"read without training{_times(limits.input_ratio)}"),
        Figure("Both together", limits.together, Unit.RATIO, f"{shared}{_times(limits.together_ratio)}"),
    ]
    after = _after(tuned)
    if after:
        items.append(after)
    return Figures("Limits", tuple(items))


def _after(tuned: Tuned) -> Figure | None:
    final = tuned.climbed.final
    if final is None or gain(tuned) is None:
        return None
    rates = {verdict.arm: verdict.rate for verdict in final.verdicts}
    best, model = rates.get(tuned.best.name), rates.get(MODEL)
    if best is None:
        return None
    share = f"; {best / model:.0%} of its model alone" if model else ""
    return Figure("Afterwards", best, Unit.RATIO, f"steps per second{share}")


def _times(estimate: Estimate | None) -> str:
    return f"; {estimate.low:.2f} to {estimate.high:.2f} times today's" if estimate is not None else ""


def _tried(tuned: Tuned) -> Table:
    kept = {change.id for change in tuned.best.changes}
    rows = [
        (
            t.title,
            "kept" if t.id in kept else t.decision,
            *(t.ratio or (_NAN, _NAN, _NAN)),
            t.why or t.reason,
            t.reason if t.why else "",
        )
        for t in sorted(tuned.climbed.tried, key=lambda t: (t.id not in kept, t.ratio is None))
    ]
    return Table.from_rows("tried", "What was tried", TRIED, rows)


def _how(tuned: Tuned) -> str:
    climbed = tuned.climbed
    races = len(climbed.races) + 1 + (climbed.final is not None)
    return (
        f"{races} races of short paired blocks in random order, each with the baseline a second time, in {climbed.seconds:.0f} s; "
        f"it ended because {climbed.ended}. A difference counts from 3 % on, and is confirmed on fresh rounds. Afterwards the model, its "
        "optimizer and the random numbers were put back bit by bit."
    )
