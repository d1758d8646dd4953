# SPDX-License-Identifier: Apache-2.0
"""GPU kernels: time per kernel and op, launches, copies and idle gaps (the guide's GPU kernel
stats).
"""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="GPU kernels",
    question="Which GPU kernels take the time, which op launched them, and why is the GPU idle?",
    order=45,
    has_availability=True,
)
