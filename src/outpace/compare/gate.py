"""Gate of a comparison: whether the second side is slower by more than the tolerance.

The gate fails only for changes of the program. It passes only where a change above the tolerance
would have been detected, and where evidence from outside the parts attributes any further growth of
the step to the machine. Anything between is inconclusive. The gate reads the same numbers as the
headline.
"""

from __future__ import annotations

import math
from enum import Enum

from outpace._dataclass import dataclass
from outpace.compare.verdict import Comparison, Verdict, VerdictBasis
from outpace.model.errors import InconclusiveError, OutpaceError, RegressionError


class GateOutcome(str, Enum):
    """Result of a gate."""

    PASSED = "passed"
    FAILED = "failed"
    OPEN = "inconclusive"


_ERRORS: dict[GateOutcome, type[OutpaceError]] = {GateOutcome.FAILED: RegressionError, GateOutcome.OPEN: InconclusiveError}


@dataclass(frozen=True)
class Gate:
    """Result of a gate with its reason.

    tolerance: allowed growth by the program, as a share of a step
    """

    tolerance: float
    outcome: GateOutcome
    reason: str

    @property
    def sentence(self) -> str:
        """Sentence with the outcome and its reason."""
        return f"Gate of {100 * self.tolerance:g}% {self.outcome.value}: {self.reason}."

    def enforce(self) -> None:
        """Raise RegressionError where the gate failed, InconclusiveError where it is
        inconclusive.
        """
        error = _ERRORS.get(self.outcome)
        if error is not None:
            raise error(self.sentence)


def evaluate_gate(comparison: Comparison, tolerance: float) -> Gate:
    """Return the gate of a comparison for a tolerance (share of a step)."""
    if comparison.basis is VerdictBasis.IDENTICAL:
        return Gate(tolerance, GateOutcome.OPEN, "both sides are the same run, so that nothing is compared")
    if not comparison.is_comparable:
        what = ", ".join(name for name, *_, forbids in comparison.differences if forbids)
        return Gate(tolerance, GateOutcome.OPEN, f"the runs cannot be compared, because they differ in {what}")
    if comparison.basis is VerdictBasis.FEW_SHARED and not comparison.evidence.loop_ratios:
        return Gate(tolerance, GateOutcome.OPEN, "too few ops are known on both sides to tell the program from the machine")
    if comparison.verdict is Verdict.SLOWER and comparison.program_share.low > tolerance:
        return Gate(tolerance, GateOutcome.FAILED, f"the program {format_program_share(comparison)}")
    at_most = (
        "the program "
        f"{format_program_share(comparison) if comparison.verdict in (Verdict.FASTER, Verdict.SLOWER) else _at_most(comparison)}"
    )
    if comparison.bound_share.high > tolerance:
        beyond = f", and all that is not sure together up to {comparison.bound_share.high:.1%}" if "CI" in at_most else ""
        return Gate(tolerance, GateOutcome.OPEN, f"{at_most}{beyond}; more captures would tell")
    rest, limit = math.log1p(comparison.unexplained_share), math.log1p(tolerance)
    if min(rest, math.log(comparison.ratio)) <= limit + min(comparison.evidence.high_log, 0.0):
        return Gate(tolerance, GateOutcome.PASSED, at_most)
    if comparison.machine_may_explain and (
        comparison.verdict is Verdict.FASTER or rest <= limit + comparison.evidence.expected_log
    ):
        return Gate(tolerance, GateOutcome.PASSED, f"{at_most}; what the step takes beyond that is the machine's")
    takes = (
        f"{comparison.unexplained_share:.1%} longer"
        if comparison.unexplained_share >= 0
        else f"{-comparison.unexplained_share:.1%} less"
    )
    slower = "nothing says that the machine is slower" + " by as much" * comparison.evidence.available
    faster = f"the machine is faster by more: it should take {-math.expm1(comparison.evidence.expected_log):.0%} less"
    return Gate(
        tolerance,
        GateOutcome.OPEN,
        f"{at_most}, but the step takes {takes} and {slower if comparison.unexplained_share > tolerance else faster}",
    )


def format_program_share(comparison: Comparison) -> str:
    """Format the share that the program adds to a step or saves of it, with its interval."""
    value, low, high = comparison.program_share
    if value >= 0:
        return f"adds {value:.1%} of a step (95% CI {low:.1%} to {high:.1%})"
    return f"saves {-value:.1%} of a step (95% CI {-high:.1%} to {-low:.1%})"


def _at_most(found: Comparison) -> str:
    return f"adds at most {max(found.bound_share.high, 0.0):.1%} of a step"
