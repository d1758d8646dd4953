# SPDX-License-Identifier: Apache-2.0
"""The overview: what bounds the program, and what to change first."""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="Overview",
    question="Where does the average step's time go, and what should I change first?",
    order=10,
    aliases=("overview_page",),
)
