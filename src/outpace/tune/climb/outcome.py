# SPDX-License-Identifier: Apache-2.0
"""What a search found: what was tried, with its outcome; limits, and races."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outpace._dataclass import dataclass
from outpace.tune.trial.record import Experiment, Verdict

if TYPE_CHECKING:
    from outpace.model.table import Table
    from outpace.tune.climb.limits import Limits
    from outpace.tune.optimisations.advice import Advice

NOT_RACED, NOT_PROVEN, ADVICE = "not raced", "not proven", "advice"
OPT_IN = "opt-in"
USED_UP = "the budget was used up before; give it a larger one"


@dataclass(frozen=True)
class Tried:
    """An optimisation and its outcome: the decision (or the word of its answer, `not raced`, `not
    proven`, `advice`, `opt-in`), its reason, why it may help.

    consent: what has to be allowed before it is kept. ratio: rate with it / rate without it, and
    the ends of its 95% CI; None for what was not raced.
    """

    id: str
    title: str
    decision: str
    reason: str
    why: str = ""
    ratio: tuple[float, float, float] | None = None
    consent: str = ""

    @classmethod
    def judged(cls, id: str, title: str, verdict: Verdict, why: str) -> Tried:
        """What a race says of an optimisation."""
        found = verdict.estimate
        ratio = (found.ratio, found.low, found.high) if found is not None else None
        return cls(id, title, verdict.decision.value, verdict.reason, why, ratio)


@dataclass(frozen=True)
class Climbed:
    """The outcome of a search.

    limits: of the program as it is; None where they cannot be measured. tried: every optimisation.
    races: in their order. ended: why it ended, as a clause. advice: practices that fit and are not
    tried. parts: of the model, that take its step's time; lines: of a loop's script, with what
    seemed faster. own: the user's callbacks that act on each batch. steps: that this fit makes in
    all; None for not known.
    """

    limits: Limits | None
    tried: tuple[Tried, ...]
    races: tuple[Experiment, ...]
    seconds: float
    ended: str
    advice: tuple[Advice, ...] = ()
    parts: Table | None = None
    lines: Table | None = None
    own: tuple[str, ...] = ()
    steps: int | None = None
