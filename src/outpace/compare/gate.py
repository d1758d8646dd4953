"""A comparison as a gate: is the second side slower by more than is allowed?

It fails for the program alone. It passes only where more than is allowed would have been seen, and where evidence from outside the parts says
that the machine makes whatever the step takes longer beyond that. What lies between is inconclusive. It reads the same numbers as the headline.
"""

from __future__ import annotations

import math
from enum import Enum

from outpace._dataclass import dataclass
from outpace.compare.verdict import Comparison, State, Verdict
from outpace.model.errors import InconclusiveError, OutpaceError, RegressionError


class Outcome(str, Enum):
    """What a gate comes to."""

    PASSED = "passed"
    FAILED = "failed"
    OPEN = "inconclusive"


_ERRORS: dict[Outcome, type[OutpaceError]] = {Outcome.FAILED: RegressionError, Outcome.OPEN: InconclusiveError}


@dataclass(frozen=True)
class Gate:
    """allowed: what the program may add, as a share of a step. why: what the outcome rests on, in words."""

    allowed: float
    outcome: Outcome
    why: str

    @property
    def sentence(self) -> str:
        """The outcome, with what it rests on."""
        return f"Gate of {100 * self.allowed:g}% {self.outcome.value}: {self.why}."

    def enforce(self) -> None:
        """Raises RegressionError where it failed, InconclusiveError where that is open."""
        error = _ERRORS.get(self.outcome)
        if error is not None:
            raise error(self.sentence)


def judged(found: Comparison, allowed: float) -> Gate:
    """What a comparison says of a gate."""
    if found.state is State.IDENTICAL:
        return Gate(allowed, Outcome.OPEN, "both sides are the same run, so that nothing is compared")
    if not found.comparable:
        what = ", ".join(name for name, *_, forbids in found.differs if forbids)
        return Gate(allowed, Outcome.OPEN, f"the runs cannot be compared, because they differ in {what}")
    if found.state is State.FEW_SHARED and not found.evidence.loops:
        return Gate(allowed, Outcome.OPEN, "too few ops are known on both sides to tell the program from the machine")
    if found.verdict is Verdict.SLOWER and found.program.low > allowed:
        return Gate(allowed, Outcome.FAILED, f"the program {adds(found)}")
    at_most = f"the program {adds(found) if found.verdict in (Verdict.FASTER, Verdict.SLOWER) else _at_most(found)}"
    if found.bound.high > allowed:
        beyond = f", and all that is not sure together up to {found.bound.high:.1%}" if "CI" in at_most else ""
        return Gate(allowed, Outcome.OPEN, f"{at_most}{beyond}; more captures would tell")
    rest, limit = math.log1p(found.rest), math.log1p(allowed)
    if min(rest, math.log(found.ratio)) <= limit + min(found.evidence.high, 0.0):
        return Gate(allowed, Outcome.PASSED, at_most)
    if found.machine_known and (found.verdict is Verdict.FASTER or rest <= limit + found.evidence.expected):
        return Gate(allowed, Outcome.PASSED, f"{at_most}; what the step takes beyond that is the machine's")
    takes = f"{found.rest:.1%} longer" if found.rest >= 0 else f"{-found.rest:.1%} less"
    slower = "nothing says that the machine is slower" + " by as much" * found.evidence.known
    faster = f"the machine is faster by more: it should take {-math.expm1(found.evidence.expected):.0%} less"
    return Gate(
        allowed, Outcome.OPEN, f"{at_most}, but the step takes {takes} and {slower if found.rest > allowed else faster}"
    )


def adds(found: Comparison) -> str:
    """What the program adds to a step, or saves of it, with its interval."""
    value, low, high = found.program
    if value >= 0:
        return f"adds {value:.1%} of a step (95% CI {low:.1%} to {high:.1%})"
    return f"saves {-value:.1%} of a step (95% CI {-high:.1%} to {-low:.1%})"


def _at_most(found: Comparison) -> str:
    return f"adds at most {max(found.bound.high, 0.0):.1%} of a step"
