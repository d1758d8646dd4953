"""The page of a tuning: before and after, the limits, what was tried and why it was kept or not, and how to keep it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from outpace.model import (
    Chart,
    ChartKind,
    Evidence,
    Field,
    Figure,
    Figures,
    Finding,
    Page,
    Rows,
    Saving,
    Section,
    Severity,
    Table,
    Text,
    Unit,
)
from outpace.model.units import counted
from outpace.tune.batch import BatchSizes, Size
from outpace.tune.climb.limits import BOUND, Beside
from outpace.tune.climb.outcome import NOT_RACED, Tried, Tuning
from outpace.tune.optimisations import all_rewrites
from outpace.tune.optimisations.advice import Advice
from outpace.tune.optimisations.compiled import callbacks_of_batches
from outpace.tune.optimisations.optimisation import NotApplicable
from outpace.tune.pages.race import raced
from outpace.tune.trial.record import Experiment, Phase
from outpace.tune.trial.statistics import Estimate

ID, TITLE = "tune", "Tuning"
QUESTION = "How fast could this training be, what makes it faster, and what proves it?"
TRIED = (
    Field("practice", Unit.TEXT, "what was tried", "Optimisation"),
    Field(
        "outcome",
        Unit.TEXT,
        "kept; the race's verdict; not applicable; explained: it is left to you; opt-in: it may change results, and was not allowed",
    ),
    Field("ratio", Unit.RATIO, "rate with it / rate without it, in the race where it was tried"),
    Field("low", Unit.RATIO, "lower end of the 95% CI", "From"),
    Field("high", Unit.RATIO, "upper end of it", "To"),
    Field("why", Unit.TEXT, "why it may help here, or why it was not tried"),
    Field("verdict", Unit.TEXT, "what the race says"),
)
PARTS = ("part", "source", "share", "forward_ps", "backward_ps", "top_op")
LINES = ("line", "text", "share", "low", "high")
SAMPLED = "of the fastest that was proven; each sample of the training thread is the time of your innermost line, which calls or waits"
BATCHES = ("batch", "rate", "ratio", "low", "high", "verdict")
LADDER = (
    Field("practice", Unit.TEXT, "what was changed, on top of the lines above", "Optimisation"),
    Field("rate", Unit.RATIO, "steps per second with it, the median of the last race's blocks", "Steps/s"),
    Field("step", Unit.RATIO, "rate / rate of the line above (as it was, for the first), on the same fresh rounds", "Speed-up"),
    Field("step_low", Unit.RATIO, "lower end of the 95% CI", "From"),
    Field("step_high", Unit.RATIO, "upper end of it", "To"),
    Field("total", Unit.RATIO, "rate / rate of the program as it was, on the same fresh rounds", "Overall"),
    Field("total_low", Unit.RATIO, "lower end of the 95% CI", "From "),
    Field("total_high", Unit.RATIO, "upper end of it", "To "),
)
_NAN = math.nan
_MUCH = 0.1  # of a step, of a line that is named
_FEW = 4  # of which the reasons are told in the terminal, too


def page_of(tuned: Tuning) -> Page:
    """The page of what came of a tuning."""
    sections: list[Section] = [*_limits(tuned)]
    own = callbacks_of_batches(tuned.program)
    if own:
        sections.append(Text("In none of these rates", _uncalled(own)))
    if tuned.climbed.ladder:
        ladder = _ladder(tuned)
        sections.append(Rows(ladder, tuple(field.name for field in LADDER)))
        sections.append(
            Chart("Overall speed-up, step by step", ChartKind.BARS, ladder, "practice", ("total",), remark="as it was is 1")
        )
    screened = any(tried.ratio is not None and tried.id not in tuned.best.practices for tried in tuned.climbed.tried)
    remark = (
        "ratios of what is not kept come from screening races; their CIs are a little too narrow, because such a race is judged more than once"
        if screened
        else ""
    )
    shown = [tried for tried in _sorted(tuned) if tried.decision != NotApplicable.word]
    columns = ("practice", "outcome", "ratio", "low", "high")
    sections.append(Rows(_tried(tuned), columns, limit=max(1, len(shown)), remark=remark))
    if shown:
        sections.append(Text("Why", "\n".join(map(why_of, shown))))
    sections += _not_applicable(tuned)
    if tuned.parts is not None:
        remark = "of one step on a batch in memory, under the profiler"
        sections.append(Rows(tuned.parts, PARTS, limit=6, remark=remark))
    if tuned.climbed.lines is not None:
        sections.append(Rows(tuned.climbed.lines, LINES, limit=6, remark=SAMPLED))
    if tuned.recipe:
        sections.append(Text("How to keep it", "\n".join(f"{at}. {line}" for at, line in enumerate(tuned.recipe, start=1))))
        sections.extend(_break_even(tuned))
    if tuned.batches is not None:
        sections.append(Rows(batch_table(tuned.batches), BATCHES, limit=20, remark=batch_remark(tuned.batches)))
    advised = advice_section(tuned.advice)
    if advised is not None:
        sections.append(advised)
    sections.append(Text("How it was measured", _how(tuned)))
    return Page(ID, TITLE, QUESTION, headline(tuned), tuple(sections))


def findings_of(tuned: Tuning) -> tuple[Finding, ...]:
    """What was proven, as the first thing to change; where nothing was, what is expected of optimisations that were not raced."""
    found = tuned.climbed.gain
    if found is None:
        return tuple(_expected(tuned))
    bound = f"95% CI of the time per step that is saved, measured on {found.rounds} fresh rounds"
    return (
        Finding(
            id="tune.kept",
            severity=Severity.HIGH,
            sentence=f"Speed-up {found.ratio:.2f}x, 95% CI {found.low:.2f} to {found.high:.2f}.",
            action=f"{'; '.join(tuned.recipe)}. The option --patch FILE writes it into the source.",
            evidence=(Evidence("ratio to the program as it was", found.ratio, Unit.RATIO, f"{ID}.ladder"),),
            saving=raced(found.low, found.high, bound),
        ),
    )


def _expected(tuned: Tuning) -> Iterator[Finding]:
    """What the limits predict, where no race has decided."""
    model = tuned.climbed.limits.model_ratio if tuned.climbed.limits is not None else None
    undecided = {tried.id for tried in tuned.climbed.tried if tried.decision == NOT_RACED}
    for outlook in tuned.climbed.expected:
        if model is None or outlook.change.id not in undecided:
            continue
        saving = outlook.saving
        yield Finding(
            id=f"tune.{outlook.change.id}",
            severity=Severity.HIGH if saving.low >= 0.2 else Severity.MODERATE if saving.low >= 0.05 else Severity.POTENTIAL,
            sentence=f"{outlook.change.title} has an estimated saving of {saving} of the step time. {outlook.change.why}",
            action="Run 'outpace tune' without --only-limits: it measures the speed-up and writes the patch.",
            evidence=(Evidence("the model alone, relative to today's rate", model.ratio, Unit.RATIO, f"{ID}.tried"),),
            saving=Saving(max(saving.low, 0.0), max(saving.high, 0.0), (), saving.bound),
        )


def headline(tuned: Tuning) -> str:
    """The outcome in a sentence or two."""
    climbed = tuned.climbed
    found = climbed.gain
    if found is None:
        return _nothing_kept(tuned) + (f" {climbed.beside.sentence}" if climbed.beside is not None else "")
    names = " and ".join(change.title for change in tuned.best.changes)
    what = "Input speed-up" if not tuned.program.trains else "Speed-up"
    return f"{what} {found.ratio:.2f}x, 95% CI {found.low:.2f} to {found.high:.2f}, with: {names}. {bounds_of(tuned)}".strip()


def bounds_of(tuned: Tuning) -> str:
    """How near the best variant is to the limits, in a sentence; empty where that is not known."""
    climbed = tuned.climbed
    limits = climbed.reached
    if limits is None or limits.of_turns is None or limits.reached is None:
        return f"Before: {climbed.beside.sentence}" if climbed.beside is not None else ""
    return (
        f"By the search that is {_share(limits.reached)} of the overlapped bound (input and model fully overlapped), "
        f"and {_share(limits.of_turns)} of the serial bound (one after the other)."
    )


def _break_even(tuned: Tuning) -> Iterator[Text]:
    """After how many steps the longer first call has paid for itself, where it is clearly longer."""
    steps, planned = tuned.climbed.break_even_steps, tuned.program.steps
    if steps is None:
        return
    said = f"The first call, which traces and compiles, takes longer, and pays off after {counted(steps, 'step')}."
    if planned is not None:
        said += f" This fit makes {planned:,}{', too few for that' if planned < steps else ''}."
    yield Text("Break-even", said)


def _nothing_kept(tuned: Tuning) -> str:
    """Why nothing was kept, with what is expected of optimisations that were not raced."""
    climbed = tuned.climbed
    if climbed.final is not None:  # something seemed or might be faster; its first rung stands for all of them
        verdict = climbed.final.verdicts[0]
        said = f"{verdict.arm} seemed faster, or might be, but the last race says: {verdict.reason}"
        return f"Nothing was proven to make the {tuned.work} faster. {said}{_holding(tuned)}"
    outlook = next(_expected(tuned), None)
    if outlook is not None:
        return f"{outlook.sentence} It was not raced: {climbed.ended}."
    model = climbed.limits.model_ratio if climbed.limits is not None else None
    if model is not None and len(climbed.races) == 1:
        low, high = (max(0.0, 1 - 1 / end) for end in (model.low, model.high))
        what = "any input" if tuned.program.limited else "what the loop does around it"
        around = _busiest(tuned) if not tuned.program.limited and model.low >= BOUND else ""
        shorter = f"would be {low:.0%} to {high:.0%} shorter" if high >= 0.005 else "takes as long"
        return f"Without {what} a step {shorter}. Nothing was raced: {climbed.ended}.{_largest(tuned)}{around}"
    return f"Nothing was proven to make the {tuned.work} faster ({climbed.ended}).{_holding(tuned)}"


def _largest(tuned: Tuning) -> str:
    """What takes most of the model's time, as a further sentence; empty where that was not looked at."""
    rows = list(tuned.parts.records())[:3] if tuned.parts is not None else []
    named = ", ".join(f"{row['part']} {row['share']:.0%}" for row in rows)
    return f" The model is the bottleneck: {named} of the step." if named else ""


