# SPDX-License-Identifier: Apache-2.0
"""Explanation of one step: the events that make up each of its time categories."""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="A step explained",
    question="Which events make up the time of one step, category by category?",
    order=90,
)
