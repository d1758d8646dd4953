# SPDX-License-Identifier: Apache-2.0
"""How a race goes, on stderr: one line that is replaced in a terminal, one line per event
elsewhere.
"""

from __future__ import annotations

import sys
import time
from typing import TextIO

from rich.console import Console
from rich.status import Status

from outpace.stats.ratios import compare_rounds
from outpace.tune.trial.engine import Watch
from outpace.tune.trial.record import Experiment, Phase, Verdict

_EVERY = 0.5  # seconds between two changes of the line
_MOST_SHOWN = 4


def shown(file: TextIO | None = None) -> Progress:
    """A watch that prints to `file`, by default stderr."""
    return Progress(Console(file=file or sys.stderr, highlight=False, markup=False, emoji=False, soft_wrap=True))


def watching(progress: bool) -> Watch:
    """A watch that shows progress on stderr, or one that is silent."""
    return shown() if progress else Watch()


class Progress(Watch):
    """Shows preparations, rounds and the ratios as they stand."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._status: Status | None = None
        self._phase: Phase | None = None
        self._last = 0.0
        self._learned: dict[str, str] = {}

    @property
    def so_far(self) -> str:
        """What races that screen have said of changes, as the end of a sentence; empty where there
        was none.
        """
        found = "; ".join(f"{title} {said}" for title, said in self._learned.items())
        return f"; found so far, and not confirmed on fresh rounds: {found}" if found else ""

    def __enter__(self) -> Progress:
        if self.console.is_terminal:
            self._status = Status("", console=self.console, spinner="line", refresh_per_second=4)
            self._status.start()
        return self

    def __exit__(self, *details: object) -> None:
        """Take the line away."""
        if self._status is not None:
            self._status.stop()

    def preparing(self, arm: str) -> None:
        """An arm is about to be prepared."""
        self.doing(f"preparing {arm}")

    def ready(self, arm: str, failure: str | None) -> None:
        """An arm failed; others are not mentioned."""
        if failure:
            self.console.print(f"outpace: {arm} is out of the race: {failure}")

    def doing(self, text: str) -> None:
        """What goes on: the line of a terminal, or a line of its own."""
        if self._status is not None:
            self._status.update(text)
        else:
            self.console.print(f"outpace: {text}")

    def note(self, text: str) -> None:
        """Something to tell."""
        self.console.print(f"outpace: {text}")

    def learned(self, title: str, verdict: Verdict) -> None:
        """A change was judged."""
        found = verdict.estimate
        ratio = f", {found.ratio:.2f}x (95% CI {found.low:.2f} to {found.high:.2f})" if found is not None else ""
        self._learned[title] = f"{verdict.decision.value}{ratio}"

    def round(self, experiment: Experiment, phase: Phase, done: int, of: int | None, left: float) -> None:
        """A round is over."""
        name = "confirming on fresh rounds" if phase is Phase.CONFIRM else "racing"
        if phase is not self._phase:
            self._phase = phase
            self.doing(f"{name}, at most {max(0.0, left):.0f} s" if of is None else f"{name}, {of} rounds")
        if self._status is None or time.monotonic() - self._last < _EVERY:
            return
        self._last = time.monotonic()
        count = f"round {done}" if of is None else f"round {done} of {of}"
        self._status.update(f"{name}, {count}, {max(0.0, left):.0f} s left{_standing(experiment, phase)}")


def _standing(experiment: Experiment, phase: Phase) -> str:
    """The ratios so far, as many as a line holds; what is shown here is not published."""
    reference, parts = experiment.reference(phase), []
    for trial in experiment.compared:
        found = compare_rounds(reference, experiment.together(trial.arm, phase))
        if found is not None and trial.arm != experiment.baseline:
            parts.append(f"{trial.arm} {found.ratio:.2f}")
    more = f" and {len(parts) - _MOST_SHOWN} more" if len(parts) > _MOST_SHOWN else ""
    return ": " + ", ".join(parts[:_MOST_SHOWN]) + more if parts else ""
