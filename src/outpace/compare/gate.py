"""A comparison as a gate: is the second side slower by more than is allowed?

It fails for the program alone: where the machine is slower, the gate passes, whatever a step takes. It passes only where more than is allowed
would have been seen: up to the upper end of what the program may add, all parts together. What lies between is inconclusive.
"""

from __future__ import annotations

from enum import Enum

from outpace._dataclass import dataclass
from outpace.compare.verdict import Comparison, Verdict
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
    if not found.comparable:
        what = ", ".join(name for name, *_, forbids in found.differs if forbids)
        return Gate(allowed, Outcome.OPEN, f"the runs cannot be compared, because they differ in {what}")
    if found.most <= allowed:
        if found.verdict is Verdict.FASTER:
            return Gate(allowed, Outcome.PASSED, "the program is faster")
        rest = "; what the step takes beyond that is the machine's" if found.verdict is Verdict.MACHINE else ""
        return Gate(allowed, Outcome.PASSED, f"the program adds at most {max(found.most, 0):.1%} of a step{rest}")
    if found.verdict is not Verdict.SLOWER:
        return Gate(
            allowed, Outcome.OPEN, f"the program may add up to {max(found.most, 0):.1%} of a step, and more captures would tell"
        )
    if found.blind and not found.in_turns:
        return Gate(
            allowed, Outcome.OPEN, "the step takes longer, and too few ops are known to tell the program from the machine"
        )
    says = f"the program adds {found.program:.1%} of a step (95% CI {found.program_low:.1%} to {found.program_high:.1%})"
    if found.program_low > allowed:
        return Gate(allowed, Outcome.FAILED, says)
    return Gate(allowed, Outcome.OPEN, f"{says}, all parts together up to {found.most:.1%}, and more captures would tell")
