# SPDX-License-Identifier: Apache-2.0
"""`Watch`: who is told how a race goes."""

from __future__ import annotations

from outpace.tune.trial.record import Experiment, Phase, Verdict


class Watch:
    """Told how a race goes; each method does nothing, for others to override. A context: it is left
    when the race is over.
    """

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *details: object) -> None:
        """Stop showing."""

    def preparing(self, arm: str) -> None:
        """An arm is about to be prepared."""

    def ready(self, arm: str, failure: str | None) -> None:
        """An arm is through its warm-up, or failed."""

    def round(self, experiment: Experiment, phase: Phase, done: int, of: int | None, left: float) -> None:
        """A round is over: `done` of `of` (None: open), with `left` seconds of the budget.
        `experiment` is as far as it is known.
        """

    def doing(self, text: str) -> None:
        """What goes on from now on, in a few words."""

    def note(self, text: str) -> None:
        """Something to tell, in a sentence."""

    def learned(self, title: str, verdict: Verdict) -> None:
        """A race that screens has judged a change of a program."""
