"""What the script's process hands over: what its search found, as edits of the source, and the report of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from outpace.capture.recording import tell
from outpace.model.errors import UsageError
from outpace.model.report import Command, Report
from outpace.tune.climb.climb import NEAR
from outpace.tune.climb.limits import BOUND
from outpace.tune.climb.outcome import USED_UP, Climbed, Tuning
from outpace.tune.climb.variant import Variant
from outpace.tune.data.verify import Risk
from outpace.tune.loop.weave import SEVERAL
from outpace.tune.optimisations import knobs
from outpace.tune.optimisations.optimisation import NeedsConsent
from outpace.tune.pages.environment import page_of_plain
from outpace.tune.pages.tuning import bounds_of, findings_of, page_of
from outpace.tune.patch.make import SourcePatch, patch_of
from outpace.tune.reason import reason_of
from outpace.tune.searched import Searched, Stack
from outpace.tune.texts.place import Place


def searched_of(plan: Mapping[str, Any], tuned: Tuning, place: Place | None, seconds: float, unwritten: str) -> Searched:
    """place: of the loop that trains; that of a `fit` has no file. seconds: of the search. unwritten: what
    the script did not write meanwhile, in a sentence."""
    stack, fewer, left = _stacks(tuned)
    gain = tuned.climbed.gain
    nothing = replace(tuned, climbed=_nothing(tuned.climbed), recipe=())
    return Searched(
        kept=_report(plan, tuned),
        without=_report(plan, nothing),
        stack=stack,
        fewer=fewer,
        place=place,
        fit=plan["fit"],
        seen=gain.ratio if gain is not None else 1.0,
        bounds=bounds_of(tuned),
        consents=tuned.best.risk is Risk.STATISTICAL,
        step_seconds=tuned.program.step_seconds or 0.0,
        races=tuned.climbed.experiments,
        left=left,
        seconds=seconds,
        unwritten=unwritten,
    )


def _report(plan: Mapping[str, Any], tuned: Tuning) -> Report:
    environment = plan.get("environment")
    page, others = page_of(tuned), [page_of_plain(environment)] if environment else []
    next = following(tuned.climbed, plan)
    return Report(plan["script"], page.headline, (), findings_of(tuned), (page, *others), next=next)


def _nothing(climbed: Climbed) -> Climbed:
    """The same where nothing was kept."""
    kept = climbed.best.practices
    tried = tuple(each.unproven() if each.id in kept else each for each in climbed.tried)
    start = climbed.best
    while start.base is not None:
        start = start.base
    return replace(climbed, tried=tried, best=start, ladder=(), reached=None, lines=None)


def _stacks(tuned: Tuning) -> tuple[Stack | None, tuple[Stack, ...], tuple[str, ...]]:
    """What was kept as an edit; the same without each of its changes; what no edit can make."""
    if not tuned.best.changes:
        return None, (), ()
    patch = patch_of(tuned.program, tuned.best, tuned.recorder)
    left = tuple(each.sentence for each in patch.left)
    whole = _stack(tuned, tuned.best, patch)
    if whole is None:
        return None, (), left
    changes, fewer = [each for each in tuned.best.changes if each.title in patch.titles], []
    for at in range(len(changes)) if len(changes) > 1 else ():
        rest = replace(tuned.best, changes=tuple(changes[:at] + changes[at + 1 :]))
        try:
            made = _stack(tuned, rest, patch_of(tuned.program, rest, tuned.recorder))
        except (UsageError, KeyError, ValueError, AssertionError, AttributeError) as error:  # one stands on another
            tell(f"{changes[at].title} cannot be taken out alone: {reason_of(error)}")
            continue
        if made is not None and len(made.titles) == len(changes) - 1:
            fewer.append(made)
    return whole, tuple(fewer), left


def _stack(tuned: Tuning, variant: Variant, patch: SourcePatch) -> Stack | None:
    if not patch.files:
        return None
    held = [each for each in variant.changes if each.title in patch.titles]
    loop = tuned.program.loop
    grouped = loop is not None and loop.woven is not None and any(getattr(each.knob, "turns", "") == SEVERAL for each in held)
    every = loop.woven.per_call if grouped and loop is not None and loop.woven is not None else 1
    for each in held:
        if each.knob is not None and not each.knob.loops:
            said = each.knob.keywords(tuned.program).get("steps_per_execution", "")
            every = max(every, int(said) if said.isdigit() else 1)
    return Stack(tuple(each.id for each in held), tuple(each.title for each in held), patch, grouped, every)


_LONGER = 2  # times the budget
_COMPILED = "loop_jit"


def following(climbed: Climbed, plan: Mapping[str, Any]) -> tuple[Command, ...]:
    """A longer tuning where the budget was used up, one that allows what was left out, where that may help, and that of the patched script,
    where a step of JAX was compiled: that it gives its state away is not raced on top.

    `plan` holds the script and the options that it was tuned with.
    """
    if plan["only_limits"]:
        return ()
    allowed, asked = ["--allow", "statistical"], plan["asked_budget"]
    found = []
    if late := [tried.title for tried in climbed.tried if tried.reason == USED_UP]:
        longer = ["--budget", f"{_LONGER * plan['budget']:.0f}s"]
        found.append(
            _again(plan, [*allowed * plan["statistical"], *longer], f"has time for what was not raced: {', '.join(late)}")
        )
    if _COMPILED in climbed.best.practices:
        found.append(_again(plan, [], "once the patch is applied: may give the compiled step's state away"))
    if titles := list(worth_allowing(climbed)):
        budget = ["--budget", asked] if asked else []
        found.append(_again(plan, [*allowed, *budget], f"may change results: {', '.join(titles)}"))
    return tuple(found)


def _again(plan: Mapping[str, Any], options: Sequence[str], what: str) -> Command:
    """The same tuning with other options."""
    fit = ["--fit", str(plan["fit"])] if plan["fit"] != 1 else []
    module = ["-m"] * plan["module"]
    return Command(shlex.join(["outpace", "tune", *options, *fit, *module, plan["script"], *plan["argv"]]), what)


def worth_allowing(climbed: Climbed) -> Iterator[str]:
    """Titles of what was left out and is about the part of the program that holds it back, as far as that is known."""
    model_options = {knob.id for knob in knobs() if not knob.reads}
    limits = climbed.reached or climbed.limits
    ratio = limits.model_ratio if limits is not None else None
    for tried in climbed.tried:
        if tried.decision != NeedsConsent.word:
            continue
        if ratio is None or (ratio.low <= BOUND if tried.id in model_options else ratio.high >= 1 / NEAR):
            yield tried.title