def _holding(tuned: Tuning) -> str:
    """What holds the program back, as a further sentence: the largest parts of its model, or its input; empty where neither is clear."""
    largest = _largest(tuned)
    if largest:
        return largest
    model = tuned.climbed.limits.model_ratio if tuned.climbed.limits is not None else None
    if model is None or model.low < BOUND:
        return ""
    low, high = (1 - 1 / end for end in (model.low, model.high))
    if not tuned.program.limited:
        around = "what the loop does around its step, as its input: without it"
        return f" The bottleneck is {around} a step is {low:.0%} to {high:.0%} shorter.{_busiest(tuned)}"
    return f" The input is the bottleneck: with its batch in memory a step is {low:.0%} to {high:.0%} shorter."


def _busiest(tuned: Tuning) -> str:
    """The lines of a loop that take most of its time, as a further sentence; empty where that was not looked at."""
    rows = list(tuned.climbed.lines.records())[:3] if tuned.climbed.lines is not None else []
    named = ", ".join(f"{row['share']:.0%} in {row['line']} ({row['function']})" for row in rows if row["share"] >= _MUCH)
    return f" A step spends {named}." if named else ""


def _share(estimate: Estimate) -> str:
    return f"{estimate.ratio:.0%} (95% CI {estimate.low:.0%} to {estimate.high:.0%})"


