# SPDX-License-Identifier: Apache-2.0
"""Pod viewer: the steps of all workers next to each other, and which worker delays the others."""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="Pod viewer",
    question="Do all workers take the same time for a step, and if not, which one is slow, and why?",
    order=60,
    aliases=("pod_viewer",),
)
