"""Pod viewer: the steps of all workers side by side, and which of them holds the others up."""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="Pod viewer",
    question="Do all workers take the same time for a step, and if not, which one is slow, and why?",
    order=60,
    aliases=("pod_viewer",),
)
