"""`tune_environment`: a script as it is against the same script with each setting, every one in a process of its own."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from outpace._dataclass import dataclass
from outpace.model.errors import CaptureError
from outpace.tune.climb.outcome import Tried
from outpace.tune.data.size import available_memory
from outpace.tune.optimisations import environment_knobs
from outpace.tune.optimisations.environment import EnvironmentKnob, Host, Observed, Setting
from outpace.tune.optimisations.optimisation import Applies
from outpace.tune.trial.arm import Arm
from outpace.tune.trial.engine import AGAIN, Watch, run_experiment
from outpace.tune.trial.record import Decision, Experiment, Verdict
from outpace.tune.trial.script import Command, ScriptArm

START = "as it is"
FIRST_SHARE = 0.6  # of the budget, for the race of single settings; the rest is for the best two together
LEAST = 4.0  # seconds; a race that is given less proves nothing


@dataclass(frozen=True)
class Candidate:
    """A setting that applies here: why, and what it may change."""

    knob: EnvironmentKnob
    setting: Setting
    applies: Applies


@dataclass(frozen=True)
class EnvironmentOutcome:
    """What came of it.

    tried: every knob, raced or not, with its decision; variables: those of the proven winner, empty where there is none; kept: titles of what
    they come from; races: of single settings, then of the best two together against the best alone; command: the
    script's, with the variables.
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
    """Race a script against itself with other settings of the environment. `budget`: seconds of racing, without the processes' starts.

    No more processes are started than fit into the free memory. Raises CaptureError where the script runs no step that can be raced;
    KeyboardInterrupt passes through. In any case no process is left.
    """
    search = _Search(script, argv, module, budget, watch or Watch())
    return search.run(environment_knobs() if knobs is None else knobs)


