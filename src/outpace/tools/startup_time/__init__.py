# SPDX-License-Identifier: Apache-2.0
"""Start-up: what happens between the command and the first steady step."""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="Start-up",
    question="What happens between the command and the first steady step, and what makes a start shorter?",
    order=75,
    has_availability=True,
    aliases=("startup",),
)
