# SPDX-License-Identifier: Apache-2.0
"""`Race`: a race while it runs: who takes part, what was measured, and what its parts (search,
confirmation, turns) do with both.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from outpace.stats.intervals import LEVEL
from outpace.stats.ratios import Estimate
from outpace.tune.trial.arm import Arm, Clock, Lane, fill, prepare, run
from outpace.tune.trial.interrupts import Interrupts
from outpace.tune.trial.record import AGAIN, Environment, Experiment, Phase, Protocol, Sample
from outpace.tune.trial.verdict import compared
from outpace.tune.trial.watch import Watch

AT_ONCE = 2  # processes that start at a time: more take each other's cores


class Race:
    """One race while it runs. A lane is an instance; the first of a treatment, its lead, has the
    treatment's name and speaks for it.
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        baseline: str | None,
        budget: float,
        protocol: Protocol,
        seed: int,
        sources: Mapping[str, str],
        clock: Clock,
        watch: Watch,
        enough: Callable[[Experiment], bool],
    ) -> None:
        self.interrupts = Interrupts()
        self.lanes = [Lane(arm.name, arm, arm.name) for arm in arms]
        self.base = next(lane for lane in self.lanes if baseline in (None, lane.name))
        self.fixed_base = baseline is not None
        self.budget, self.protocol, self.seed, self.sources = budget, protocol, seed, sources
        self.clock, self.watch, self.random = clock, watch, random.Random(seed)
        self.environment = Environment.here()
        self.samples: list[Sample] = []
        self.plan: dict[str, int] = {}
        self.enough = enough
        self.rounds = 0  # of the search
        self.interrupted = False
        self.started = self.clock()

    def versions(self) -> dict[str, str]:
        """What the arms run on."""
        return {name: version for lane in self.lanes for name, version in lane.facts.versions.items()}

    def known(self) -> Experiment:
        """The race as far as it went."""
        return Experiment(
            baseline=self.base.name,
            protocol=self.protocol,
            budget=self.budget,
            seed=self.seed,
            environment=self.environment,
            trials=tuple(lane.trial for lane in self.lanes),
            samples=tuple(self.samples),
            plan=dict(self.plan),
            seconds=self.clock() - self.started,
            interrupted=self.interrupted,
            sources=dict(self.sources),
        )

    def make_seconds(self) -> None:
        """Two instances of every treatment that can have them, if the baseline can."""
        for lead in self.leads() if self.base.arm.another is not None else ():
            self.instance(lead, 1)

    def instance(self, lead: Lane, number: int) -> Lane | None:
        """A treatment's instance by its number from 0, made where there is none; None where it
        cannot be made.
        """
        lanes = [lane for lane in self.lanes if lane.treatment == lead.name]
        if number < len(lanes):
            return lanes[number]
        if lead.arm.another is None:
            return None
        name = f"{lead.name} ({number + 1})"
        lane = Lane(name, replace(lead.arm.another(name), name=name), lead.name)
        self.lanes.append(lane)
        return lane

    def prepare_all(self) -> None:
        """Bring all to their steady state; where the first is the baseline only by being the first,
        another stands in for it. A baseline of one instance runs twice in each round.
        """
        self.prepare_those(self.lanes)
        if (
            self.base.failure and not self.fixed_base and len(others := self.others()) > 1
        ):  # one has nothing to be compared with
            self.base = others[0]
            self.watch.note(f"{others[0].name} is the baseline now, because the first variant failed.")
        if len(self.of(self.base)) == 1:
            again = Lane(AGAIN, self.base.arm, self.base.name, facts=self.base.facts)
            again.step_seconds, again.first_seconds = self.base.step_seconds, self.base.first_seconds
            self.lanes.append(again)
        self.fill()

    def prepare_those(self, lanes: Sequence[Lane]) -> None:
        """Prepare instances, each while the next ones start."""
        for at, lane in enumerate(lanes):
            for each in lanes[at : at + AT_ONCE]:
                if each.arm.start is not None and not each.prepared and each.failure is None:
                    with contextlib.suppress(Exception):  # it is met when it is prepared
                        each.arm.start()
            if not self._lead(lane).failure:  # else it is the same program
                self.prepare(lane)

    def prepare(self, lane: Lane) -> None:
        """Bring an instance to its steady state, or out of the race with all of its treatment."""
        self.interrupts.check()
        self.watch.preparing(lane.name)
        warmup = min(self.protocol.warmup_seconds, self.budget / 20)
        try:
            prepare(lane, self.protocol, warmup / 3 if lane.arm.warm else warmup, self.clock)
        except Exception as error:
            self._fail(lane, error)
        else:
            self.watch.ready(lane.name, None)

    def _fail(self, lane: Lane, error: Exception) -> None:
        lane.fail(error)
        lead = self._lead(lane)
        lead.failure = lead.failure or lane.failure
        for each in self.lanes:
            each.racing = each.racing and each.treatment != lane.treatment
        self.watch.ready(lane.name, lane.failure)

    def fill(self) -> None:
        """Set how many steps fill a block."""
        for lane in self.racing():
            fill(lane, self.protocol)

    def leads(self) -> list[Lane]:
        """The first instances, which speak for their treatments."""
        return [lane for lane in self.lanes if lane.treatment == lane.name]

    def _lead(self, lane: Lane) -> Lane:
        return next((each for each in self.lanes if each.name == lane.treatment), lane)

    def of(self, *leads: Lane) -> list[Lane]:
        """Instances of treatments that are in the race."""
        names = {lead.name for lead in leads}
        return [lane for lane in self.lanes if lane.racing and lane.treatment in names]

    def racing(self) -> list[Lane]:
        """All instances that are in the race."""
        return [lane for lane in self.lanes if lane.racing]

    def others(self) -> list[Lane]:
        """What is compared with the baseline, and is in the race."""
        return [lane for lane in self.leads() if lane.racing and lane is not self.base]

    def can_race(self) -> bool:
        """Whether there is something to compare."""
        return self.base.racing and bool(self.others())

    def left(self, share: float = 1.0) -> float:
        """Seconds of the budget, or of a share of it, that are left."""
        return self.budget * share - (self.clock() - self.started)

    def round(self, phase: Phase, number: int, lanes: list[Lane]) -> None:
        """Each lane once, in an order drawn anew."""
        lanes = list(lanes)
        self.random.shuffle(lanes)
        for order, lane in enumerate(lanes):
            self.interrupts.check()
            if not lane.racing:  # another instance of the same failed in this round
                continue
            when = self.clock() - self.started
            try:
                work = run(lane, lane.steps, self.clock)
            except Exception as error:
                self._fail(lane, error)
                continue
            self.samples.append(
                Sample(lane.name, phase, number, order, work.steps, work.seconds, when, work.cpu, work.between, work.ends)
            )

    def estimate(self, lane: Lane, level: float = LEVEL) -> Estimate | None:
        """What the search says of a treatment."""
        return compared(self.known(), lane.name, Phase.SEARCH, level)

    @staticmethod
    def cost(lanes: list[Lane]) -> float:
        """Seconds of a round, about."""
        return sum(lane.cost for lane in lanes)

    @staticmethod
    def undo(lanes: Sequence[Lane]) -> None:
        """Undo every prepared arm, the last one first; what fails does not stop the others."""
        for lane in reversed(lanes):
            undo: Callable[[], object] | None = lane.arm.undo if lane.prepared else None
            lane.prepared = False
            if undo is not None:
                with contextlib.suppress(Exception):
                    undo()
