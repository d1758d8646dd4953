# SPDX-License-Identifier: Apache-2.0
"""The pages of a race, with who is how much faster, and of its replay, which stands beside the
record.
"""

from __future__ import annotations

import math
from dataclasses import replace

from outpace.model import (
    Chart,
    ChartKind,
    Evidence,
    Field,
    Figure,
    Figures,
    Finding,
    Page,
    Paragraph,
    Report,
    Row,
    Saving,
    Section,
    Severity,
    Table,
    TableType,
    TableView,
    Unit,
)
from outpace.stats.planning import Noise
from outpace.stats.ratios import Estimate, compare_rounds
from outpace.tune.trial.record import Decision, Environment, Experiment, Per, Phase, Trial, Verdict
from outpace.tune.trial.verdict import spreads

ID = "race"
_PS = 1e12
_NAN = float("nan")
_NOTHING: Row = dict.fromkeys(("ratio", "low", "high"), _NAN)
VARIANTS = TableType("race_variants", "Variants").columns("""
    * variant      | text  | The variant's name.
      step         | text  | What one step is.
      first_ps     | ps    | From the start of its preparation to the end of its first step; not part of the rate. | First step after
    + warmup_steps | count | Untimed steps after that.
    + instances    | count | Processes of it, whose differences are in the interval. | Processes
    + blocks       | count | Timed blocks, in the search and in the confirmation.
      break_even   | count | Steps after which a longer first step has paid for itself. | Break-even steps
""")


def page_of(experiment: Experiment) -> Page:
    """The page; a race in which nothing ran gives a page that says why each variant failed."""
    standing = _standing(experiment)
    drawn = replace(standing.take([at for at, ratio in enumerate(standing["ratio"]) if ratio == ratio]), name="compared")
    chart = Chart(
        "Speed of each variant",
        ChartKind.BARS,
        drawn,
        "variant",
        ("ratio",),
        remark=f"ratio of rates; {experiment.baseline} is 1",
    )
    shown = ("variant", "rate", "ratio", "low", "high", "verdict")
    sections: list[Section] = [TableView(standing, shown, limit=30, remark="From, To: 95% CI of the ratio")]
    if len(drawn) > 1:
        sections.append(chart)
    sections += [Paragraph(verdict.arm, _story(experiment, verdict)) for verdict in experiment.verdicts]
    failure = experiment.trial(experiment.baseline).failure
    if failure:
        sections.append(Paragraph(experiment.baseline, f"The baseline failed: {failure}"))
    sections += [*_doubts(experiment), TableView(_variants(experiment), limit=30), _how(experiment), _where(experiment)]
    question = f"Which variant trains faster than {experiment.baseline}, and by how much?"
    return Page(ID, "Race", question, headline_of(experiment), tuple(sections))


def report_of(experiment: Experiment, source: str = "") -> Report:
    """The page as a report; a winner is its first thing to change."""
    page = page_of(experiment)
    return Report(source, page.headline, (), _findings(experiment, page), (page,))


def _findings(experiment: Experiment, page: Page) -> tuple[Finding, ...]:
    won = experiment.winner
    estimate = experiment.verdict(won).estimate if won != experiment.baseline else None
    if estimate is None:
        return ()
    per = experiment.protocol.per.value
    bound = f"95% CI of the time per {per} that {won} saves, measured on {estimate.rounds} fresh rounds"
    finding = Finding(
        id="race.winner",
        severity=Severity.HIGH,
        sentence=page.headline,
        action=f"Train with {won}.",
        evidence=(Evidence(f"ratio of {won} to {experiment.baseline}", estimate.ratio, Unit.RATIO, f"{ID}.race"),),
        saving=raced(estimate.low, estimate.high, bound),
    )
    return (finding,)


def headline_of(experiment: Experiment) -> str:
    """The outcome in one sentence."""
    base, won = experiment.baseline, experiment.winner
    stopped = "The race was stopped early. " if experiment.interrupted else ""
    if won != base:
        estimate = experiment.verdict(won).estimate
        assert estimate is not None
        size = f"a speed-up of {estimate.ratio:.2f}x over {base}, 95% CI {estimate.low:.2f} to {estimate.high:.2f}"
        return f"{stopped}{won} has {size}, confirmed on {estimate.rounds} fresh rounds."
    if experiment.trial(base).failure:
        return f"{stopped}The baseline {base} failed, so nothing can be compared."
    failed = [v for v in experiment.verdicts if v.decision is Decision.FAILED]
    if len(failed) == len(experiment.verdicts):
        return f"{stopped}No other variant than {base} could be raced."
    if any(v.decision is Decision.REFUSED for v in experiment.verdicts):
        return f"{stopped}No variant was shown to be faster than {base}; not all could be judged."
    return f"{stopped}No variant is faster than {base} by {experiment.protocol.effect * 100:g}% or more."


