# SPDX-License-Identifier: Apache-2.0
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
    return Gate(tolerance, *_decide(comparison, tolerance))


def _decide(comparison: Comparison, tolerance: float) -> tuple[GateOutcome, str]:
    """Return the outcome of a gate and its reason."""
    evidence, bound, rest = comparison.evidence, comparison.bound_share, comparison.unexplained_share
    if comparison.basis is VerdictBasis.IDENTICAL:
        return GateOutcome.OPEN, "both sides are the same run, so that nothing is compared"
    if not comparison.is_comparable:
        return GateOutcome.OPEN, f"the runs cannot be compared, because they differ in {', '.join(comparison.blocking_facts)}"
    if comparison.basis is VerdictBasis.FEW_SHARED and not evidence.loop_ratios:
        return GateOutcome.OPEN, "too few ops are known on both sides to tell the program from the machine"
    measured = f"the program {format_program_share(comparison)}"
    if comparison.verdict is Verdict.SLOWER and comparison.program_share.low > tolerance:
        return GateOutcome.FAILED, measured
    is_measured = comparison.verdict in (Verdict.FASTER, Verdict.SLOWER)
    at_most = measured if is_measured else f"the program adds at most {max(bound.high, 0.0):.1%} of a step"
    if bound.high > tolerance:
        beyond = f", and all that is not sure together up to {bound.high:.1%}" if is_measured else ""
        return GateOutcome.OPEN, f"{at_most}{beyond}; more captures would tell"
    log_rest, limit = math.log1p(rest), math.log1p(tolerance)
    if min(log_rest, math.log(comparison.ratio)) <= limit + min(evidence.high_log, 0.0):
        return GateOutcome.PASSED, at_most
    if comparison.machine_may_explain and (comparison.verdict is Verdict.FASTER or log_rest <= limit + evidence.expected_log):
        return GateOutcome.PASSED, f"{at_most}; what the step takes beyond that is the machine's"
    slower = "nothing says that the machine is slower" + " by as much" * evidence.available
    faster = f"the machine is faster by more: it should take {-math.expm1(evidence.expected_log):.0%} less"
    return GateOutcome.OPEN, f"{at_most}, but the step takes {format_growth(rest)} and {slower if rest > tolerance else faster}"


def format_program_share(comparison: Comparison) -> str:
    """Format the share that the program adds to a step or saves of it, with its interval."""
    value, low, high = comparison.program_share
    if value >= 0:
        return f"adds {value:.1%} of a step (95% CI {low:.1%} to {high:.1%})"
    return f"saves {-value:.1%} of a step (95% CI {-high:.1%} to {-low:.1%})"


def format_growth(share: float) -> str:
    """Format how much longer a step takes, as a share of it."""
    return f"{share:.1%} longer" if share >= 0 else f"{-share:.1%} less"