def _limits(tuned: Tuning) -> list[Figures]:
    """The limits before and after."""
    found = [_beside(tuned.climbed.beside)] if tuned.climbed.beside is not None else []
    for title, limits in (("Limits", tuned.climbed.limits), ("Limits afterwards", tuned.climbed.reached)):
        if limits is None:
            continue
        own = "As it is" if limits is tuned.climbed.limits else "As it is now"
        times = "today's" if limits is tuned.climbed.limits else "its own"
        unit = Unit.COUNT if max(limits.model, limits.input) >= 1000 else Unit.RATIO
        items = (
            Figure(own, limits.rate, unit, "steps per second"),
            Figure("Model alone", limits.model, unit, f"{_alone(tuned)}{_times(limits.model_ratio, times)}"),
            Figure("Input alone", limits.input, unit, f"read without training{_times(limits.input_ratio, times)}"),
            Figure(
                "Serial bound",
                limits.turns,
                unit,
                f"model and input one after the other{_times(limits.turns_ratio, times)}",
            ),
            Figure("Overlapped bound", limits.bound, unit, f"{BOUNDS[limits.decided]}{_times(limits.bound_ratio, times)}"),
        )
        known = (limits.rate, limits.model, limits.input, limits.turns, limits.bound)
        measured = tuple(item for item, value in zip(items, known, strict=True) if not math.isnan(value))
        found += [Figures(title, measured)] if measured else []
    return found