def _rows(experiment: Experiment) -> list[tuple[Trial, Verdict | None]]:
    """Variants as given, each once."""
    verdicts = {verdict.arm: verdict for verdict in experiment.verdicts}
    return [(trial, verdicts.get(trial.arm)) for trial in experiment.compared]


def _standing(experiment: Experiment) -> Table:
    per = experiment.protocol.per.value
    rows = []
    for trial, verdict in _rows(experiment):
        if verdict is None:
            rate = _base_rate(experiment)
            ratio = {**_NOTHING, "ratio": 1.0} if rate is not None else _NOTHING
            said = "failed" if trial.failure else "baseline"
        else:
            rate, said = verdict.rate, verdict.decision.value
            ratio = _ratio(verdict.estimate)
        reason = verdict.reason if verdict is not None else trial.failure or ""
        times = {"rate": rate if rate is not None else _NAN, "time_ps": 1 / rate * _PS if rate else _NAN}
        rows.append({"variant": trial.arm, **times, **ratio, "verdict": said, "reason": reason})
    unit = Unit.COUNT if max((row["rate"] for row in rows if row["rate"] == row["rate"]), default=0.0) >= 1000 else Unit.RATIO
    fields = (
        Field("variant", Unit.TEXT, "The variant's name.", key=True),
        Field(
            "rate", unit, f"{per}s per second: the median of the rounds that the verdict rests on.", f"{per.capitalize()}s/s"
        ),
        Field("time_ps", Unit.PS, f"Time per {per}, from the rate.", f"Time per {per}"),
        Field("ratio", Unit.RATIO, "Rate divided by the baseline's in the same rounds: trimmed geometric mean."),
        Field("low", Unit.RATIO, "Lower end of the ratio's 95% CI.", "From"),
        Field("high", Unit.RATIO, "Upper end of the ratio's 95% CI.", "To"),
        Field("verdict", Unit.TEXT, "What the race says; only confirmed differences are called faster or slower."),
        Field("reason", Unit.TEXT, "Why, in a sentence."),
    )
    return TableType("race", "Standing", fields).build(rows)


