# SPDX-License-Identifier: Apache-2.0
"""Columns of the model's tables, as the metrics declare them."""

from outpace.metrics.facts.hlo_instructions import HLO_LINES
from outpace.metrics.savings.best_case import OWN_BEST
from outpace.metrics.views.core_use import CORE_USE, LONE_OPS
from outpace.metrics.views.float64_ops import DOUBLE_OPS, HALF_OPS
from outpace.metrics.views.misplaced_ops import ODD_OPS
from outpace.metrics.views.model_parts import MODEL_PARTS
from outpace.metrics.views.model_work import MODEL_WORK
from outpace.metrics.views.small_ops import SMALL_OPS
from outpace.model import TableType

__all__ = [
    "CORE_USE",
    "DOUBLE_OPS",
    "HALF_OPS",
    "HLO_LINES",
    "LONE_OPS",
    "MODEL_PARTS",
    "MODEL_SHARES",
    "MODEL_WORK",
    "ODD_OPS",
    "OWN_BEST",
    "SMALL_OPS",
]

MODEL_SHARES = TableType("model_shares", "Time of the parts").columns("""
    * side    | text | Host (threads) or Device (accelerators)
    * way     | text | forward and backward together, or one of them | Which way
    * part    | text | layer, line of the program or scope; 'all others' sums up the rest
      time_ps | ps   | time per step in ops of the part, of all hosts together | Time
""")
