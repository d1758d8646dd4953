# SPDX-License-Identifier: Apache-2.0
"""The report of a tuning: what is known of the edited script, the limits, what was tried and why it
was kept or not, and how to keep it.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from outpace.model import (
    Evidence,
    Figure,
    Figures,
    Finding,
    Page,
    Paragraph,
    Row,
    Section,
    Severity,
    Table,
    TableType,
    TableView,
    Unit,
)
from outpace.model.report import Command, Report
from outpace.model.secret_masking import mask_secrets
from outpace.model.units import format_count
from outpace.stats.ratios import Estimate
from outpace.tune.climb.limits import BOUND
from outpace.tune.climb.outcome import NOT_PROVEN, OPT_IN, USED_UP, Climbed, Tried
from outpace.tune.optimisations import all_rewrites
from outpace.tune.optimisations.advice import Advice
from outpace.tune.optimisations.optimisation import NotApplicable
from outpace.tune.pages.race import raced
from outpace.tune.pages.tried import TRIED, row_of, why_of
from outpace.tune.proof import Proof
from outpace.tune.risk import CONSENTS
from outpace.tune.same import Standing
from outpace.tune.searched import Searched
from outpace.tune.trial.record import Decision, Experiment

ID, TITLE, DETAILS = "tune", "Tuning", "tune_details"
QUESTION = "How fast could this training be, what makes it faster, and what is that known from?"
KEPT = TableType("kept", "What is kept").columns("""
    * changes         | text     | what is kept
      standing        | text     | what that is known from: the whole training was compared, or some of its passes, or it is another \
                                   program that was allowed
      speed_up        | ratio    | rate of the edited script / rate of the script as it is
      low             | ratio    | lower end of the 95% CI | From
      high            | ratio    | upper end of it | To
      passes_compared | count    | passes of the training's loop, or batches of its fit, that both scripts made and that were compared
      passes          | count    | those of the whole training; nothing where nobody knows
      share           | fraction | the first of the second
""")
PARTS = ("part", "source", "share", "forward_ps", "backward_ps", "top_op")
LINES = ("line", "text", "share", "low", "high")
SAMPLED = "each sample of the training thread is the time of your innermost line, which calls or waits"
_MUCH = 0.1  # of a step, of a line that is named
_FEW = 4  # of which the reasons are told in the terminal, too
_MOST_SHOWN = 6  # rows of what was tried
_WHY = "--details says why each was tried or not"
_LONGER = 2  # times the budget
_RUNS = (100, 1000, 10_000)  # steps of runs that a gain is told of


def report_of(plan: Mapping[str, Any], searched: Searched, proof: Proof | None) -> Report:
    """The report of a search, with the proof's own words where there was something to prove."""
    climbed, kept = searched.climbed, _kept(proof)
    recipe = [line for change in kept for line in change.recipe]
    sections: list[Section] = [Paragraph("What was compared", _proof(searched, proof))] if proof is not None else []
    sections += _limits(climbed)
    ordered = _sorted(climbed, kept)
    table = TRIED.build(_row(each, kept, searched) for each in ordered)
    shown = sum(each.ratio is not None or each.id in {change.id for change in kept} for each in ordered)
    sections.append(
        TableView(table, ("practice", "outcome", "ratio", "low", "high"), limit=min(max(1, shown), _MOST_SHOWN), remark=_WHY)
    )
    if recipe:
        sections.append(Paragraph("How to keep it", "\n".join(f"{at}. {line}" for at, line in enumerate(recipe, start=1))))
    elif climbed.lines is not None:
        sections.append(TableView(climbed.lines, LINES, limit=3, remark=SAMPLED))
    said = headline(searched, proof)
    page = Page(ID, TITLE, QUESTION, said, tuple(sections))
    pages = (page, _details(climbed, kept, proof))
    return Report(plan["script"], said, (), tuple(_findings(proof, recipe)), pages, next=tuple(_next(plan, searched)))


