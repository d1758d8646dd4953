# SPDX-License-Identifier: Apache-2.0
"""`outpace.race` and `outpace race`: variants that a user wrote, raced by the trial engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from outpace._dataclass import dataclass
from outpace.capture.process_tree import ProcessTree
from outpace.model.errors import CaptureError, UsageError
from outpace.model.secret_masking import find_masked_names, mask_command_line
from outpace.tune.deadline import FIRST_EPOCH
from outpace.tune.pages.progress import watching
from outpace.tune.trial.arm import Arm, steps_of
from outpace.tune.trial.engine import run_experiment
from outpace.tune.trial.record import Experiment, Per, Protocol, Verdict, read_experiment, write_experiment
from outpace.tune.trial.script import Command, ScriptArm

if TYPE_CHECKING:
    from outpace.model.page import Page
    from outpace.model.report import Report

BUDGET = 60.0


@dataclass(frozen=True)
class RaceResult:
    """What came of a race. Printing it, or showing it in a notebook, gives the table of
    variants.
    """

    experiment: Experiment

    @property
    def winner(self) -> str:
        """Name of the fastest variant whose lead over the baseline was confirmed; the baseline's
        where there is none.
        """
        return self.experiment.winner

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts on all variants but the baseline."""
        return self.experiment.verdicts

    def verdict(self, name: str) -> Verdict:
        """The verdict on one variant; KeyError for the baseline and unknown names."""
        return self.experiment.verdict(name)

    @property
    def page(self) -> Page:
        """The race as a page that every renderer shows."""
        from outpace.tune.pages.race import page_of

        return page_of(self.experiment)

    @property
    def report(self) -> Report:
        """The same as a report, with the winner as the first thing to change."""
        from outpace.tune.pages.race import report_of

        return report_of(self.experiment, ", ".join(self.experiment.sources.values()))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the record as JSON lines, which `outpace replay` reads."""
        return write_experiment(self.experiment, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RaceResult:
        """The result of a record."""
        return cls(read_experiment(path))

    def __str__(self) -> str:
        from outpace.report import terminal

        report = self.report
        return terminal.render(report, tools=[page.id for page in report.pages]).strip("\n")

    def _repr_html_(self) -> str:
        return self.page._repr_html_()


def race(
    variants: Mapping[str, Callable[[], object] | Arm],
    *,
    budget: float = BUDGET,
    baseline: str | None = None,
    effect: float = 0.03,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> RaceResult:
    """Race variants of a training step against each other in this process.

    A variant is a function without arguments that runs one step; it is called again and again. (An
    `Arm` of `outpace.tune.trial` can also be prepared and undone.) `budget` is in seconds and
    begins when all variants are warm; `baseline` is the variant to compare with, the first by
    default; a difference below `effect` (a fraction) is not called one. Ctrl-C ends the race with
    what is known until then. `out` is where to write the record. Raises UsageError for fewer than
    two variants, and CaptureError when no variant ran a step.
    """
    arms = [_arm(name, variant) for name, variant in variants.items()]
    with watching(progress) as watch:
        experiment = run_experiment(
            arms, baseline=baseline, budget=budget, protocol=_protocol(effect, Per.STEP), seed=seed, watch=watch
        )
    return _finish(experiment, out, told=progress)


def race_scripts(
    commands: Sequence[str] | Mapping[str, str],
    *,
    budget: float = BUDGET,
    baseline: str | None = None,
    effect: float = 0.03,
    per: Per = Per.STEP,
    alive: int | None = None,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    progress: bool = True,
    show_secrets: bool = False,
) -> RaceResult:
    """Race scripts, each in two processes or more of its own, which rest (stopped) while others
    run.

    A command is a script's path, or a command line as a shell would take it, with variables before
    and arguments behind it; names may be given (name: command), the commands themselves are the
    names otherwise. What is timed is the script's training step: what a function `outpace_race()`
    of the script returns, else the steps of its first Keras `fit`, else those of its own loop.
    alive: how many processes may live at once, where memory bounds that; with fewer than two of
    each script, whole processes run in turns. show_secrets: show and record keys and passwords
    among arguments, for which dots stand otherwise, so that the record cannot be replayed. No
    process outlives the race, however this one ends. Raises NotFoundError for a missing script;
    otherwise as `race`.
    """
    told = str if show_secrets else mask_command_line
    names = list(commands) if isinstance(commands, Mapping) else _names([told(each) for each in commands])
    sources = dict(zip(names, commands.values() if isinstance(commands, Mapping) else commands, strict=True))
    if len(sources) < 2:
        raise UsageError("A race needs at least two variants.")
    chosen = next((name for name, source in sources.items() if baseline in (name, source)), baseline)
    parsed = {name: Command.parse(source) for name, source in sources.items()}
    first = min(FIRST_EPOCH, budget / 4)
    with ProcessTree(), watching(progress) as watch:
        experiment = run_experiment(
            [ScriptArm(command, first_epoch=first).arm(name) for name, command in parsed.items()],
            baseline=chosen,
            budget=budget,
            protocol=_protocol(effect, per, alive),
            seed=seed,
            sources={name: told(source) for name, source in sources.items()},
            watch=watch,
        )
    return _finish(experiment, out, told=progress)


def replay(record: Experiment, *, out: str | os.PathLike[str] | None = None, progress: bool = True) -> RaceResult:
    """Repeat a race of scripts as its record says: same scripts, baseline, protocol, budget and
    seed.

    Raises UsageError for a record of functions: they live in the program that raced them.
    """
    if not record.sources:
        raise UsageError(
            "This race was one of Python functions, which the record does not hold. Use --judge-only, or run the program again."
        )
    if hidden := dict.fromkeys(name for source in record.sources.values() for name in find_masked_names(source)):
        raise UsageError(
            f"The record has dots for the value of {', '.join(hidden)}, which keeps secrets out of it. Use --judge-only, or race the scripts "
            "again; with --show-secrets a record keeps them."
        )
    return race_scripts(
        record.sources,
        budget=record.budget,
        baseline=record.baseline,
        effect=record.protocol.effect,
        per=record.protocol.per,
        alive=record.protocol.alive or None,
        seed=record.seed,
        out=out,
        progress=progress,
        show_secrets=True,  # as the record has them
    )


def _arm(name: str, variant: Callable[[], object] | Arm) -> Arm:
    if isinstance(variant, Arm):
        return replace(variant, name=name)
    if not callable(variant):
        raise UsageError(f"The variant {name!r} cannot be called. Give a function that runs one step.")
    return Arm(name, steps_of(variant))


def _protocol(effect: float, per: Per, alive: int | None = None) -> Protocol:
    if not 0 < effect < 1:
        raise UsageError(f"The smallest effect is a fraction between 0 and 1, for instance 0.03; {effect:g} is not.")
    if alive is not None and alive < 1:
        raise UsageError(f"At least one process must be alive at a time, not {alive}.")
    return Protocol(effect=effect, per=per, alive=alive or 0)


def _names(commands: Sequence[str]) -> list[str]:
    """The commands, numbered where one is given twice."""
    return [
        f"{command} #{commands[: at + 1].count(command)}" if commands.count(command) > 1 else command
        for at, command in enumerate(commands)
    ]


def _finish(experiment: Experiment, out: str | os.PathLike[str] | None, *, told: bool) -> RaceResult:
    """The result, saved where that is wanted. `told`: why variants failed was shown already."""
    result = RaceResult(experiment)
    if out is not None:
        result.save(out)
    if not experiment.interrupted and all(trial.first_seconds is None for trial in experiment.trials):
        reasons = " ".join(f"{trial.arm}: {trial.failure}" for trial in experiment.compared)
        raise CaptureError(f"No variant ran a step{', for the reasons above.' if told else f'. {reasons}'}")
    return result
