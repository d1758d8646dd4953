# SPDX-License-Identifier: Apache-2.0
"""The search: look at the script as it trains, race the edits that answer what holds it back, put
together what seems faster, and look again.

A candidate is an edit of the source, and a race is one of processes that run edited texts
(`trial`). What seems faster and is another program in its first steps goes at once, so that nothing
is built on it. What is found here is a suspicion: the proof is made afterwards, of the texts that
are left.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from outpace.capture.interpreter import python_command
from outpace.capture.options import ScriptOutcome
from outpace.capture.runner import run_process
from outpace.model.errors import CaptureError
from outpace.tune.climb.candidates import Candidate
from outpace.tune.climb.choice import FEW, Budget, Choice
from outpace.tune.climb.limits import FRESH, INPUT, MODEL, SCREEN, TODAY, Limits, limits_of
from outpace.tune.climb.outcome import NOT_PROVEN, NOT_RACED, OPT_IN, USED_UP, Climbed, Tried
from outpace.tune.deadline import FIRST_EPOCH, LEAST_RACE
from outpace.tune.optimisations.advice import advice_on
from outpace.tune.proof import LEAST_COMPARED, Originals
from outpace.tune.searched import Searched, Seen, Stack
from outpace.tune.texts.edition import Edition
from outpace.tune.texts.load import source_of
from outpace.tune.texts.merge import Texts, merged
from outpace.tune.texts.place import Place
from outpace.tune.trial.engine import Watch, run_experiment
from outpace.tune.trial.passes import INPUT as INPUT_ALONE
from outpace.tune.trial.passes import MODEL as MODEL_ALONE
from outpace.tune.trial.record import Decision, Experiment, Phase, Protocol, Verdict
from outpace.tune.trial.script import ScriptArm, room
from outpace.tune.trial.verdict import outrun

ENOUGH = 1.5  # lower end of a ratio that ends a race: what the others add to that is another question
SEARCH_SHARE = 0.55  # of the budget; the rest is for comparing the edited script, and its race
LONGEST_SHARE = 0.8  # of the budget, as long as nothing was found that could be compared
FIRST_RATIO = 30.0  # seconds until a first ratio is wanted: as many are raced at first as can be prepared until then
LATER_LOOK, LATER_SECONDS = 3, 30.0  # times what the first look took, and seconds more, for a later one
NO_LIMITS = "only the limits were asked for, and the training's input cannot be run alone"
SHARE_USED = "its share of the budget is used up"
_HOSTED, INTERRUPTED = "outpace.tune.hosted", 130


class Ended(Exception):
    """The script's process ended without anything to tune. code: its exit code; outcome: what it
    left.
    """

    def __init__(self, code: int, outcome: ScriptOutcome | None) -> None:
        super().__init__()
        self.code, self.outcome = code, outcome


class Climb:
    """One search of one script. plan: as the command was asked; folder: for files of ours. running:
    processes by the names of what they run; they end with the context.
    """

    def __init__(self, plan: Mapping[str, Any], folder: str, watch: Watch, originals: Originals) -> None:
        self.plan, self.folder, self.watch, self.originals = plan, folder, watch, originals
        self.command, deadline = originals.command, originals.deadline
        share = 1.0 if plan["only_limits"] else SEARCH_SHARE
        self.budget = Budget(share * deadline.seconds, time.monotonic, began=deadline.began)
        self.choice, self.tried = Choice(frozenset(plan["allow"])), dict[str, Tried]()
        self.races: list[Experiment] = []
        self.seen, self.code = Seen((), (), Place()), 0
        self.outcome: ScriptOutcome | None = None
        self.best = Stack((), {})
        self.sources: dict[str, str] = {}  # files that candidates edit, as they are on disk
        self.steps: list[tuple[Candidate, Texts, Texts]] = []  # kept; the texts that it was raced against, and these with it
        self.running: dict[str, ScriptArm] = {}
        self._looks, self._start_seconds, self.step_seconds = 0, 0.0, 0.0

    def __enter__(self) -> Climb:
        return self

    def __exit__(self, *details: object) -> None:
        self._forget(*self.running)

    def run(self) -> Searched | None:
        """Search; None for a dry run. Raises Ended where there is nothing to tune, CaptureError
        where the script fails in its trials.
        """
        self.watch.note(f"Starting {self.plan['script']} up to its training. No file of yours changes.")
        first = self.seen = self._look()
        self.step_seconds = first.step_seconds or 0.0
        if self.plan["dry_run"]:
            return None
        self.budget.preparing, self.budget.prepared = self._start_seconds, 1
        if self.plan["only_limits"]:
            limits = self._limits() if first.limited else None
            return self._found(first, limits, "only the limits were asked for" if first.limited else NO_LIMITS)
        self._say_how_many_are_raced()
        ended = self._climb()
        why = USED_UP if ended == SHARE_USED else f"the search ended before: {ended}"
        self._note([Tried(each.id, each.title, NOT_RACED, why) for each in self.seen.candidates if each.id not in self.tried])
        return self._found(first, None, ended)

    def _climb(self) -> str:
        """Race, and look again, until nothing is left to try; why it ended, as a clause."""
        raced = False
        while candidates := self._candidates():
            paid = self.budget.affordable(candidates) if raced else self._first_paid(candidates)
            if not paid and not self.best.changes:
                self.budget.seconds = max(self.budget.seconds, LONGEST_SHARE * self.originals.deadline.seconds)
                paid = self.budget.affordable(candidates)
            if not paid:
                return SHARE_USED
            if not raced:
                paid = paid[: self.budget.within(FIRST_RATIO)]
            before, raced = self.best, True
            try:
                self._race(paid)
            except CaptureError as error:
                if not self.best.changes:
                    raise
                return f"the script with what was found fails in its trials: {str(error).rstrip('.')}"
            if self.best is not before:
                self.choice.reopen()
                self._forget()
                if self.budget.left < self._start_seconds + self.budget.price(1):
                    return SHARE_USED
                self.seen = self._look(again=True)
        return "nothing else is left to try"

    def _first_paid(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """What the first race is paid for, which may take from the comparison's share."""
        first = candidates[:1] if self.budget.price(1, FEW) <= self.originals.deadline.left else ()
        return self.budget.affordable(candidates) or first

    def _say_how_many_are_raced(self) -> None:
        """Where the budget does not pay for a race of all candidates."""
        count = len(self.seen.candidates)
        wanted = self.budget.spent + self.budget.price(count) + self.budget.price(1)
        if count and wanted > self.budget.seconds:
            paid = len(self._first_paid(self.seen.candidates))
            pays = "one race" if paid == count else f"a race of {paid} of {count} changes"
            more = "a second one" if paid == count else "one of all, and for a second one"
            self.watch.note(
                f"A start of the script takes {self._start_seconds:.0f} s, so that this budget pays for {pays}; "
                f"--budget {math.ceil(wanted / SEARCH_SHARE / 10) * 10}s would pay for {more}."
            )

    def _look(self, again: bool = False) -> Seen:
        """Run the script as the best so far up to its training, and see what could be changed.
        Raises Ended where that comes to nothing.
        """
        self._looks += 1
        room = Path(self.folder) / f"look-{self._looks}"
        files = {"outcome": str(room / "outcome.json"), "found": str(room / "found"), "edition": ""}
        room.mkdir()
        if again:
            self.watch.note(f"Looking again, with {self.best.name}.")
            files["edition"] = str(Edition(self.best.texts, self.seen.place, self.plan["fit"]).write(room / "texts"))
        kept = [each.id for each in self.best.changes]
        began = time.monotonic()
        code, outcome = run_process(
            python_command(_HOSTED, json.dumps({**self.plan, **files, "kept": kept})),
            files["outcome"],
            hide_stderr=again,
            hide_stdout=again or self.plan.get("json", False),  # a document is all that is printed
            timeout=LATER_LOOK * self._start_seconds + LATER_SECONDS if again else None,
        )
        self._start_seconds = time.monotonic() - began
        found = Seen.read(files["found"]) if code != INTERRUPTED else None
        if code == INTERRUPTED and again:
            raise KeyboardInterrupt
        if not again:
            self.code, self.outcome = code, outcome
        if found is not None:
            if not again:
                self.originals.forks.imports = found.imports
            self._note(found.others)
            for path in {path for each in found.candidates for path in each.texts} - self.sources.keys():
                self.sources[path] = source_of(path)
            return replace(found, place=self.seen.place) if again else found  # the place is one of the original text
        if again:
            return replace(self.seen, candidates=())
        raise Ended(code, outcome)

    def _note(self, others: Sequence[Tried]) -> None:
        for each in others:
            if each.id not in self.tried or not self.tried[each.id].why:  # what a race has judged is known better
                self.tried[each.id] = each

    def _candidates(self) -> list[Candidate]:
        """What to race next."""
        kept = {change.id for change in self.best.changes}
        left = [each for each in self.seen.candidates if each.id not in kept and not self.choice.over(each.id)]
        return self.choice.next(left, self.seen.step_seconds, self.seen.input_share)

    def _limits(self) -> Limits:
        """Race the program as it is, its model alone, and its input alone."""
        self.watch.note("Measuring the speed limits: the model alone, the input alone, and the program as it is.")
        arms = [self._arm(TODAY, self.best), self._arm(MODEL, self.best, MODEL_ALONE), self._arm(INPUT, self.best, INPUT_ALONE)]
        race = self._raced(arms, TODAY, self.budget.left - len(arms) * self.budget.preparing, FRESH)
        return limits_of(race, race.reference(Phase.CONFIRM))

    def _race(self, candidates: Sequence[Candidate]) -> None:
        """Screen candidates against the best so far. What seems faster is put together, each on top
        of the faster ones; what does not go together with these waits for the next look.
        """
        base, name = self.best, self.best.name or TODAY
        names = {each.id: f"{name} + {each.title}" if base.changes else each.title for each in candidates}
        kept = [names[each.id] for each in candidates if self.choice.allows(each)]
        arms = [self._arm(name, base)]
        self.running[name].start()
        candidates = candidates[: max(1, room(self.running[name].memory))]
        self.watch.note(f"Racing {', '.join(each.title for each in candidates)} against {name}.")
        arms += [self._arm(names[each.id], Stack((*base.changes, each), {**base.texts, **each.texts})) for each in candidates]

        def outran(known: Experiment) -> bool:
            return any(outrun(known, other, ENOUGH) for other in kept)

        seconds = self.budget.for_race(len(candidates), sum(each.name not in self.running for each in arms))
        race = self._raced(arms, name, seconds, SCREEN, outran)
        if name == TODAY and (rates := race.reference(Phase.SEARCH)):  # of whole passes, where the look may have seen parts
            self.step_seconds = 1 / max(median(rates.values()), 1e-9)
        verdicts = {each.id: race.verdict(names[each.id]) for each in candidates}
        for each in candidates:
            if outran(race) and verdicts[each.id].decision is Decision.REFUSED:
                continue
            self.choice.learn(each, verdicts[each.id])
            self.tried[each.id] = Tried.judged(each.id, each.title, verdicts[each.id], each.why)
            self.watch.learned(each.title, verdicts[each.id])
        faster = [each for each in candidates if verdicts[each.id].decision is Decision.SEEMS_FASTER]
        winners = [each for each in faster if self.choice.allows(each)]
        for each in faster:
            if each not in winners:
                self.choice.close(each)
                reason = f"It seems faster than {name}, and changes what the training sees: --allow {each.consent} keeps it"
                self.tried[each.id] = replace(self.tried[each.id], decision=OPT_IN, reason=reason, consent=each.consent)
        for each in sorted(winners, key=lambda each: -_ratio(verdicts[each.id])):
            alone = {**base.texts, **each.texts}
            after = merged(base.texts, self.best.texts, alone)
            if after is None or not self._same(each, best := Stack((*self.best.changes, each), after)):
                continue
            self.steps.append((each, base.texts, alone))
            self.best = best
        if winners:
            self.budget.follow(race, names[winners[0].id])

    def _same(self, change: Candidate, stack: Stack) -> bool:
        """Whether a stack with one change more is the same program as far as its first steps show;
        what is not is told of that change.
        """
        if stack.consents:  # the proof compares what needs none
            return True
        if self.originals.deadline.left < self.budget.preparing + LEAST_COMPARED / 2:
            why = "No time was left to compare the edited script: give it a larger --budget."
        else:
            self.watch.note(f"Is it the same program with {change.title}? Running both, and comparing what they hold.")
            original = self.originals.of(self.seen.place, self.plan["fit"], self.step_seconds, stack)
            found = original.against(stack.texts, stack.grouped, stack.is_exact)
            if found.same is True:
                return True
            why = found.why
        self.watch.note(f"Not shown of {change.title}. {why}")
        self.choice.close(change)
        self.tried[change.id] = replace(self.tried[change.id], decision=NOT_PROVEN, reason=why)
        return False

    def _arm(self, name: str, stack: Stack, limit: str = "") -> Any:
        """The process of some texts as an arm, which lives on after the race."""
        if name not in self.running:
            edition = Edition(stack.texts, self.seen.place, self.plan["fit"], stack.grouped, limit)
            fills = not limit and (self.seen.caches or any(each.fills for each in stack.changes))
            first = min(FIRST_EPOCH, self.budget.seconds / 8) if fills else 0.0
            self.running[name] = ScriptArm(self.command, first_epoch=first, edition=edition, forks=self.originals.forks)
        warm = self.running[name].session is not None
        return replace(self.running[name].arm(name), undo=None, another=None, warm=warm)

    def _raced(self, arms: Sequence[Any], baseline: str, seconds: float, protocol: Protocol, enough: Any = None) -> Experiment:
        new = sum(not each.warm for each in arms)
        began = self.budget.spent
        race = run_experiment(
            arms,
            baseline=baseline,
            budget=max(LEAST_RACE, seconds),
            protocol=protocol,
            seed=len(self.races),
            watch=self.watch,
            enough=enough,
        )
        self.budget.learn(race, self.budget.spent - began, new)
        self.races.append(race)
        if race.interrupted:
            raise KeyboardInterrupt
        failure = race.trial(baseline).failure
        if failure is not None:
            raise CaptureError(
                f"The program as it is fails in its trials, so there is nothing to compare with: {failure.rstrip('.')}."
            )
        return race

    def _forget(self, *names: str) -> None:
        """End processes, by default all but those of the script as it is and of the best: these
        race each other at the end, too.
        """
        for name in names or [each for each in self.running if each not in (self.best.name, TODAY)]:
            if (gone := self.running.pop(name, None)) is not None:
                gone.close()

    def _only(self, changes: Sequence[Candidate]) -> Stack | None:
        """Some of what was kept, put together anew; None for none, and where they stand
        on others.
        """
        texts: Texts | None = {}
        for each, base, alone in self.steps:
            if each in changes and texts is not None:
                texts = merged(base, texts, alone)
        return Stack(tuple(changes), texts) if texts else None

    def _found(self, first: Seen, limits: Limits | None, ended: str) -> Searched:
        others = ([each for each in self.best.changes if each is not change] for change in self.best.changes)
        fewer = [less for changes in others if (less := self._only(changes)) is not None]
        climbed = Climbed(
            limits, tuple(self.tried.values()), tuple(self.races), self.budget.spent, ended,
            advice_on(first.facts.within(limits)), first.parts, self.seen.lines or first.lines, first.own, first.steps,
        )  # fmt: skip
        ratio = math.prod(found[0] for each in self.best.changes if (found := self.tried[each.id].ratio) is not None)
        stack = self.best if self.best.changes else None
        return Searched(
            climbed,
            stack,
            tuple(fewer),
            first.place,
            self.plan["fit"],
            self._only([each for each in self.best.changes if not each.consent]) if self.best.consents else None,
            {path: self.sources[path] for path in self.best.texts},
            ratio,
            self.step_seconds,
            first.unwritten,
            first.caches,
            self.budget.preparing,
        )


def _ratio(verdict: Verdict) -> float:
    return verdict.estimate.ratio if verdict.estimate is not None else 0.0
