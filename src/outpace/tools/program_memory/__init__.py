# SPDX-License-Identifier: Apache-2.0
"""Memory of compiled programs: what the compiler reserves for a run, what is live in each moment of
the schedule, and what stands at the peak.
"""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="Memory of programs",
    question="How much memory does each compiled program need, and which arrays stand at its peak?",
    order=51,
    has_availability=True,
    of_logs=True,
    aliases=("memory_viewer",),
)
