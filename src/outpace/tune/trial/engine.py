"""`run_experiment`: search in paired rounds, then confirmation on fresh ones.

Every round runs each arm once, in an order drawn anew, and the baseline twice (the A/A arm). The search finds arms that differ and lets go of
those that are clearly slower; because it looks repeatedly, what it finds is a suspicion. The number of fresh rounds that each suspicion
needs is fixed before the first of them, and only these rounds are published. `verdict.judge` decides, from the samples alone.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from outpace.model.errors import UsageError
from outpace.tune.trial.arm import Arm, Clock, Lane, fill, prepare, run
from outpace.tune.trial.interrupts import Interrupts
from outpace.tune.trial.record import Decision, Environment, Experiment, Phase, Protocol, Sample, Verdict, load
from outpace.tune.trial.statistics import LEVEL, STRICT, SUSPECT, Estimate, autocorrelation, compare, log_ratios, rounds_needed
from outpace.tune.trial.verdict import biased, claimed, judge

AGAIN = "baseline again (A/A)"


class Watch:
    """Told how a race goes; each method does nothing, for others to override. A context: it is left when the race is over."""

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *details: object) -> None:
        """Stop showing."""

    def preparing(self, arm: str) -> None:
        """An arm is about to be prepared."""

    def ready(self, arm: str, failure: str | None) -> None:
        """An arm is through its warm-up, or failed."""

    def round(self, experiment: Experiment, phase: Phase, done: int, of: int | None, left: float) -> None:
        """A round is over: `done` of `of` (None: open), with `left` seconds of the budget. `experiment` is as far as it is known."""

    def note(self, text: str) -> None:
        """Something to tell, in a sentence."""

    def learned(self, title: str, verdict: Verdict) -> None:
        """A race that screens has judged a change of a program."""


def run_experiment(
    arms: Sequence[Arm],
    *,
    baseline: str | None = None,
    again: Arm | None = None,
    budget: float = 60.0,
    protocol: Protocol | None = None,
    seed: int = 0,
    sources: Mapping[str, str] | None = None,
    clock: Clock = time.perf_counter,
    watch: Watch | None = None,
    enough: Callable[[Experiment], bool] | None = None,
) -> Experiment:
    """Race arms against the baseline (the first by default); `budget` is in seconds and begins after all warm-ups.

    `again` is the arm that stands for the baseline's second self; by default the baseline itself runs twice in each round. `enough`: asked at
    the looks of the search, which ends where it says so. An exception in an arm ends that arm.
    Ctrl-C ends the race with what is known; every prepared arm is undone in any case.
    Raises UsageError for fewer than two arms, names that are not unique, or an unknown baseline.
    """
    names = [arm.name for arm in arms]
    if len(arms) < 2:
        raise UsageError("A race needs at least two variants.")
    if len({*names, AGAIN}) <= len(names):
        raise UsageError(f"Every variant needs a name of its own; these are given: {', '.join(names)}.")
    if baseline is not None and baseline not in names:
        raise UsageError(f"There is no variant {baseline!r} to be the baseline; there are: {', '.join(names)}.")
    if budget <= 0:
        raise UsageError("The budget must be more than 0 seconds.")
    race = _Race(arms, baseline, again, budget, protocol or Protocol(), seed, sources or {}, clock, watch or Watch())
    race.enough = enough or race.enough
    return race.run()


class _Race:
    """One race while it runs."""

    def __init__(
        self,
        arms: Sequence[Arm],
        baseline: str | None,
        again: Arm | None,
        budget: float,
        protocol: Protocol,
        seed: int,
        sources: Mapping[str, str],
        clock: Clock,
        watch: Watch,
    ) -> None:
        self.interrupts = Interrupts()
        self.lanes = [Lane(arm.name, arm) for arm in arms]
        self.base = next(lane for lane in self.lanes if baseline in (None, lane.name))
        self.fixed_base = baseline is not None
        self.own_again = again is not None
        self.again = Lane(AGAIN, again or self.base.arm)
        self.budget, self.protocol, self.seed, self.sources = budget, protocol, seed, sources
        self.clock, self.watch, self.random = clock, watch, random.Random(seed)
        self.environment = Environment.here()
        self.samples: list[Sample] = []
        self.plan: dict[str, int] = {}
        self.enough: Callable[[Experiment], bool] = lambda known: False
        self.blocks = [protocol.block_seconds]
        self.rounds = 0  # of the search, in this stage
        self.interrupted = False
        self.started = self.clock()

    def run(self) -> Experiment:
        """The whole race."""
        with self.interrupts:
            try:
                self._prepare()
                self.started = self.clock()
                if self._can_race():
                    self._measure()
                self._check()
            except KeyboardInterrupt:
                self.interrupted = True
            finally:
                with self.interrupts.shield():
                    self._undo()
        self.interrupted = self.interrupted or self.interrupts.seen
        ended = replace(self.environment, load=(*self.environment.load, *load()), versions=self._versions())
        experiment = replace(self._experiment(), environment=ended)
        return replace(experiment, verdicts=judge(experiment))

    def _measure(self) -> None:
        if not self.protocol.search:
            if self.protocol.least_rounds * self._cost(self._racing()) < self._left():  # else there is nothing to plan
                self._rehearse()
            self._confirm([lane for lane in self.lanes if lane.racing and lane is not self.base])
            return
        self._search()
        if self.protocol.confirm:
            self._confirm([lane for lane in self.lanes if self._suspected(lane)])

    def _rehearse(self) -> None:
        """A round that does not count: it tells what a block costs when others ran in between."""
        self._round(Phase.CONFIRM, 0, self._racing())
        self.samples.clear()

    def _check(self) -> None:
        """Ask the arms that won for what speaks against them; the others are not used anyway."""
        won = {
            verdict.arm for verdict in judge(self._experiment()) if verdict.decision in (Decision.FASTER, Decision.SEEMS_FASTER)
        }
        for lane in self.lanes:
            if lane.name in won and lane.arm.check is not None:
                lane.objection = lane.arm.check()

    def _versions(self) -> dict[str, str]:
        return {name: version for lane in self.lanes for name, version in lane.facts.versions.items()}

    def _experiment(self) -> Experiment:
        trials = tuple(lane.trial for lane in (*self.lanes, self.again))
        return Experiment(
            baseline=self.base.name,
            again=AGAIN,
            protocol=self.protocol,
            budget=self.budget,
            seed=self.seed,
            environment=self.environment,
            trials=trials,
            samples=tuple(self.samples),
            plan=dict(self.plan),
            blocks=tuple(self.blocks),
            seconds=self.clock() - self.started,
            interrupted=self.interrupted,
            sources=dict(self.sources),
        )

    def _prepare(self) -> None:
        warmup = min(self.protocol.warmup_seconds, self.budget / 20)
        for lane in (*self.lanes, *([self.again] if self.own_again else [])):
            if lane is self.again and self.base.failure:
                self.own_again = False  # it is the same program
                break
            self.interrupts.check()
            self.watch.preparing(lane.name)
            try:
                prepare(lane, self.protocol, warmup / 3 if lane.arm.warm else warmup, self.clock)
            except Exception as error:
                lane.fail(error)
            self.watch.ready(lane.name, lane.failure)
        if self.base.failure and not self.fixed_base:
            others = [lane for lane in self.lanes if lane.racing]
            if len(others) > 1:  # one that is left has nothing to be compared with
                self.base, self.own_again = others[0], False
                self.watch.note(f"{others[0].name} is the baseline now, because the first variant failed.")
        if not self.own_again or self.again.failure:
            self.again = Lane(AGAIN, self.base.arm, racing=self.base.racing, facts=self.base.facts)
            self.again.step_seconds, self.again.first_seconds = self.base.step_seconds, self.base.first_seconds
        self._fill()

    def _fill(self) -> None:
        for lane in self._racing():
            fill(lane, self.blocks[-1], self.protocol)

    def _racing(self) -> list[Lane]:
        return [lane for lane in (*self.lanes, self.again) if lane.racing]

    def _others(self) -> list[Lane]:
        return [lane for lane in self._racing() if lane is not self.base and lane is not self.again]

    def _can_race(self) -> bool:
        return self.base.racing and self.again.racing and bool(self._others())

    def _left(self, share: float = 1.0) -> float:
        return self.budget * share - (self.clock() - self.started)

    def _round(self, phase: Phase, number: int, lanes: list[Lane]) -> None:
        """Each lane once, in an order drawn anew."""
        lanes = list(lanes)
        self.random.shuffle(lanes)
        for order, lane in enumerate(lanes):
            self.interrupts.check()
            when = self.clock() - self.started
            try:
                work = run(lane, lane.steps, self.clock)
            except Exception as error:
                lane.fail(error)
                self.watch.ready(lane.name, lane.failure)
                continue
            stage = len(self.blocks) - 1
            self.samples.append(Sample(lane.name, phase, stage, number, order, work.steps, work.seconds, when, work.cpu))

    def _search(self) -> None:
        """Rounds until all is settled or the search's share is used; half of the rest too, when there is nothing to confirm by then."""
        share = self.protocol.search_share if self.protocol.confirm else 1.0
        settled = self._search_until(share)
        if not settled and not any(self._suspected(lane) for lane in self.lanes):
            self._search_until((1 + share) / 2)

    def _search_until(self, share: float) -> bool:
        """Whether all was settled before that share of the budget was used."""
        protocol = self.protocol
        while self._can_race() and self._may_go_on(share) and self.rounds < protocol.search_rounds:
            self._round(Phase.SEARCH, self.rounds, self._racing())
            self.rounds += 1
            self.watch.round(self._experiment(), Phase.SEARCH, self.rounds, None, self._left())
            if self.rounds not in protocol.looks:
                continue
            if self.rounds >= protocol.least_rounds and self._too_short():
                self._widen()
                self.rounds = 0
                continue
            self._drop(self.rounds)
            if all(self._settled(lane) for lane in self._others()) or self.enough(self._experiment()):
                return True
        return not self._can_race()

    def _may_go_on(self, share: float) -> bool:
        """Whether time is left; where the race only screens, also until its rounds tell anything, at most for as long again."""
        left = self._left(share)
        more = 0.0 if self.rounds < self.protocol.few_rounds else self._cost(self._racing())  # of another round
        few = not self.protocol.confirm and self.rounds < self.protocol.least_rounds
        return left > 0 or (few and left > more - self.budget)

    def _estimate(self, lane: Lane, level: float = LEVEL, phase: Phase = Phase.SEARCH) -> Estimate | None:
        known = self._experiment()
        return compare(known.reference(phase), known.rates(lane.name, phase), level)

    def _control(self, phase: Phase, level: float = LEVEL) -> Estimate | None:
        known = self._experiment()
        return compare(known.rates(self.base.name, phase), known.rates(self.again.name, phase), level)

    def _too_short(self) -> bool:
        """Whether rounds are no independent samples at this block length: then every interval would be too narrow."""
        again = 2 * self.protocol.least_rounds * 2 * self._cost(self._racing())
        if len(self.blocks) > self.protocol.widen_times or self._left(self.protocol.search_share) < again:
            return False
        known = self._experiment()
        logs = log_ratios(known.rates(self.base.name, Phase.SEARCH), known.rates(self.again.name, Phase.SEARCH))
        limit = max(self.protocol.autocorrelation, 2.58 / math.sqrt(len(logs)))
        return biased(self._control(Phase.SEARCH, STRICT)) or autocorrelation(logs) > limit

    def _widen(self) -> None:
        """Double the blocks; the rounds begin to count anew."""
        self.blocks.append(2 * self.blocks[-1])
        self._fill()
        self.watch.note(f"The baseline differs from itself: the rounds start again, with blocks of {self.blocks[-1]:g} s.")

    def _drop(self, done: int) -> None:
        if done < self.protocol.drop_after:
            return
        for lane in self._others():
            found = self._estimate(lane)
            if found is not None and found.rounds >= done and found.high < self.protocol.drop_below:
                lane.dropped, lane.racing = done, False

    def _settled(self, lane: Lane) -> bool:
        """Whether more rounds would hardly change what the search says of an arm."""
        effect, found = self.protocol.effect, self._estimate(lane)
        same = found is not None and 1 / (1 + effect) < found.low and found.high < 1 + effect
        return (same and self.rounds >= self.protocol.least_rounds) or self._told(lane, Phase.SEARCH)

    def _told(self, lane: Lane, phase: Phase) -> bool:
        """Whether the rounds of a phase show a difference by the strict interval."""
        return claimed(self._estimate(lane, STRICT, phase), self.protocol) is not None

    def _confirm(self, suspects: list[Lane]) -> None:
        """Fresh rounds for every arm that seems to differ; how many is fixed here, before the first."""
        if not suspects or not self.base.racing:
            return
        wanted = {lane.name: self._needed(lane) for lane in suspects}
        for lane in suspects:
            lane.racing = True
        while True:
            possible = self._possible(suspects, wanted)
            self.plan = {name: min(rounds, possible) for name, rounds in wanted.items()}
            self._confirm_planned(suspects)
            if not biased(self._control(Phase.CONFIRM)) or self._exhausted(suspects):
                return
            self._widen()  # the same once more, on fresh rounds; what was measured so far is no longer used

    def _confirm_planned(self, suspects: list[Lane]) -> None:
        most = max(self.plan.values())
        for number in range(most):
            racing = [lane for lane in suspects if lane.racing and number < self.plan[lane.name]]
            if not racing or not (self.base.racing and self.again.racing):
                return
            if self._left() < 0 and self._suffices(number, racing):
                return
            self._round(Phase.CONFIRM, number, [self.base, self.again, *racing])
            self.watch.round(self._experiment(), Phase.CONFIRM, number + 1, most, self._left())

    def _suffices(self, rounds: int, racing: list[Lane]) -> bool:
        """Whether so many rounds are enough where no time is left; where as much again is gone, few are."""
        late = rounds >= self.protocol.few_rounds and self._left() < -self.budget
        return late or rounds >= self.protocol.least_rounds or all(self._told(lane, Phase.CONFIRM) for lane in racing)

    def _exhausted(self, suspects: list[Lane]) -> bool:
        """Whether a second confirmation with longer blocks is not possible."""
        if len(self.blocks) > self.protocol.widen_times or not (self.base.racing and self.again.racing):
            return True
        cost = self._cost([lane for lane in (*suspects, self.base, self.again) if lane.racing])
        return self._left() < 2 * cost * self.protocol.confirm_rounds

    @staticmethod
    def _cost(lanes: list[Lane]) -> float:
        """Seconds of a round, about."""
        return sum(lane.cost for lane in lanes)

    def _suspected(self, lane: Lane) -> bool:
        if lane is self.base or lane.failure is not None or not (lane.racing or lane.dropped):
            return False
        return lane.dropped is not None or claimed(self._estimate(lane, SUSPECT), self.protocol) is not None

    def _needed(self, lane: Lane) -> int:
        """Fresh rounds that a difference needs. The search's ratio flatters it, so that its end nearer to 1 is planned with."""
        found = self._estimate(lane)
        if found is None:
            return self.protocol.confirm_rounds if self.protocol.search else self.protocol.fresh_rounds
        nearer = min(abs(math.log(found.low)), abs(math.log(found.high)))
        effect = max(nearer, math.log1p(self.protocol.effect))
        return max(self.protocol.confirm_rounds, rounds_needed(found.spread, effect, self.protocol.power))

    def _possible(self, suspects: list[Lane], wanted: Mapping[str, int]) -> int:
        """The largest cap on everybody's rounds that fits into what is left of the budget."""
        cost = {lane.name: lane.cost for lane in (*suspects, self.base)}
        low, high = self.protocol.least_rounds, max(wanted.values())
        while low < high:
            middle = (low + high + 1) // 2
            total = sum(min(rounds, middle) * cost[name] for name, rounds in wanted.items())
            total += 2 * min(middle, max(wanted.values())) * cost[self.base.name]
            low, high = (middle, high) if total <= self._left() else (low, middle - 1)
        return low

    def _undo(self) -> None:
        """Undo every prepared arm, the last one first; what fails does not stop the others."""
        for lane in reversed((*self.lanes, self.again)):
            undo: Callable[[], object] | None = lane.arm.undo if lane.prepared else None
            if undo is not None:
                with contextlib.suppress(Exception):
                    undo()
