# SPDX-License-Identifier: Apache-2.0
"""`tune_environment`: a script as it is against the same script with each setting, every one in a
process of its own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from outpace._dataclass import dataclass
from outpace._memory import free_memory
from outpace.model.errors import CaptureError
from outpace.tune.climb.outcome import Tried
from outpace.tune.optimisations import environment_knobs
from outpace.tune.optimisations.environment import EnvironmentKnob, Host, Observed, Setting
from outpace.tune.optimisations.optimisation import Applies
from outpace.tune.trial.arm import Arm
from outpace.tune.trial.engine import Watch, run_experiment
from outpace.tune.trial.record import Decision, Experiment
from outpace.tune.trial.script import Command, ScriptArm, room

START = "as it is"
FIRST_SHARE = 0.6  # of the budget, for the race of single settings; the rest is for the best two together
LEAST = 4.0  # seconds; a race that is given less proves nothing


@dataclass(frozen=True)
class Candidate:
    """A setting that is raced, and why."""

    knob: EnvironmentKnob
    setting: Setting
    why: str


@dataclass(frozen=True)
class EnvironmentOutcome:
    """What came of it.

    tried: every knob, raced or not, with its decision; variables: those of the proven winner, empty
    where there is none; kept: titles of what they come from; races: of single settings, then of the
    best two together against the best alone; command: the script's, with the variables.
    """

    tried: tuple[Tried, ...]
    variables: Mapping[str, str]
    kept: tuple[str, ...]
    races: tuple[Experiment, ...]
    command: Command
    seconds: float


def tune_environment(
    script: str,
    argv: Sequence[str] = (),
    module: bool = False,
    budget: float = 45.0,
    watch: Watch | None = None,
    knobs: Sequence[EnvironmentKnob] | None = None,
) -> EnvironmentOutcome:
    """Race a script against itself with other settings of the environment. `budget`: seconds of
    racing, without the processes' starts.

    No more processes are started than fit into the free memory. Raises CaptureError where the
    script runs no step that can be raced; KeyboardInterrupt passes through. In any case no process
    is left.
    """
    search = _Search(script, argv, module, budget, watch or Watch())
    return search.run(environment_knobs() if knobs is None else knobs)


class _Search:
    """One search. The script as it is runs first, and tells what it is like."""

    def __init__(self, script: str, argv: Sequence[str], module: bool, budget: float, watch: Watch) -> None:
        self.command = Command((script, *argv), module)
        self.budget, self.watch = budget, watch
        self.tried: list[Tried] = []
        self.races: list[Experiment] = []
        self.began = time.monotonic()

    def run(self, knobs: Sequence[EnvironmentKnob]) -> EnvironmentOutcome:
        """Observe, race the settings one by one, then the best two together."""
        with contextlib.closing(self._process({})) as base:
            self.watch.preparing("the script as it is")
            base.start()
            host = Host.here(Observed(**base.observed))
            candidates = self._fitting(list(self._candidates(knobs, host)), base)
            share = FIRST_SHARE if len({each.knob.id for each in candidates}) > 1 else 1.0
            kept = self._race(START, base, host, candidates, share * self.budget)
        kept = self._together(host, *kept[:2]) if len(kept) > 1 else kept
        variables = {name: value for each in kept for name, value in each.setting.variables.items()}
        return EnvironmentOutcome(
            tuple(self.tried),
            variables,
            tuple(each.setting.title for each in kept),
            tuple(self.races),
            replace(self.command, environment=variables),
            time.monotonic() - self.began,
        )

    def _process(self, variables: Mapping[str, str], setting: Setting | None = None) -> ScriptArm:
        return ScriptArm(replace(self.command, environment=variables), setting.noting if setting is not None else None)

    def _candidates(self, knobs: Sequence[EnvironmentKnob], host: Host) -> Iterator[Candidate]:
        for knob in knobs:
            applies = knob.applies(host)
            if isinstance(applies, Applies):
                yield from (Candidate(knob, setting, applies.sentence) for setting in knob.settings(host))
            else:
                self.tried.append(Tried(knob.id, knob.title, applies.word, applies.sentence))

    def _fitting(self, candidates: list[Candidate], running: ScriptArm) -> list[Candidate]:
        """Those whose processes fit into memory beside the baseline's two, of which one runs; the
        others are noted as not tried.
        """
        each, free = running.memory, free_memory()
        fit = max(0, room(each) - 1)
        why = f"its process would need about {each / 2**30:.1f} GiB beside the others, and {free / 2**30:.1f} GiB of memory are free"
        self.tried += [Tried(one.knob.id, one.setting.title, "not applicable", why, one.why) for one in candidates[fit:]]
        return candidates[:fit]

    def _together(self, host: Host, best: Candidate, second: Candidate) -> list[Candidate]:
        """Race the best two together against the best alone; what of them is kept."""
        title, alone, left = best.setting.title, best.setting.variables, (1 - FIRST_SHARE) * self.budget
        if left < LEAST or not alone.keys().isdisjoint(second.setting.variables):
            return [best]
        variables = {**alone, **second.setting.variables}
        both = replace(second.setting, title=f"{title} and {second.setting.title}", variables=variables)
        why = f"each alone is faster; the ratio is to {title} alone"
        won = self._race(title, self._process(alone), host, [Candidate(second.knob, both, why)], left)
        return [best, second] if won else [best]

    def _race(self, name: str, base: ScriptArm, host: Host, candidates: list[Candidate], seconds: float) -> list[Candidate]:
        """Race settings against a baseline; the proven winners, at most one per knob, the fastest
        first. Ctrl-C ends the search with it.
        """
        if not candidates:
            return []
        processes = {each.setting.title: self._process(each.setting.variables, each.setting) for each in candidates}
        experiment = run_experiment(
            [base.arm(name), *(_arm(each, processes[each.setting.title], base, host) for each in candidates)],
            baseline=name,
            budget=max(LEAST, seconds),
            sources={title: str(process.command) for title, process in {name: base, **processes}.items()},
            watch=self.watch,
        )
        if experiment.interrupted:
            raise KeyboardInterrupt
        failure = experiment.trial(name).failure
        if failure:
            raise CaptureError(failure)
        self.races.append(experiment)
        won: dict[str, tuple[float, Candidate]] = {}
        for each in candidates:
            verdict, proof = experiment.verdict(each.setting.title), experiment.trial(each.setting.title).proof
            tried = Tried.judged(each.knob.id, each.setting.title, verdict, each.why)
            self.tried.append(replace(tried, reason=f"{tried.reason} Shown by: {proof}.") if proof else tried)
            if verdict.decision is Decision.FASTER and verdict.estimate is not None:
                found = (verdict.estimate.ratio, each)
                won[each.knob.id] = max(found, won.get(each.knob.id, found), key=lambda pair: pair[0])
        return [each for _, each in sorted(won.values(), key=lambda pair: -pair[0])]


def _arm(candidate: Candidate, process: ScriptArm, base: ScriptArm, host: Host) -> Arm:
    """A setting's process as an arm, which proves its effect against the process of the baseline:
    that one is ready by then.
    """

    def proof() -> str | None:
        before = replace(host, observed=Observed(**base.observed))
        return candidate.knob.proof(candidate.setting, Observed(**process.observed), before)

    return replace(process.arm(candidate.setting.title), another=None, proof=proof)
