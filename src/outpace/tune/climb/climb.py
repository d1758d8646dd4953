"""The climb: screen what answers the bottleneck, put together what seems faster, look again, and let one last race decide."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from outpace.capture.pipeline import PipelineRecorder
from outpace.tune.climb.choice import DECIDED, LIMITS_SHARE, Budget, Choice
from outpace.tune.climb.expected import Expected, expected
from outpace.tune.climb.limits import (
    FRESH,
    INPUT,
    MODEL,
    SCREEN,
    TODAY,
    Beside,
    Limits,
    fit_rate,
    in_memory,
    input_alone,
    limits_of,
    loop_lines,
    model_alone,
    raced,
)
from outpace.tune.climb.outcome import ALL_BUT_LAST, NOT_RACED, USED_UP, Climbed, Rung, Tried, ladder_of
from outpace.tune.climb.running import Copies, Running, buffer_bytes
from outpace.tune.climb.variant import Change, Variant
from outpace.tune.data.isolated import dispose
from outpace.tune.data.tree import describe
from outpace.tune.data.verify import Risk
from outpace.tune.optimisations import all_rewrites, knobs
from outpace.tune.optimisations.knob import serves
from outpace.tune.optimisations.optimisation import Applies, NeedsConsent, NotApplicable, Rewritten, asked, attempt
from outpace.tune.program.program import Program
from outpace.tune.reason import reason_of
from outpace.tune.trial.engine import Watch
from outpace.tune.trial.record import Decision, Experiment, Phase, Protocol, Verdict
from outpace.tune.trial.statistics import Estimate
from outpace.tune.trial.verdict import outrun

NEAR = 0.97  # of the limit: what is left is less than races can tell
ENOUGH = 1.5  # lower end of a ratio that ends a race: what the others add to that is another question
FILL_SHARE = 0.15  # of the budget, for filling one cache
BESIDE_SHARE = 0.03  # of the budget, for a model or an input beside the races


class Climb:
    """One climb of one program."""

    def __init__(
        self,
        program: Program,
        recorder: PipelineRecorder | None,
        budget: float,
        allowed: frozenset[Risk],
        watch: Watch,
        clock: Callable[[], float] = time.monotonic,
        *,
        only_limits: bool = False,
    ) -> None:
        """`allowed`: the risks that an optimisation may carry; `budget` in seconds, preparations included. `only_limits`: measure the limits,
        say what is expected of which optimisation, and race none."""
        self.program, self.recorder, self.allowed, self.watch = program, recorder, allowed, watch
        self.budget, self.only_limits = Budget(budget, clock), only_limits
        self.tried: dict[str, Tried] = {}
        self.choice = Choice()
        self.waiting: list[Variant] = []  # what fits and was not raced yet
        self.races: list[Experiment] = []
        self.copies = Copies(FILL_SHARE * budget, buffer_bytes(program), program.feed)
        self.running: dict[tuple[int, tuple[str, ...], bool], Running] = {}
        self.start = Variant(TODAY, program.dataset)
        self.reading = not program.trains  # then the input alone is tuned
        self.memory = in_memory(program) if program.trains else None
        self.expected: dict[str, Expected] = {}

    def run(self) -> Climbed:
        """Climb. Raises whatever the engine raises for the program itself; an optimisation that fails is one that was tried."""
        best = self.start
        found = self._limits() if self.memory is not None else None
        beside = self._beside()
        hidden = found is not None and found.input_hidden
        input_matters = self._input_matters(found, beside)
        raced_any = False  # the first race is run in any case: a budget that pays for none shows what fails, and says that it is too small
        while True:
            if raced_any and self.budget.left <= 0:  # to look for more, and verify it, takes time too
                ended = ALL_BUT_LAST
                self._give_up(USED_UP)
                break
            candidates = self._candidates(best, found, input_matters)
            if found is not None and not raced_any:
                self._expect(found)
            if self.only_limits:
                ended = "only the limits were asked for"
                self._give_up(ended)
                break
            if not candidates:
                ended = (
                    "nothing else is left to try" if input_matters or found is not None else "its input is not the bottleneck"
                )
                break
            paid = self.budget.affordable(candidates) or (candidates if not raced_any else [])
            if not paid:
                ended = ALL_BUT_LAST
                self._give_up(USED_UP)
                break
            raced_any = True
            before, (best, at_limit) = best, self._race(best, paid)
            input_matters = not at_limit and not (hidden and best is self.start)
            if not input_matters:
                self._leave_input()
            if best is not before:
                self.choice.reopen()
            self._forget(best)
        climbed = self._finish(found, best, ended)
        climbed = replace(climbed, beside=beside, lines=loop_lines(self.program, self._runs(climbed.best).runner))
        dispose([self.running.pop(key) for key in list(self.running)])
        return climbed

    def _input_matters(self, found: Limits | None, beside: Beside | None) -> bool:
        """Whether another input could make the program faster as it is; it is said where it could not."""
        if beside is not None:
            return beside.matters
        if found is not None and self._at_limit(found.model_ratio):
            self.watch.note("The program runs at the limit of its model, so the input is left alone.")
            return False
        if found is not None and found.input_hidden:
            self.watch.note("The input alone is so fast that it can take no part of a step that counts: it is left alone.")
            return False
        return True

    @staticmethod
    def _at_limit(model_ratio: Estimate | None) -> bool:
        """Whether training is as fast as the model alone: then no input can make it faster."""
        return model_ratio is not None and model_ratio.high < 1 / NEAR

    def _runs(self, variant: Variant, reading: bool = False) -> Running:
        """A variant as it runs, made once."""
        made = Running(self.program, variant, variant.name, self.copies, reading or self.reading)
        running = self.running.setdefault((id(variant.dataset), variant.practices, reading), made)
        running.name = variant.name  # the same model alone may stand for another variant now
        return running

    def _alone(self, variant: Variant) -> list[Running]:
        """The model of a variant alone; none where that cannot be had."""
        return [self._runs(model_alone(variant, self.memory))] if self.memory is not None else []

    def _both_alone(self, variant: Variant, without: str = "") -> list[Running]:
        """The model and the input of a variant alone, which its limits follow from; `without` tells them from those of another one."""
        if self.memory is None:
            return []
        model, reading = model_alone(variant, self.memory, MODEL + without), input_alone(variant, INPUT + without)
        return [self._runs(model), *([self._runs(reading, reading=True)] if self.program.limited else [])]

    def _forget(self, best: Variant) -> None:
        """Let go of compiled functions and caches of all variants but the start, the best, and what the best was made of."""
        kept = {id(variant) for variant in (self.start, *best.rungs)}
        gone = [key for key, running in self.running.items() if id(running.variant) not in kept]
        dispose([self.running.pop(key) for key in gone])
        self.copies.forget({id(running.variant.dataset) for running in self.running.values()})

    def _limits(self) -> Limits:
        """The first race: today, the model alone, the input alone."""
        self.watch.note("Measuring the speed limits: the model alone, the input alone, and the program as it is.")
        runs = [self._runs(self.start), *self._both_alone(self.start)]
        share = 1.0 if self.only_limits else LIMITS_SHARE
        experiment = self._raced(runs, TODAY, share * self.budget.seconds, FRESH)
        self.races.append(experiment)
        found = limits_of(experiment, experiment.reference(Phase.CONFIRM))
        self.program = replace(self.program, step_seconds=found.step_seconds)
        return found

    def _beside(self) -> Beside | None:
        """How fast the model is whose step is not tuned; None where there is none."""
        if self.program.untuned is None:
            return None
        self.watch.note("Is the input the bottleneck? Measuring the model alone, on a batch in memory.")
        seconds = BESIDE_SHARE * self.budget.seconds
        try:
            model = fit_rate(self.program.untuned, in_memory(self.program), seconds)
        except Exception as error:
            self.watch.note(f"The model alone could not be timed: {reason_of(error)}.")
            return None
        found = Beside(model, self._runs(self.start).rate(seconds))
        self.watch.note(found.sentence)
        return found

    def _raced(
        self,
        runs: list[Running],
        baseline: str,
        seconds: float,
        protocol: Protocol,
        again: Running | None = None,
        enough: Callable[[Experiment], bool] | None = None,
    ) -> Experiment:
        """One race, each with orders of its own, and what it cost."""
        new, began = _new(runs) + (again is not None), self.budget.spent
        arms, second = [run.arm() for run in runs], again.arm() if again is not None else None
        experiment = raced(arms, baseline, seconds, self.watch, protocol, len(self.races), second, enough)
        self.budget.learn(experiment, self.budget.spent - began, new)
        return experiment

    def _candidates(self, best: Variant, found: Limits | None, input_matters: bool) -> list[Variant]:
        """What to race next of what fits. As long as nothing was kept, the first limits tell where the bottleneck is."""
        rewritten = list(self._rewrites(best)) if input_matters and self.program.own_pipeline else []
        turned = list(self._knobs(best, input_matters))
        self.waiting = rewritten + turned
        return self.choice.next(self.waiting, found if best is self.start else None)

    def _rewrites(self, current: Variant) -> Iterator[Variant]:
        for rewrite in all_rewrites():
            if self._over(rewrite.id, current):
                continue
            pipeline = describe(current.dataset, self.recorder)
            answer = asked(rewrite, pipeline, self.allowed)
            found = attempt(rewrite, pipeline, reason=answer) if isinstance(answer, Applies) else answer
            if isinstance(found, Rewritten):
                yield current.with_change(Change(rewrite, found.reason.sentence, found.reason.risk), found.dataset)
            else:
                self._note(rewrite.id, rewrite.title, found.word, found.sentence)

    def _knobs(self, current: Variant, input_matters: bool) -> Iterator[Variant]:
        for knob in knobs():
            if not serves(knob, self.program) or (knob.reads and not input_matters) or self._over(knob.id, current):
                continue
            if knob.between and not input_matters and not self.program.limited:
                self._note(knob.id, knob.title, NotApplicable.word, "the loop is as fast as its step's function alone")
                continue
            answer = asked(knob, self.program, self.allowed)
            if isinstance(answer, Applies):
                yield current.with_change(Change(knob, answer.sentence, answer.risk))
            else:
                self._note(knob.id, knob.title, answer.word, answer.sentence)

    def _over(self, change: str, current: Variant) -> bool:
        """Whether an optimisation is applied already, decided, or left to the user's consent."""
        asked_for = change in self.tried and self.tried[change].decision == NeedsConsent.word
        return asked_for or self.choice.over(change) or change in current.practices

    def _note(self, change: str, title: str, decision: str, reason: str) -> None:
        if change not in self.tried or not self.tried[change].why:  # what a race has judged is known better
            self.tried[change] = Tried(change, title, decision, reason)

    def _leave_input(self) -> None:
        """Say of rewrites that fit, and were not raced, that no input can make it faster."""
        for change in (variant.changes[-1] for variant in self.waiting):
            if change.of_input:
                self._note(change.id, change.title, NOT_RACED, "another input could not make it faster by what counts")

    def _give_up(self, why: str) -> None:
        for variant in self.waiting:
            change = variant.changes[-1]
            self._note(change.id, change.title, NOT_RACED, why)

    def _expect(self, found: Limits) -> None:
        """Say what is expected of what fits, before any of it is raced."""
        for variant in self.waiting:
            if (made := expected(self.program, variant, found, self.copies)) is not None:
                self.expected[made.change.id] = made
                self.watch.note(f"{made.change.title} has an estimated saving of {made.saving} of the step time.")

    def _race(self, best: Variant, candidates: Sequence[Variant]) -> tuple[Variant, bool]:
        """Screen candidates against the best so far; the best from now on, and whether it trains at its model's limit.

        What seems faster is put together, each winner on top of the faster ones. What each of them adds is for the last race to prove.
        What one that is much faster has left unjudged is raced on top of it.
        """
        verdicts, at_limit, outran = self._verdicts(best, candidates)
        self.choice.raced |= {variant.changes[-1].id for variant in candidates}
        for variant in candidates:
            change, verdict = variant.changes[-1], verdicts[variant.name]
            if outran and verdict.decision is Decision.REFUSED:
                continue
            self.choice.learn(variant, verdict)
            self.tried[change.id] = Tried.judged(change.id, change.title, verdict, change.why)
            self.watch.learned(change.title, verdict)
        winners = [variant for variant in candidates if verdicts[variant.name].decision is Decision.SEEMS_FASTER]
        winners.sort(key=lambda variant: -_ratio(verdicts[variant.name]))
        for variant in winners:
            best = self._together(best, variant) or best
        if winners:
            self.budget.follow(self.races[-1], winners[0].name)
            seconds = _seconds(self.program.kept_seconds or self.program.step_seconds, verdicts[winners[0].name])
            self.program = replace(self.program, kept=best.practices, kept_seconds=seconds)
        return best, at_limit and not winners

    def _together(self, base: Variant, other: Variant) -> Variant | None:
        """The last change of one variant on top of another; None where it does not apply there."""
        if other.base is base:
            return other
        change = other.changes[-1]
        if change.rewrite is None:
            return base.with_change(change)
        found = attempt(change.rewrite, describe(base.dataset, self.recorder))
        return base.with_change(change, found.dataset) if isinstance(found, Rewritten) else None

    def _verdicts(self, base: Variant, others: Sequence[Variant]) -> tuple[dict[str, Verdict], bool, bool]:
        """One race of variants against a base, with the base's model alone beside them: does it train at that limit, and has a variant that is
        much faster ended the race?"""
        self.watch.note(f"Racing {', '.join(other.name for other in others)} against {base.name}.")
        runs = [self._runs(base), *(self._runs(other) for other in others), *self._alone(base)]

        def outran(known: Experiment) -> bool:
            return any(outrun(known, other.name, ENOUGH) for other in others)

        seconds = self.budget.for_race(len(others), _new(runs))
        experiment = self._raced(runs, base.name, seconds, SCREEN, enough=outran)
        self.races.append(experiment)
        verdicts = {verdict.arm: verdict for verdict in experiment.verdicts}
        return verdicts, self.memory is not None and self._at_limit(verdicts[MODEL].estimate), outran(experiment)

    def _learn_last(self, ladder: Sequence[Rung], dropped: Sequence[Variant], final: Experiment) -> None:
        """Note what the last race said of what seemed faster, or might be."""
        for rung in ladder:
            self.tried[rung.change.id] = self.tried[rung.change.id].kept(rung)
        for variant in dropped:
            change, verdict = variant.changes[-1], final.verdict(variant.name)
            if verdict.decision in DECIDED:  # what the races before had no reason to ask
                self.tried[change.id] = Tried.judged(change.id, change.title, verdict, change.why)
            else:
                self.tried[change.id] = self.tried[change.id].unproven()

    def _with_promising(self, best: Variant) -> Variant:
        """The best with the most promising of what is undecided on top: the last race has more rounds than those before."""
        if not self.budget.pays_one_more(len(best.rungs), alone=self.memory is not None):
            return best
        for found in self.choice.promising:
            made = self._together(best, found)
            if made is not None:
                self.watch.note(f"{found.changes[-1].title} may be faster; the last race decides.")
                return made
        return best

    def _finish(self, found: Limits | None, sure: Variant, ended: str) -> Climbed:
        """The last race: the start, every rung, and the limits of what it may keep, side by side on fresh rounds."""
        final, reached = None, None
        ladder: tuple[Rung, ...] = ()
        best = self._with_promising(sure)
        if best is not self.start:
            rungs, alone = best.rungs, {}
            if sure is not best and sure is not self.start:
                alone[sure] = self._both_alone(sure, f" without {best.changes[-1].title}")
            alone[best] = self._both_alone(best)
            self.watch.note(f"Before and after: {best.name}.")
            runs = [self._runs(self.start), *map(self._runs, rungs), *(run for both in alone.values() for run in both)]
            runs = list(dict.fromkeys(runs))  # one may be alone for both
            # Prepared anew: two instances of one program differ by a little for as long as they live, and no number of rounds shows that.
            again = Running(self.program, self.start, TODAY, self.copies, self.reading)
            final = self._raced(runs, TODAY, self.budget.for_last(_new(runs) + 1), FRESH, again)
            dispose([again])
            ladder = ladder_of(final, rungs)
            best = rungs[len(ladder) - 1] if ladder else self.start
            self._learn_last(ladder, rungs[len(ladder) :], final)
            if alone.get(best):  # else the limits are those of more than what is kept
                model, reading = [*(run.name for run in alone[best]), INPUT][:2]
                reached = limits_of(final, final.rates(best.name, Phase.CONFIRM), (model, reading))
        tried, outlook = tuple(self.tried.values()), tuple(self.expected.values())
        return Climbed(found, reached, tried, best, ladder, tuple(self.races), final, self.budget.spent, ended, outlook)


def _new(runs: Sequence[Running]) -> int:
    """How many of them are to be prepared."""
    return sum(1 for run in runs if run.runner is None)


def _seconds(before: float | None, verdict: Verdict) -> float | None:
    """A step's time after a change that was judged."""
    return before / _ratio(verdict) if before is not None and _ratio(verdict) else before


def _ratio(verdict: Verdict) -> float:
    return verdict.estimate.ratio if verdict.estimate is not None else 0.0
