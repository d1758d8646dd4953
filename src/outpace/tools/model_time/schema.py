"""Columns of the model's tables, as the metrics declare them."""

from outpace.metrics.input.odd_ops import FIELDS as ODD_OPS
from outpace.metrics.machine.core_use import FIELDS as CORE_USE
from outpace.metrics.machine.core_use import LONE_FIELDS as LONE_OPS
from outpace.metrics.machine.own_best import FIELDS as OWN_BEST
from outpace.metrics.model.double_ops import FIELDS as DOUBLE_OPS
from outpace.metrics.model.hlo_lines import FIELDS as HLO_LINES
from outpace.metrics.model.model_parts import FIELDS as MODEL_PARTS
from outpace.metrics.model.model_work import FIELDS as MODEL_WORK
from outpace.metrics.model.small_ops import FIELDS as SMALL_OPS
from outpace.model import schema

__all__ = [
    "CORE_USE",
    "DOUBLE_OPS",
    "HLO_LINES",
    "LONE_OPS",
    "MODEL_PARTS",
    "MODEL_SHARES",
    "MODEL_WORK",
    "ODD_OPS",
    "OWN_BEST",
    "SMALL_OPS",
]

MODEL_SHARES = schema("""
    * side    | text | Host (threads) or Device (accelerators)
    * way     | text | forward and backward together, or one of them | Which way
    * part    | text | layer, line of the program or scope; 'all others' sums up the rest
      time_ps | ps   | time per step in ops of the part, of all hosts together | Time
""")
