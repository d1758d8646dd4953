"""Two runs, one verdict: is one faster than the other, which op, stage or line makes the difference, and is it the program or the machine?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outpace._lazy import lazy

if TYPE_CHECKING:
    from outpace.compare.gate import Gate, Outcome, judged
    from outpace.compare.page import report_of
    from outpace.compare.side import Side
    from outpace.compare.verdict import Comparison, Verdict, compare

__all__ = ["Comparison", "Gate", "Outcome", "Side", "Verdict", "compare", "judged", "report_of"]
__getattr__ = lazy(
    __name__, {"gate": "Gate Outcome judged", "page": "report_of", "side": "Side", "verdict": "Comparison Verdict compare"}
)
