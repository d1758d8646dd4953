# SPDX-License-Identifier: Apache-2.0
"""Name scopes: time, memory and executions of every layer, and of every source line."""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="Name scopes",
    question="Which layer, which part of the model, or which line of code takes the time and the memory?",
    order=35,
    of_models=True,
)