def _alone(tuned: Tuning) -> str:
    """What the model alone is run on."""
    return "on a batch in memory" if tuned.program.limited else "its function called again, with arguments in memory"


def _beside(beside: Beside) -> Figures:
    unit = Unit.COUNT if max(beside.model, beside.input) >= 1000 else Unit.RATIO
    items = (
        Figure("Model alone", beside.model, unit, "steps per second, in a fit on a batch in memory"),
        Figure("Input alone", beside.input, unit, "batches per second, read without training"),
    )
    return Figures("Limits", items)


BOUNDS = {
    "model": "limited by the model",
    "input": "limited by the input",
    "cores": "limited by the processor time of both on all cores",
    "": "not known",
}


def _times(estimate: Estimate | None, whose: str) -> str:
    return f"; {estimate.low:.2f} to {estimate.high:.2f} times {whose}" if estimate is not None else ""


def _ladder(tuned: Tuning) -> Table:
    rows = []
    for rung in tuned.climbed.ladder:
        step, total = (((e.ratio, e.low, e.high) if e is not None else (_NAN, _NAN, _NAN)) for e in (rung.step, rung.total))
        rows.append((rung.change.title, rung.rate, *step, *total))
    return Table.from_rows("ladder", "What was kept", LADDER, rows)


def _tried(tuned: Tuning) -> Table:
    kept = tuned.best.practices
    return Table.from_rows("tried", "What was tried", TRIED, [row_of(t, t.id in kept) for t in _sorted(tuned)])


def row_of(tried: Tried, kept: bool) -> tuple[object, ...]:
    """An optimisation in the columns `TRIED`."""
    outcome, ratio = "kept" if kept else tried.decision, tried.ratio or (_NAN, _NAN, _NAN)
    return (tried.title, outcome, *ratio, tried.why or tried.reason, tried.reason if tried.why else "")


def _not_applicable(tuned: Tuning) -> list[Section]:
    """What is not for this program, with the reasons; those of the input by name where they are many, the reasons in the table alone."""
    those = [tried for tried in _sorted(tuned) if tried.decision == NotApplicable.word]
    of_input = {rewrite.id for rewrite in all_rewrites()}
    named = [tried.title for tried in those if tried.id in of_input]
    told = [why_of(tried) for tried in those if tried.id not in of_input or len(named) <= _FEW]
    if len(named) > _FEW:
        told.append(f"Of the input: {', '.join(named)}. Why, of each: in the table above, in the HTML, CSV and JSON reports.")
    return [Text("Not for this program", "\n".join(told))] if told else []


