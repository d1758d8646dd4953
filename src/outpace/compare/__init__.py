# SPDX-License-Identifier: Apache-2.0
"""Comparison of two runs: whether one is faster than the other, which op, input stage or line of
Python makes the difference, and whether the program or the machine causes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outpace._lazy import lazy_getattr

if TYPE_CHECKING:
    from outpace.compare.gate import Gate, GateOutcome, evaluate_gate
    from outpace.compare.page import build_report
    from outpace.compare.side import Side
    from outpace.compare.verdict import Comparison, Verdict, compare

__all__ = ["Comparison", "Gate", "GateOutcome", "Side", "Verdict", "build_report", "compare", "evaluate_gate"]
__getattr__ = lazy_getattr(
    __name__,
    {"gate": "Gate GateOutcome evaluate_gate", "page": "build_report", "side": "Side", "verdict": "Comparison Verdict compare"},
    {"Outcome": "GateOutcome", "judged": "evaluate_gate", "report_of": "build_report"},  # names of 0.2
)
