# SPDX-License-Identifier: Apache-2.0
"""The proof of what a search found: the edited script is the same program, and it is faster; both
of the texts that are handed over.

The original and the edited text run in processes of their own (`same`), then race each other
(`trial`), two processes of each where time allows. They are new ones unless the gain is large: a
search picks the process that happens to be quick, too. Of a stack of changes each is taken out
once: one that adds nothing goes, wherever it stands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from outpace._dataclass import dataclass
from outpace.stats.ratios import Estimate
from outpace.tune.climb.limits import TODAY
from outpace.tune.deadline import FIRST_EPOCH, LEAST_RACE, Deadline
from outpace.tune.same import Judgement, Original, Standing
from outpace.tune.same.prove import BEHIND, MORE, WHOLE
from outpace.tune.searched import Searched, Stack
from outpace.tune.starts import Forks
from outpace.tune.texts.edition import Edition
from outpace.tune.texts.place import Place
from outpace.tune.trial.arm import Arm
from outpace.tune.trial.engine import Watch, run_experiment
from outpace.tune.trial.record import Decision, Experiment, Protocol
from outpace.tune.trial.script import Command, ScriptArm, room
from outpace.tune.trial.verdict import judge

COMPARED = 15.0  # seconds of steps that are compared
FEWEST, MOST = 16, 1024  # passes
GROUPS = 4  # at least, where several passes are made in one call
COMPARED_SHARE, LEAST_COMPARED = 0.6, 10.0  # of what is left of the budget, and seconds at least, for a comparison
RUN, RUNS = 1.3, 2.2  # times the training's length that comparing takes: two runs side by side, and two more
MOST_FEWER = 3  # changes that are taken out, one at a time
LARGE = 2.0  # a ratio by the search, beyond what luck of a process explains: its processes may go on


@dataclass(frozen=True)
class Proof:
    """stack: what is kept; None for nothing. judgement: of what is kept, or of the whole stack.
    race: of the texts; None where they are not the same program. gain: of what is kept. dropped:
    changes that were taken out, `because` of what. why: what stands in the way, in a sentence;
    empty where it is kept.
    """

    stack: Stack | None
    judgement: Judgement
    race: Experiment | None = None
    gain: Estimate | None = None
    dropped: tuple[str, ...] = ()
    because: str = ""
    why: str = ""

    @property
    def standing(self) -> Standing | None:
        """What is known of what is kept; None where nothing is."""
        return self.judgement.standing if self.stack is not None else None

    @property
    def gained(self) -> str:
        """The speed-up as a sentence, with what it is known for; of what is kept."""
        assert self.stack is not None and self.gain is not None
        found, names = self.gain, " and ".join(self.stack.titles)
        where = f" in {self.judgement.scope}" if self.standing is Standing.COMPARED else ""
        said = (
            f"Speed-up {found.ratio:.2f}x{where}, 95% CI {found.low:.2f} to {found.high:.2f}, with: {names}.{self._as_a_whole}"
        )
        if self.standing is Standing.PROVEN:
            held = "".join(f", {each}" for each in self.judgement.provisos)
            return f"{said} Proven the same program: the whole training was compared{held}."
        return f"{said} It is another program, which was allowed." if self.standing is Standing.ALLOWED else said

    @property
    def _as_a_whole(self) -> str:
        """A further sentence where the whole training gains less than a step: by what is prepared
        before the first one, and by what lies between steps. Empty where it does not, or where its
        length is not known.
        """
        length, stack = self.judgement.known_length, self.stack
        whole = self.race.of_run(stack.name, length) if length and stack is not None and self.race is not None else None
        if whole is None or self.gain is None or whole >= self.gain.low:
            return ""
        said = f" That is of a step: all {length:,} steps, with the first call and what lies between them,"
        if whole >= 1:
            return f"{said} gain {whole:.2f}x."
        return f"{said} take {1 / whole:.2f} times as long."

    @property
    def known(self) -> tuple[str, ...]:
        """What a reader of the patch should know, in sentences; nothing of what is proven."""
        if self.standing is Standing.ALLOWED:
            return ("Whether its examples are the same but for their order, or its random numbers, was not compared.",)
        if self.standing is not Standing.COMPARED:
            return ()
        found = f"No difference was found there: {self.judgement.sentence}. What shows elsewhere is for you to judge."
        return (found, *self.judgement.remarks)

    def meeting(self, required: Standing) -> Proof:
        """This one, or one that keeps nothing, where what is kept is only compared, or allowed, and
        has to be proven.
        """
        if required is not Standing.PROVEN or self.standing in (None, Standing.PROVEN):
            return self
        if self.standing is Standing.ALLOWED or self.gain is None:
            known = "The edited script is another program, which was allowed"
        else:
            known = f"The speed-up is {self.gain.ratio:.2f}x in {self.judgement.scope}"
        return replace(self, stack=None, gain=None, why=f"{known}, and --require proven asks for the whole training.")


def passes_for(step_seconds: float, every: int = 1, seconds: float = COMPARED) -> int:
    """How many passes are compared, of which `every` so many are made in one call: a power of two
    of calls that take about so many seconds.
    """
    wanted = seconds / step_seconds if step_seconds > 0 else MOST
    least = max(FEWEST, GROUPS * every)
    calls: int = 2 ** round(math.log2(max(least, min(MOST, wanted)) / every))
    return every * calls


@dataclass(eq=False)
class Originals:
    """Runs of one script as it is, to compare edited texts with; they are made when they are asked
    for. Ends with its context. deadline: when the answer is wanted; how much is compared follows
    from what is left until then.
    """

    command: Command
    folder: str | None = None
    forks: Forks = field(default_factory=Forks)
    deadline: Deadline = Deadline(math.inf)
    _now: Original | None = None

    def __enter__(self) -> Originals:
        return self

    def __exit__(self, *details: object) -> None:
        self._close()

    def of(self, place: Place, fit: int, step_seconds: float, stack: Stack) -> Original:
        """Those of a loop, or of the n-th `fit`, for the texts of a stack. Of changes that are
        equal to the bit one run of each is enough, and it may take more of what is left.
        """
        every, exact = stack.every, stack.is_exact
        if self._now is None or self._now.every % every:
            self._close()
            script, *argv = self.command.parts
            seconds = max(LEAST_COMPARED, COMPARED_SHARE * self.deadline.left)
            levels = max(1, len(place.path))  # a loop inside of another is cut each time
            self._now = Original(
                script,
                argv,
                self.command.module,
                place,
                fit,
                self.folder,
                passes_for(step_seconds, every, min(COMPARED, seconds / 4) / levels),
                every,
                deadline=self.deadline,
                whole=min(WHOLE, seconds / (MORE * (RUN if exact else RUNS))),
                behind=min(BEHIND, seconds / 4),
                forks=self.forks,
            ).__enter__()
        return self._now

    def _close(self) -> None:
        if self._now is not None:
            self._now.__exit__()
            self._now = None


def prove(searched: Searched, originals: Originals, running: Mapping[str, ScriptArm], watch: Watch) -> Proof:
    """Prove the stack of a search. running: processes of the search, by the names of what they run;
    they go on racing.
    """
    return _Prover(searched, originals, running, watch).prove()


@dataclass(frozen=True)
class _Prover:
    """Of what a search found; see `prove`."""

    searched: Searched
    originals: Originals
    running: Mapping[str, ScriptArm]
    watch: Watch

    def prove(self) -> Proof:
        """Compare, then race."""
        searched, stack = self.searched, self.searched.stack
        assert stack is not None
        self.watch.note("Is the edited script the same program? Running both, and comparing what they hold.")
        original = self.originals.of(searched.place, searched.fit, searched.step_seconds, stack)
        strict = stack.consents and _strictly(original, searched, stack)
        judgement = whole = _judged(original, stack, strict, self._left)
        for less in searched.fewer if judgement.same is not True else ():
            self.watch.note(f"Not shown of all of it: {judgement.why} Without {_left_out(stack, less)}?")
            judgement, stack = _judged(original, less, strict, self._left), less
            if judgement.same is True:
                break
        if judgement.same is not True:
            return Proof(None, whole, why=whole.why)
        self.watch.note(_describe(judgement))
        found = self._race(stack, original, judgement, strict)
        if whole is judgement or found.stack is None or searched.stack is None:
            return found
        left = [title for title in searched.stack.titles if title not in found.stack.titles]
        return replace(found, dropped=tuple(left), because=f"With it, {whole.why[:1].lower()}{whole.why[1:]}")

    @property
    def _left(self) -> float:
        """Seconds that comparing may take, so that a race can follow."""
        return self.originals.deadline.left - self.searched.start_seconds - LEAST_RACE

    def _race(self, stack: Stack, original: Original, judgement: Judgement, strict: bool) -> Proof:
        """Race a stack that was compared against the original. strict: see `_judged`."""
        fewer = self.searched.fewer[:MOST_FEWER] if stack is self.searched.stack else ()
        arms, seconds = self._arms(stack, fewer)
        if seconds < LEAST_RACE:
            return _by_search(self.searched, stack, judgement)
        self.watch.note(f"Racing the edited script against the original: {stack.name}.")
        alive = max(1, room(original.memory)) if all(arm.another is not None for arm in arms) else 0
        protocol = Protocol(search=False, alive=alive, processes=True)
        race = run_experiment(arms, baseline=TODAY, budget=seconds, protocol=protocol, watch=self.watch)
        if race.interrupted:
            raise KeyboardInterrupt
        kept, dropped = _useful(race, stack, [each for each in fewer if any(arm.name == each.name for arm in arms)])
        if kept is not stack:
            rest = _judged(original, kept, strict, self._left)
            kept, dropped, judgement = (kept, dropped, rest) if rest.same is True else (stack, (), judgement)
        verdict = race.verdict(kept.name)
        if verdict.decision is not Decision.FASTER:
            why = f"The edited script, raced against the original, is not shown to be faster: {verdict.reason}"
            return Proof(None, judgement, race, why=why)
        return Proof(kept, judgement, race, verdict.estimate, dropped, "The rest is as fast without." if dropped else "")

    def _arms(self, stack: Stack, fewer: Sequence[Stack]) -> tuple[list[Arm], float]:
        """Return the arms of the race, and the seconds that it may take after their starts. Two new
        processes of each run where time is left, or those of the search with another one of each;
        then the stack without each of its changes.
        """
        start, left = self.searched.start_seconds, self.originals.deadline.left
        fresh = self.searched.seen < LARGE and left - 4 * start >= LEAST_RACE
        for name in self.running if fresh else ():
            self.running[name].close()
        arms = [self._arm(TODAY, None), self._arm(stack.name, stack)]
        seconds = left - start * sum(not arm.warm for arm in arms)
        if seconds - start * len(arms) < LEAST_RACE:
            return [replace(arm, another=None) for arm in arms], seconds
        seconds -= start * len(arms)
        for each in fewer:
            if seconds - 2 * start >= LEAST_RACE * (len(arms) + 1):
                arms.append(self._arm(each.name, each))
                seconds -= 2 * start
        return arms, seconds

    def _arm(self, name: str, edited: Stack | None) -> Arm:
        """Return the process of some texts as an arm: that of the search, which ends with it, or
        one of its own.
        """
        edition = _edition(edited, self.searched)
        known = self.running.get(name)
        if known is not None and known.session is not None and known.edition == edition:
            return replace(known.arm(name), undo=None, warm=True)
        fills = self.searched.caches or (edited is not None and any(each.fills for each in edited.changes))
        originals = self.originals
        first = min(FIRST_EPOCH, originals.deadline.left / 4) if fills else 0.0
        own = ScriptArm(originals.command, first_epoch=first, edition=edition, folder=originals.folder, forks=originals.forks)
        return own.arm(name)


def _describe(judgement: Judgement) -> str:
    if judgement.allowed:
        return f"Not shown, which was allowed. {judgement.why}"
    return f"{'It is' if judgement.standing is Standing.PROVEN else 'No difference was found'}: {judgement.sentence}."


def _strictly(original: Original, searched: Searched, stack: Stack) -> bool:
    """Whether the changes that need no consent are, together, the same program."""
    if all(each.consent for each in stack.changes):
        return True
    return (
        searched.strict is not None
        and original.against(searched.strict.texts, searched.strict.grouped, searched.strict.is_exact).same is True
    )


def _judged(original: Original, stack: Stack, strict: bool, seconds: float) -> Judgement:
    """strict: whether the changes that need no consent, together, were shown to be the same
    program: only then others may change it. seconds: what it may take to look a second time.
    """
    found = original.confirmed(stack.texts, stack.grouped, stack.is_exact, seconds)
    if not (stack.consents and strict and found.same is False and found.runs):
        return found
    return replace(found, same=True, allowed=True)


def _by_search(searched: Searched, stack: Stack, judgement: Judgement) -> Proof:
    """Return what the search's own race says of a stack, where no time is left for another one: of
    one process of each, only a large gain.
    """
    for race in searched.climbed.races:
        if race.baseline == TODAY and any(trial.arm == stack.name for trial in race.trials):
            apart = replace(race, protocol=replace(race.protocol, processes=True))
            again = replace(apart, verdicts=judge(apart))
            verdict = again.verdict(stack.name)
            if verdict.decision is Decision.SEEMS_FASTER:
                return Proof(stack, judgement, again, verdict.estimate)
    return Proof(
        None, judgement, why="No time was left to race the edited script against the original: give it a larger --budget."
    )


def _left_out(stack: Stack, less: Stack) -> str:
    return " and ".join(title for title in stack.titles if title not in less.titles)


def _edition(stack: Stack | None, searched: Searched) -> Edition:
    if stack is None:
        return Edition({}, searched.place, searched.fit)
    return Edition(stack.texts, searched.place, searched.fit, stack.grouped)


def _useful(race: Experiment, stack: Stack, fewer: Sequence[Stack]) -> tuple[Stack, tuple[str, ...]]:
    """The stack, or that without the change which adds least, where it adds nothing by the same
    rounds; and what was dropped.
    """
    whole = race.verdict(stack.name).estimate
    rest = [(each, found) for each in fewer if (found := race.verdict(each.name).estimate) is not None]
    if whole is None or not rest:
        return stack, ()
    best, found = max(rest, key=lambda each: each[1].ratio)
    if found.ratio < whole.ratio or race.verdict(best.name).decision is not Decision.FASTER:
        return stack, ()
    return best, tuple(title for title in stack.titles if title not in best.titles)
