# SPDX-License-Identifier: Apache-2.0
"""Memory profile: peak use, what is live at the peak, use over time, and growth (the guide's Memory
profile tool).
"""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="Memory profile",
    question="How much memory is in use, what holds it at the peak, does it grow, and what still fits?",
    order=50,
    has_availability=True,
)
