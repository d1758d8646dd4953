# SPDX-License-Identifier: Apache-2.0
"""XLA programs: the time of every HLO op, its framework op and source line, and how well it uses
the device.
"""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="XLA programs",
    question="Which compiled programs and HLO ops take the time, where do they come from, and what limits them?",
    order=40,
    aliases=("op_profile", "hlo_op_profile", "hlo_op_stats", "roofline", "roofline_model"),
)