def _details(climbed: Climbed, kept: Sequence[Any], proof: Proof | None) -> Page:
    """The reasons, the places and how it was measured."""
    shown = [each for each in _sorted(climbed, kept) if each.decision != NotApplicable.word]
    sections: list[Section] = (
        [TableView(_known(proof), tuple(field.name for field in KEPT.fields))] if kept and proof is not None else []
    )
    sections += [Paragraph("Why", "\n".join(map(why_of, shown)))] if shown else []
    sections += _not_applicable(climbed)
    if climbed.own:
        sections.append(Paragraph("In none of these rates", _uncalled(climbed.own)))
    if climbed.lines is not None:
        sections.append(TableView(climbed.lines, LINES, limit=6, remark=SAMPLED))
    if climbed.parts is not None:
        sections.append(TableView(climbed.parts, PARTS, limit=6, remark="of one step, under the profiler"))
    advised = advice_section(climbed.advice)
    if advised is not None:
        sections.append(advised)
    sections.append(Paragraph("How it was measured", _how(climbed)))
    return Page(
        DETAILS,
        "Tuning, in detail",
        "Why was each optimisation tried or not, and where does a step's time go?",
        "",
        tuple(sections),
    )


def _known(proof: Proof) -> Table:
    """What is kept, what it gains, and what that is known from."""
    assert proof.stack is not None and proof.gain is not None and proof.standing is not None
    judged, found = proof.judgement, proof.gain
    share = judged.share if proof.standing is not Standing.ALLOWED else None
    row = KEPT.row(
        found,
        changes=", ".join(proof.stack.titles),
        standing=proof.standing.value,
        speed_up=found.ratio,
        passes_compared=judged.made or math.nan,
        passes=judged.length or math.nan,
        share=math.nan if share is None else share,
    )
    return KEPT.build([row])


def headline(searched: Searched, proof: Proof | None) -> str:
    """The outcome in a sentence or two, and what consent would bring."""
    first = next(iter(_opt_in(searched.climbed)), None)
    if first is None or first.ratio is None:
        return _outcome(searched, proof)
    so = f"{first.title} seemed {first.ratio[0]:.2f} times faster, with {CONSENTS[first.consent]}: --allow {first.consent}."
    return f"{_outcome(searched, proof)} {so}"


def _outcome(searched: Searched, proof: Proof | None) -> str:
    climbed = searched.climbed
    if proof is None:
        return _nothing_tried(climbed)
    if proof.stack is None or proof.gain is None:
        assert searched.stack is not None
        return f"Nothing is kept: {searched.stack.name} seemed {searched.seen:.2f} times faster in the search. {proof.why}"
    return proof.gained


def _kept(proof: Proof | None) -> Sequence[Any]:
    return proof.stack.changes if proof is not None and proof.stack is not None else ()


def _proof(searched: Searched, proof: Proof) -> str:
    """What was compared and raced, in sentences."""
    judged = proof.judgement
    if judged.same is None:
        first = f"It is not proven to be the same program. {judged.why}"
    elif judged.same is False:
        first = judged.why
    elif judged.allowed:
        first = f"It was not shown to be the same program, which was allowed; it runs. {judged.why}"
    else:
        what = "The edited script is the same program" if judged.standing is Standing.PROVEN else "No difference was found"
        first = f"{what}: {judged.sentence}."
    lines = [first]
    if proof.race is not None:
        lines.append("The edited script was raced against the original, both as processes of their own, over their own input.")
    if proof.race is not None and proof.stack is not None:
        lines += _of_runs(proof.race, proof.stack.name, judged.known_length)
    if proof.dropped:
        lines.append(f"Taken out: {', '.join(proof.dropped)}. {proof.because}")
    return "\n".join(lines)


def _of_runs(race: Experiment, arm: str, length: int) -> Iterator[str]:
    """What the gain of a step is of whole runs: a first call may take longer, and an epoch that
    fills a cache is as slow as before. length: steps of the training; 0 where that is not known.
    """
    runs = sorted({*_RUNS, *([length] if length else [])})
    known = [(steps, ratio) for steps in runs if (ratio := race.of_run(arm, steps)) is not None]
    if known:
        told = ", ".join(f"{ratio:.2f}x of {'all ' * (steps == length)}{steps:,} steps" for steps, ratio in known)
        yield f"Of whole runs, from the first call on: {told}."


def _findings(proof: Proof | None, recipe: Sequence[str]) -> Iterator[Finding]:
    """What is kept, as the first thing to change."""
    if proof is None or proof.gain is None:
        return
    found = proof.gain
    caveats = {
        Standing.COMPARED: (f"compared in {proof.judgement.extent}: what only shows in others is not known",),
        Standing.ALLOWED: ("it is another program, which was allowed",),
    }
    bound = f"95% CI of the time per step that is saved, measured on {found.rounds} fresh rounds of the edited script"
    yield Finding(
        id="tune.kept",
        severity=Severity.HIGH,
        sentence=proof.gained,
        action=f"{'; '.join(recipe)}. The option --patch FILE writes it into the source.",
        evidence=(Evidence("ratio to the program as it was", found.ratio, Unit.RATIO, f"{DETAILS}.kept"),),
        counter_evidence=caveats.get(proof.standing, ()) if proof.standing is not None else (),
        saving=raced(found.low, found.high, bound),
    )