def why_of(tried: Tried) -> str:
    """What an optimisation answers here and what the race said, or why it was not raced, in a line."""
    return " ".join(
        [f"{tried.title}:", *(f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in (tried.why, tried.reason) if text)]
    )


def _sorted(tuned: Tuning) -> list[Tried]:
    """What was kept first, then what was raced; what is not for this program last."""
    kept = tuned.best.practices
    return sorted(tuned.climbed.tried, key=lambda t: (t.id not in kept, t.ratio is None, t.decision == NotApplicable.word))


def _uncalled(own: Sequence[str]) -> str:
    """What the rates leave out."""
    return (
        f"{' and '.join(own)} of yours {'acts' if len(own) == 1 else 'act'} on each batch. Callbacks of yours are not called while variants "
        "are raced, so that they write nothing: 'outpace profile' shows what they take of a step."
    )


def _how(tuned: Tuning) -> str:
    climbed = tuned.climbed
    races = len(climbed.experiments)
    return (
        f"{counted(races, 'race')} of short paired blocks in random order, each with the baseline a second time, in "
        f"{climbed.seconds:.0f} s; it ended because {climbed.ended}. A difference counts from 3% on, and is confirmed on fresh rounds; "
        f"what was kept was raced against the start once more, on fresh rounds, beside its limits."
    )


BATCH_FIELDS = (
    Field("batch", Unit.COUNT, "examples in a batch"),
    Field("rate", Unit.RATIO, "examples per second, median of the rounds", "Examples per second"),
    Field("ratio", Unit.RATIO, "examples per second / those of the program's own batch"),
    Field("low", Unit.RATIO, "lower end of the 95% CI", "From"),
    Field("high", Unit.RATIO, "upper end of it", "To"),
    Field("memory", Unit.BYTES, "bytes that the process took on when this size first ran, an estimate"),
    Field("verdict", Unit.TEXT, "the race's verdict per example"),
    Field("why", Unit.TEXT, "what the race says"),
)


def batch_table(found: BatchSizes) -> Table:
    """One row per size, the program's own first; its ratio is 1 by definition."""
    return Table.from_rows(
        "batch_sizes", "Larger batches", BATCH_FIELDS, [_batch_row(size, found.experiment) for size in found.reached.sizes]
    )


def batch_remark(found: BatchSizes) -> str:
    """Why there is no larger size, and what a larger batch asks of the learning rate."""
    return f"{found.reached.ended} {found.advice} None of this is applied."


def _batch_row(size: Size, experiment: Experiment | None) -> tuple[object, ...]:
    if experiment is None:
        return (size.batch, size.rate, 1.0, _NAN, _NAN, size.grown, "the program's own", "a first look, no race")
    if size.name == experiment.baseline:
        rates = sorted(experiment.reference(Phase.SEARCH).values())
        rate = rates[len(rates) // 2] if rates else _NAN
        return (size.batch, rate, 1.0, _NAN, _NAN, size.grown, "the program's own", "")
    verdict = experiment.verdict(size.name)
    estimate = verdict.estimate
    ratio = (estimate.ratio, estimate.low, estimate.high) if estimate is not None else (_NAN, _NAN, _NAN)
    rate = verdict.rate if verdict.rate is not None else _NAN
    return (size.batch, rate, *ratio, size.grown, verdict.decision.value, verdict.reason)


ADVICE_FIELDS = (
    Field("practice", Unit.TEXT, "what the guides recommend", "Optimisation"),
    Field("here", Unit.TEXT, "what it would mean for this program", "For this program"),
    Field("reason", Unit.TEXT, "why it is advice, and was not tried", "Why it was not tried"),
    Field("source", Unit.TEXT, "the text that recommends it"),
)


def advice_section(advice: Sequence[Advice]) -> Rows | None:
    """A table with a row for each; None for none."""
    if not advice:
        return None
    rows = [(one.title, one.sentence, one.reason, one.source) for one in advice]
    return Rows(Table.from_rows("advice", "Advice, not tried", ADVICE_FIELDS, rows), ("practice", "here", "reason"), limit=20)
