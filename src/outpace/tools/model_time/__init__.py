# SPDX-License-Identifier: Apache-2.0
"""The model: which of its layers and lines take the time of the step's own computation."""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="Model",
    question="Which layers and lines of the model take the time of its computation, and what there could be faster?",
    order=35,
)