def _nothing_tried(climbed: Climbed) -> str:
    """Why nothing was kept, and what takes the program's time."""
    model = climbed.limits.model_ratio if climbed.limits is not None else None
    if model is not None:
        low, high = (max(0.0, 1 - 1 / end) for end in (model.low, model.high))
        shorter = f"would be {low:.0%} to {high:.0%} shorter" if high >= 0.005 else "takes as long"
        return f"Without any input a step {shorter}. Nothing was raced: {climbed.ended}.{_largest(climbed)}{_busiest(climbed)}"
    refused = [each for each in climbed.tried if each.decision == NOT_PROVEN and each.ratio is not None]
    if refused:
        first = max(refused, key=lambda each: each.ratio or ())
        others = f" Nor is {' or '.join(each.title for each in refused if each is not first)}." if len(refused) > 1 else ""
        seemed = f"{first.title} seemed {first.ratio[0]:.2f} times faster in the search" if first.ratio else ""
        return f"Nothing is kept: {seemed}, and is not shown to be the same program. {first.reason}{others}"
    if undecided := _undecided(climbed):
        return f"Nothing was decided. {undecided}{_busiest(climbed)}"
    return f"Nothing was found that makes the training faster ({climbed.ended}).{_busiest(climbed)}"


def _undecided(climbed: Climbed) -> str:
    """What a race could not judge, and what was not raced, in sentences; empty where all that could
    be raced was judged.
    """
    refused = sorted((each for each in climbed.tried if each.decision == Decision.REFUSED.value), key=_seeming)
    seemed = [
        f"{each.title}: {r[0]:.2f} times the speed ({r[1]:.2f} to {r[2]:.2f})"
        if (r := each.ratio)
        else f"{each.title}: too few rounds"
        for each in refused
    ]
    left = [each.title for each in climbed.tried if each.reason == USED_UP]
    raced = f"{'; '.join(seemed[:_FEW])}." if seemed else ""
    return " ".join(filter(None, (raced, f"Not raced for want of time: {', '.join(left)}." if left else "")))


def _seeming(tried: Tried) -> float:
    """Sorts what seemed fastest first."""
    return -tried.ratio[0] if tried.ratio else 0.0


def _largest(climbed: Climbed) -> str:
    """What takes most of the model's time, as a further sentence; empty where that was not looked
    at.
    """
    model = climbed.limits.model_ratio if climbed.limits is not None else None
    rows = list(climbed.parts.records())[:3] if climbed.parts is not None and model is not None and model.low <= BOUND else []
    named = ", ".join(f"{row['part']} {row['share']:.0%}" for row in rows)
    return f" The model is the bottleneck: {named} of the step." if named else ""


def _busiest(climbed: Climbed) -> str:
    """The lines of a loop that take most of its time, as a further sentence; empty where that was
    not looked at.
    """
    rows = list(climbed.lines.records())[:3] if climbed.lines is not None else []
    named = ", ".join(f"{row['share']:.0%} in {row['line']} ({row['function']})" for row in rows if row["share"] >= _MUCH)
    return f" A step spends {named}." if named else ""


BOUNDS = {
    "model": "limited by the model",
    "input": "limited by the input",
    "cores": "limited by the processor time of both on all cores",
    "": "not known",
}


def _limits(climbed: Climbed) -> list[Figures]:
    limits = climbed.limits
    if limits is None:
        return []
    unit = Unit.COUNT if max(limits.model, limits.input) >= 1000 else Unit.RATIO
    rows: tuple[tuple[str, float, str, Estimate | None], ...] = (
        ("As it is", limits.rate, "steps per second", None),
        ("Model alone", limits.model, "on a batch in memory", limits.model_ratio),
        ("Input alone", limits.input, "read without training", limits.input_ratio),
        ("Serial bound", limits.turns, "model and input one after the other", limits.turns_ratio),
        ("Overlapped bound", limits.bound, BOUNDS[limits.decided], limits.bound_ratio),
    )
    known = [Figure(name, rate, unit, said + _times(ratio)) for name, rate, said, ratio in rows if not math.isnan(rate)]
    return [Figures("Limits", tuple(known))] if known else []


def _times(estimate: Estimate | None) -> str:
    return f"; {estimate.low:.2f} to {estimate.high:.2f} times today's" if estimate is not None else ""


