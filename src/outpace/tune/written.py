"""What `outpace tune` prints, the files that were asked for, and the commands that catch up on what a tuning left out.

The files are made in the folder of the command (`handing`), which brings them to the user's places: this process is guarded."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from outpace.capture.recording import tell
from outpace.model.report import Command, Report
from outpace.model.units import counted
from outpace.report import json_, terminal
from outpace.store.tree import near
from outpace.tune.climb.climb import NEAR
from outpace.tune.climb.limits import BOUND
from outpace.tune.climb.outcome import USED_UP, Climbed
from outpace.tune.handing import Handed
from outpace.tune.optimisations import knobs
from outpace.tune.optimisations.optimisation import NeedsConsent
from outpace.tune.pages.environment import page_of_plain
from outpace.tune.pages.tuning import ID
from outpace.tune.session import Tuned


def report(plan: Mapping[str, Any], tuned: Tuned) -> list[Handed]:
    """Print the report and make the files of a plan."""
    environment = plan.get("environment")
    made = tuned.report_of(plan["script"], *([page_of_plain(environment)] if environment else []))
    made = replace(made, next=following(tuned.climbed, plan))
    if plan["json"]:
        sys.stdout.write(json_.render(made) + "\n")
    else:
        terminal.print_report(made, width=plan["width"], color=plan["color"], tools=[ID], commands=True)
    sys.stdout.flush()
    room = Path(plan["outcome"]).parent
    files: list[tuple[str, Callable[[Path, str], list[Handed]]]] = [
        ("html", functools.partial(_html, made)),
        ("out", functools.partial(_races, tuned)),
        ("patch", functools.partial(_patch, plan, tuned)),
    ]
    return [handed for name, make in files if plan[name] for handed in make(room / f"handed-{name}", plan[name])]


class Clock:
    """What the time of the command went to: the budget is that of the tuning alone."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        """`plan` says when the command `began`, and its `budget`."""
        self._plan = plan
        self._began = self._ended = time.monotonic()

    @contextlib.contextmanager
    def tuning(self) -> Iterator[None]:
        """While the tuning goes on."""
        self._began = time.monotonic()
        yield
        self._ended = time.monotonic()

    def sentence(self, tuned: Tuned) -> str:
        """The times, at the end of the command."""
        now, added = time.monotonic(), tuned.climbed.added
        more = f", extended by {added:.0f} s for its last race" if added >= 1 else ""
        parts = {"before": self._began - self._plan["began"], "afterwards": now - self._ended}
        rest = ", ".join(f"{seconds:.0f} s {name}" for name, seconds in parts.items() if seconds >= 1)
        whole = f"the whole command took {now - self._plan['began']:.0f} s" + (f" ({rest})" if rest else "")
        return f"tuning took {self._ended - self._began:.0f} s of {self._plan['budget']:.0f} s{more}; {whole}"


def _html(made: Report, private: Path, place: str) -> list[Handed]:
    from outpace.report import html

    return [Handed(str(html.write(made, private)), place, "The report", f"the HTML report is {place}")]


def _races(tuned: Tuned, private: Path, place: str) -> list[Handed]:
    from outpace.tune.trial.record import write_experiment

    races = tuned.climbed.experiments
    names = [f"race-{at}.jsonl" for at in range(len(races))]
    said = [""] * (len(races) - 1) + [f"the samples of {counted(len(races), 'race')} are in {place}"]
    made = [str(write_experiment(experiment, private / name)) for name, experiment in zip(names, races, strict=True)]
    return [
        Handed(path, os.path.join(place, name), "The record", what) for path, name, what in zip(made, names, said, strict=False)
    ]


def _patch(plan: Mapping[str, Any], tuned: Tuned, private: Path, place: str) -> list[Handed]:
    """The change of the source, after the patched program was run up to its fit and compared."""
    from outpace.tune.data.verify import Difference
    from outpace.tune.patch import verify_patch, write_patch

    patch = tuned.patch()
    for left in patch.left:
        tell(left.sentence)
    if not patch.files:
        tell("there is nothing to write as a patch")
        return []
    if patch.left:
        tell("the patch holds only a part of what was raced, and alone gains less than that")
    tell("running the patched program up to its training, to compare its elements with the original's")
    outcome = verify_patch(
        patch,
        plan["script"],
        plan["argv"],
        module=plan["module"],
        risk=tuned.best.risk,
        fit=plan["fit"],
        loop=tuned.program.loop is not None,
        step_only=tuned.best.step_only,
        folder=plan["folder"],
    )
    if isinstance(outcome, Difference):
        tell(f"no patch is written, because the patched program differs: {outcome.what}")
        return []
    write_patch(patch, private)
    said = f"the patch is {near(place)} (apply it with: {patch.command} < {near(place)}): {' '.join(outcome.how)}"
    return [Handed(str(private), place, "The patch", said, new=True)]


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
