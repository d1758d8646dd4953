# SPDX-License-Identifier: Apache-2.0
"""Python: which lines of the program's own code take the time in which no op runs."""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="Python",
    question="Which lines of Python take the time of the training thread, and what do they wait for?",
    order=65,
    has_availability=True,
)