def _row(tried: Tried, kept: Sequence[Any], searched: Searched) -> Row:
    seemed = searched.stack is not None and any(each.id == tried.id for each in searched.stack.changes)
    outcome = "kept" if any(each.id == tried.id for each in kept) else NOT_PROVEN if seemed else tried.decision
    return row_of(tried, outcome)


def _not_applicable(climbed: Climbed) -> list[Section]:
    """What is not for this program, with the reasons; those of the input by name where they are
    many, the reasons in the table alone.
    """
    those = [tried for tried in climbed.tried if tried.decision == NotApplicable.word]
    of_input = {rewrite.id for rewrite in all_rewrites()}
    named = [tried.title for tried in those if tried.id in of_input]
    told = [why_of(tried) for tried in those if tried.id not in of_input or len(named) <= _FEW]
    if len(named) > _FEW:
        told.append(f"Of the input: {', '.join(named)}. Why, of each: in the table above, in the HTML, CSV and JSON reports.")
    return [Paragraph("Not for this program", "\n".join(told))] if told else []


def _sorted(climbed: Climbed, kept: Sequence[Any]) -> list[Tried]:
    """What was kept first, then what was raced; what is not for this program last."""
    ids = {each.id for each in kept}
    return sorted(climbed.tried, key=lambda each: (each.id not in ids, each.ratio is None, each.decision == NotApplicable.word))


def _uncalled(own: Sequence[str]) -> str:
    """What the rates leave out."""
    return f"{' and '.join(own)} of yours {'acts' if len(own) == 1 else 'act'} on each batch: 'outpace profile' shows what they take of a step."


def _how(climbed: Climbed) -> str:
    races = len(climbed.races)
    return (
        f"{format_count(races, 'race')} of short paired blocks in random order, of processes that run edited texts of the script, each with "
        f"the baseline a second time, in {climbed.seconds:.0f} s; it ended because {climbed.ended}. A difference counts from 3% on. "
        "Its CIs are a little too narrow, because a race of the search is judged more than once: what was found is compared and raced "
        "anew afterwards, as an edited script."
    )


def _next(plan: Mapping[str, Any], searched: Searched) -> Iterator[Command]:
    """A longer tuning where the budget was used up, and one with each class of consent that would
    gain something, the largest first.
    """
    if plan["only_limits"]:
        return
    allowed, climbed = [word for each in plan["allow"] for word in ("--allow", each)], searched.climbed
    if late := [tried.title for tried in climbed.tried if tried.reason == USED_UP]:
        longer = ["--budget", f"{_LONGER * plan['budget']:.0f}s"]
        yield _again(plan, [*allowed, *longer], f"has time for what was not raced: {', '.join(late)}")
    budget = ["--budget", plan["asked_budget"]] if plan["asked_budget"] else []
    opt_in = _opt_in(climbed)
    for consent in dict.fromkeys(each.consent for each in opt_in):
        those = [each for each in opt_in if each.consent == consent]
        gains = ", ".join(f"{each.title} seemed {each.ratio[0]:.2f} times faster" for each in those if each.ratio)
        yield _again(plan, [*allowed, "--allow", consent, *budget], f"{CONSENTS[consent]}: {gains}")


def _opt_in(climbed: Climbed) -> list[Tried]:
    """What seemed faster and may only be kept with consent, the fastest first."""
    those = [each for each in climbed.tried if each.decision == OPT_IN]
    return sorted(those, key=lambda each: each.ratio or (), reverse=True)


def _again(plan: Mapping[str, Any], options: Sequence[str], what: str) -> Command:
    """The same tuning with other options."""
    fit = ["--fit", str(plan["fit"])] if plan["fit"] != 1 else []
    module = ["-m"] * plan["module"]
    given = plan["argv"] if plan["show_secrets"] else mask_secrets(plan["argv"])
    return Command(shlex.join(["outpace", "tune", *options, *fit, *module, plan["script"], *given]), what)


ADVICE = TableType("advice", "Advice, not tried").columns("""
    * practice | text | what the guides recommend | Optimisation
      here     | text | what it would mean for this program | For this program
      reason   | text | why it is advice, and was not tried | Why it was not tried
      source   | text | the text that recommends it
""")


def advice_section(advice: Sequence[Advice]) -> TableView | None:
    """A table with a row for each; None for none."""
    if not advice:
        return None
    rows = (ADVICE.row(one, practice=one.title, here=one.sentence) for one in advice)
    return TableView(ADVICE.build(rows), ("practice", "here", "reason"), limit=20)