def _base_rate(experiment: Experiment) -> float | None:
    for phase in (Phase.CONFIRM, Phase.SEARCH):
        rates = sorted(experiment.reference(phase).values())
        if rates:
            return rates[len(rates) // 2]
    return None


def _story(experiment: Experiment, verdict: Verdict) -> str:
    """The verdict in sentences: decision, reason, what the first call costs."""
    parts = [f"{verdict.decision.value.capitalize()}. {verdict.reason}"]
    if verdict.break_even_steps is not None:
        parts.append(f"Its first call takes longer; that pays for itself after {verdict.break_even_steps:,} steps.")
    return " ".join(parts)


def _doubts(experiment: Experiment) -> list[Paragraph]:
    """What a reader must know before comparing: steps that are not the same work."""
    trials = [trial for trial, _ in _rows(experiment) if trial.first_seconds is not None]
    sizes = {trial.examples for trial in trials}
    if experiment.protocol.per is Per.EXAMPLE or len(sizes) < 2:
        return []
    each = "; ".join(f"{trial.arm}: {trial.step}" for trial in trials)
    hint = " Compare rates per example with --per example." if None not in sizes else ""
    return [Paragraph("Steps differ", f"A step is not the same work in every variant ({each}).{hint}")]


def _variants(experiment: Experiment) -> Table:
    rows = []
    for trial, verdict in _rows(experiment):
        steps = verdict.break_even_steps if verdict is not None else None
        first = trial.first_seconds
        row = VARIANTS.row(
            variant=trial.arm,
            step=trial.step if first is not None else "",
            first_ps=first * _PS if first is not None else _NAN,
            warmup_steps=trial.warmup_steps,
            instances=len(experiment.processes(trial.arm)),
            blocks=sum(s.arm in experiment.instances(trial.arm) for s in experiment.samples),
            break_even=float(steps) if steps is not None else _NAN,
        )
        rows.append(row)
    return VARIANTS.build(rows)


def _how(experiment: Experiment) -> Figures:
    protocol = experiment.protocol
    phase = Phase.CONFIRM if experiment.plan else Phase.SEARCH
    search, fresh = (_rounds(experiment, phase) for phase in (Phase.SEARCH, Phase.CONFIRM))
    items = [
        _apart(experiment, phase),
        Figure("Rounds", search, Unit.COUNT, f"and {fresh} fresh"),
        Figure("Block", protocol.block_seconds * _PS, Unit.PS, f"{protocol.block_steps} steps or more"),
        Figure("Measured for", experiment.seconds * _PS, Unit.PS, f"of {experiment.budget:g} s"),
        Figure("Seed of the order", experiment.seed, Unit.NONE),
        Figure("Smallest difference reported", protocol.effect, Unit.FRACTION),
    ]
    return Figures("How it was measured", tuple(items))


def _apart(experiment: Experiment, phase: Phase) -> Figure:
    """How far apart two runs of the same are."""
    if seen := spreads(experiment, phase):
        said = f"{100 * math.sqrt(Noise.of(seen).between):.1f}%"
        return Figure("Processes of one variant differ by", said, Unit.TEXT, "standard deviation")
    control = compare_rounds(*experiment.itself(phase))
    return Figure("Baseline against itself (A/A)", _interval(control), Unit.TEXT, "should hold 1")


def _where(experiment: Experiment) -> Paragraph:
    """Machine, load and versions."""
    found = experiment.environment
    load = "load " + " before, ".join(f"{value:g}" for value in found.load) + " after" if len(found.load) == 2 else ""
    versions = ", ".join(f"{name} {version}" for name, version in sorted({"Python": found.python, **found.versions}.items()))
    return Paragraph(
        "Where",
        "; ".join(part for part in (f"{found.machine}, {found.cores} cores", load, versions, found.started) if part) + ".",
    )


def _rounds(experiment: Experiment, phase: Phase) -> int:
    return len(experiment.together(experiment.baseline, phase))


def _interval(estimate: Estimate | None) -> str:
    return "not measured" if estimate is None else f"{estimate.ratio:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


REPLAY = "replay"


def replay_page_of(before: Experiment, after: Experiment, judged: bool = False) -> Page:
    """The comparison; `judged` says that `after` are the same samples, judged again."""
    now = {verdict.arm: verdict for verdict in after.verdicts}
    pairs = [(verdict, now.get(verdict.arm)) for verdict in before.verdicts]
    rows = [_row(old, new) for old, new in pairs]
    differing = [old.arm for old, new in pairs if new is None or agreement(old, new) != "yes"]
    fields = (
        Field("variant", Unit.TEXT, "The variant's name.", key=True),
        *_fields("before", "in the record"),
        *_fields("now", "in the repetition"),
        Field("agree", Unit.TEXT, "Same verdict, and ratios that differ by no more than their intervals allow.", "Agree"),
    )
    table = TableType("replay", "Before and now", fields).build(rows)
    shown = ("variant", "before_verdict", "before_ratio", "now_verdict", "now_ratio", "agree")
    headline = _headline("Judging the samples again" if judged else "The repetition", [old.arm for old, _ in pairs], differing)
    changed = _changes(before.environment, after.environment)
    notes = (Paragraph("What changed around it", changed),) if changed and not judged else ()
    return Page(
        REPLAY, "Replay", "Does the race give the same outcome again?", headline, (TableView(table, shown, limit=30), *notes)
    )


def _headline(again: str, arms: list[str], differing: list[str]) -> str:
    agreeing = [arm for arm in arms if arm not in differing]
    if not differing:
        return f"{again} agrees with the record."
    if not agreeing:
        return f"{again} disagrees with the record."
    return f"{again} agrees with the record for {', '.join(agreeing)}; not for {', '.join(differing)}."


def agreement(old: Verdict, new: Verdict) -> str:
    """`yes`, or what differs. Ratios agree when their distance lies within the two intervals'
    combined half width (95%).
    """
    if old.decision is not new.decision:
        return "other verdict"
    if old.estimate is None or new.estimate is None:
        return "yes"
    distance = abs(math.log(old.estimate.ratio / new.estimate.ratio))
    return "yes" if distance <= math.hypot(old.estimate.half, new.estimate.half) else "other ratio"


def _fields(when: str, where: str) -> tuple[Field, ...]:
    name = when.capitalize()
    return (
        Field(f"{when}_verdict", Unit.TEXT, f"The verdict {where}.", name),
        Field(f"{when}_ratio", Unit.RATIO, f"The ratio of rates {where}.", "Ratio"),
        Field(f"{when}_low", Unit.RATIO, f"Lower end of its 95% CI {where}.", "From"),
        Field(f"{when}_high", Unit.RATIO, f"Upper end of its 95% CI {where}.", "To"),
    )


def _row(old: Verdict, new: Verdict | None) -> Row:
    agree = agreement(old, new) if new is not None else "missing"
    cells = {f"{when}_{name}": value for when, side in (("before", old), ("now", new)) for name, value in _cells(side).items()}
    return {"variant": old.arm, **cells, "agree": agree}


def _cells(verdict: Verdict | None) -> Row:
    if verdict is None:
        return {"verdict": "missing", **_NOTHING}
    return {"verdict": verdict.decision.value, **_ratio(verdict.estimate)}


def _ratio(estimate: Estimate | None) -> Row:
    """Return the columns of a ratio and its interval."""
    return {name: getattr(estimate, name) for name in _NOTHING} if estimate is not None else _NOTHING


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


def raced(low: float, high: float, assumes: str) -> Saving:
    """The saving of a change that is `low` to `high` times as fast: shares of the time per step as
    it was.
    """
    return Saving(max(0.0, 1 - 1 / low), max(0.0, 1 - 1 / high), (), assumes)