class _Search:
    """One search; the second self of the baseline is started first, and tells what the script is like."""

    def __init__(self, script: str, argv: Sequence[str], module: bool, budget: float, watch: Watch) -> None:
        self.command = Command((script, *argv), module)
        self.budget, self.watch = budget, watch
        self.tried: list[Tried] = []
        self.races: list[Experiment] = []
        self.host = Host(1, 1, {}, Observed())
        self.began = time.monotonic()

    def run(self, knobs: Sequence[EnvironmentKnob]) -> EnvironmentOutcome:
        """Observe, race the settings one by one, then the best two together."""
        again = self._process({})
        try:
            self.watch.preparing("the script as it is")
            again.start()
            self.host = Host.here(Observed.of(again.observed))
            candidates = self._fitting(list(self._candidates(knobs)), again)
            won = self._single(candidates, again) if candidates else []
        finally:
            again.close()
        kept = self._together(won[0], won[1]) if len(won) > 1 else won
        variables = {name: value for candidate in kept for name, value in candidate.setting.variables.items()}
        return EnvironmentOutcome(
            tuple(self.tried),
            variables,
            tuple(candidate.setting.title for candidate in kept),
            tuple(self.races),
            replace(self.command, environment=variables),
            time.monotonic() - self.began,
        )

    def _process(
        self, variables: Mapping[str, str], noting: Mapping[str, str] | None = None, keep: Sequence[str] = ()
    ) -> ScriptArm:
        return ScriptArm(replace(self.command, environment=variables), noting, keep=keep)

    def _candidates(self, knobs: Sequence[EnvironmentKnob]) -> Iterator[Candidate]:
        for knob in knobs:
            applies = knob.applies(self.host)
            if isinstance(applies, Applies):
                yield from (Candidate(knob, setting, applies) for setting in knob.settings(self.host))
            else:
                self.tried.append(Tried(knob.id, knob.title, applies.word, applies.sentence))

    def _fitting(self, candidates: list[Candidate], running: ScriptArm) -> list[Candidate]:
        """Those whose processes fit into memory beside the baseline's two; the others are noted as not tried."""
        each = resident(running.session) if running.session is not None else 0
        free = available_memory()
        more = fitting(each, free)
        room = len(candidates) if more is None else max(0, more - 1)  # the baseline's first self takes its part
        if free is not None and len(candidates) > room:
            why = f"its process would need about {gib(each)} beside the others, and {gib(free)} of memory are free"
            self.tried += [
                Tried(c.knob.id, c.setting.title, "not applicable", why, c.applies.sentence) for c in candidates[room:]
            ]
        return candidates[:room]

    def _single(self, candidates: list[Candidate], again: ScriptArm) -> list[Candidate]:
        """Race each setting against the script as it is; the proven winners, at most one per knob, the fastest first."""
        share = FIRST_SHARE if len({candidate.knob.id for candidate in candidates}) > 1 else 1.0
        with contextlib.ExitStack() as stack:
            base = self._process({})
            racing = {START: base, **{c.setting.title: self._with(stack, c, base) for c in candidates}}
            arms = [self._arm(c, c.setting.title, racing[c.setting.title], base) for c in candidates]
            experiment = self._race(base.arm(START), arms, again, racing, share * self.budget)
        by_title = {candidate.setting.title: candidate for candidate in candidates}
        found = []
        for verdict in experiment.verdicts:
            candidate = by_title[verdict.arm]
            self._note(candidate.knob.id, verdict, candidate.applies.sentence, experiment)
            if verdict.decision is Decision.FASTER and verdict.estimate is not None:
                found.append((verdict.estimate.ratio, candidate))
        found.sort(key=lambda pair: -pair[0])
        won: dict[str, Candidate] = {}
        for _, candidate in found:
            won.setdefault(candidate.knob.id, candidate)
        return list(won.values())

    def _together(self, best: Candidate, second: Candidate) -> list[Candidate]:
        """Race the best two together against the best alone; what of them is kept."""
        alone = dict(best.setting.variables)
        left = (1 - FIRST_SHARE) * self.budget
        if left < LEAST or not alone.keys().isdisjoint(second.setting.variables):
            return [best]
        title = f"{best.setting.title} and {second.setting.title}"
        with contextlib.ExitStack() as stack:
            base = self._process(alone)
            both = self._with(stack, second, base)
            racing, arms = {best.setting.title: base, title: both}, [self._arm(second, title, both, base)]
            experiment = self._race(base.arm(best.setting.title), arms, self._process(alone), racing, left)
        verdict = experiment.verdict(title)
        self._note("together", verdict, f"each alone is faster; the ratio is to {best.setting.title} alone", experiment)
        return [best, second] if verdict.decision is Decision.FASTER else [best]

    def _with(self, stack: contextlib.ExitStack, candidate: Candidate, base: ScriptArm) -> ScriptArm:
        """The process of a setting on top of the variables of `base`, where it notes down evidence as long as `stack` is open."""
        setting = candidate.setting
        keep = [stack.enter_context(tempfile.TemporaryDirectory())] if setting.noting else []
        noting = setting.noting(keep[0]) if setting.noting else {}
        return self._process({**base.command.environment, **setting.variables}, noting, keep)

    def _arm(self, candidate: Candidate, name: str, process: ScriptArm, base: ScriptArm) -> Arm:
        """A setting's process as an arm, which proves its effect against the process of the baseline: that one is ready by then."""

        def proof() -> str | None:
            host = replace(self.host, observed=Observed.of(base.observed))
            return candidate.knob.proof(candidate.setting, Observed.of(process.observed), host)

        return replace(process.arm(name), proof=proof)

    def _race(self, base: Arm, arms: list[Arm], again: ScriptArm, racing: Mapping[str, ScriptArm], budget: float) -> Experiment:
        """A race; Ctrl-C ends the search with it."""
        experiment = run_experiment(
            [base, *arms],
            baseline=base.name,
            again=again.arm(AGAIN),
            budget=max(LEAST, budget),
            sources={name: str(process.command) for name, process in racing.items()},
            watch=self.watch,
        )
        if experiment.interrupted:
            raise KeyboardInterrupt
        failure = experiment.trial(base.name).failure
        if failure:
            raise CaptureError(failure)
        self.races.append(experiment)
        return experiment

    def _note(self, change: str, verdict: Verdict, why: str, experiment: Experiment) -> None:
        tried, proof = Tried.judged(change, verdict.arm, verdict, why), experiment.trial(verdict.arm).proof
        self.tried.append(replace(tried, reason=f"{tried.reason} Shown by: {proof}.") if proof else tried)


RESERVE = 0.2  # of the free memory is left to everything else


def resident(session: int) -> int:
    """Resident bytes of all processes of a session, pages that they share counted for each; 0 where the system does not say."""
    total = 0
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):  # it ended while we looked
            after_name = _text(f"/proc/{name}/stat").rsplit(")", 1)[1].split()  # state, parent, group, session, ...
            if int(after_name[3]) == session:
                total += int(_text(f"/proc/{name}/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


def fitting(each: int, free: int | None) -> int | None:
    """How many more processes of `each` bytes fit into `free` bytes, with a reserve; None where either is not known."""
    return int(free * (1 - RESERVE)) // each if each > 0 and free is not None else None


def gib(size: float) -> str:
    """Bytes for people."""
    return f"{size / 2**30:.1f} GiB"


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
