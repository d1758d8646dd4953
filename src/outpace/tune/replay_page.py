"""The page of a replay: the outcome of a record beside that of its repetition, and whether they agree."""

from __future__ import annotations

import math

from outpace.model import Field, Page, Rows, Table, Text, Unit
from outpace.tune.trial.record import Environment, Experiment, Verdict

ID = "replay"
_NAN = float("nan")
_NOTHING = (_NAN, _NAN, _NAN)


def page_of(before: Experiment, after: Experiment, judged: bool = False) -> Page:
    """The comparison; `judged` says that `after` are the same samples, judged again."""
    pairs = [(verdict, _same_arm(after, verdict.arm)) for verdict in before.verdicts]
    rows = [_row(old, new) for old, new in pairs]
    differing = [old.arm for old, new in pairs if new is None or agreement(old, new) != "yes"]
    fields = (
        Field("variant", Unit.TEXT, "The variant's name."),
        *_fields("before", "in the record"),
        *_fields("now", "in the repetition"),
        Field("agree", Unit.TEXT, "Same verdict, and ratios that differ by no more than their intervals allow.", "Agree"),
    )
    table = Table.from_rows("replay", "Before and now", fields, rows)
    shown = ("variant", "before_verdict", "before_ratio", "now_verdict", "now_ratio", "agree")
    headline = _headline("Judging the samples again" if judged else "The repetition", [old.arm for old, _ in pairs], differing)
    changed = _changes(before.environment, after.environment)
    notes = (Text("What changed around it", changed),) if changed and not judged else ()
    return Page(ID, "Replay", "Does the race give the same outcome again?", headline, (Rows(table, shown, limit=30), *notes))


def _headline(again: str, arms: list[str], differing: list[str]) -> str:
    agreeing = [arm for arm in arms if arm not in differing]
    if not differing:
        return f"{again} agrees with the record."
    if not agreeing:
        return f"{again} disagrees with the record."
    return f"{again} agrees with the record for {', '.join(agreeing)}; not for {', '.join(differing)}."


def agreement(old: Verdict, new: Verdict) -> str:
    """`yes`, or what differs. Ratios agree when their distance lies within the two intervals' combined half width (95%)."""
    if old.decision is not new.decision:
        return "other verdict"
    if old.estimate is None or new.estimate is None:
        return "yes"
    distance = abs(math.log(old.estimate.ratio / new.estimate.ratio))
    return "yes" if distance <= math.hypot(old.estimate.half, new.estimate.half) else "other ratio"


def _same_arm(experiment: Experiment, arm: str) -> Verdict | None:
    return next((verdict for verdict in experiment.verdicts if verdict.arm == arm), None)


def _fields(when: str, where: str) -> tuple[Field, ...]:
    name = when.capitalize()
    return (
        Field(f"{when}_verdict", Unit.TEXT, f"The verdict {where}.", name),
        Field(f"{when}_ratio", Unit.RATIO, f"The ratio of rates {where}.", "Ratio"),
        Field(f"{when}_low", Unit.RATIO, f"Lower end of its 95% CI {where}.", "From"),
        Field(f"{when}_high", Unit.RATIO, f"Upper end of its 95% CI {where}.", "To"),
    )


def _row(old: Verdict, new: Verdict | None) -> tuple[object, ...]:
    agree = agreement(old, new) if new is not None else "missing"
    return (old.arm, *_cells(old), *(_cells(new) if new is not None else ("missing", *_NOTHING)), agree)


def _cells(verdict: Verdict) -> tuple[object, ...]:
    found = verdict.estimate
    return (verdict.decision.value, *((found.ratio, found.low, found.high) if found is not None else _NOTHING))


def _changes(before: Environment, after: Environment) -> str:
    """Machine, Python and versions that are not the same."""
    names = sorted({*before.versions, *after.versions})
    pairs = [
        ("machine", f"{before.machine}, {before.cores} cores", f"{after.machine}, {after.cores} cores"),
        ("Python", before.python, after.python),
        *((name, before.versions.get(name, "none"), after.versions.get(name, "none")) for name in names),
    ]
    found = [f"{name}: {old} then, {new} now" for name, old, new in pairs if old != new]
    return "; ".join(found) + "." if found else ""
