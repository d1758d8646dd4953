# SPDX-License-Identifier: Apache-2.0
"""Op statistics: the time of every op, on the host and on devices (the guide's TensorFlow
stats).
"""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="Op statistics",
    question="Which ops, and which types of op, take the time on the host and on the device?",
    order=30,
    aliases=("tensorflow_stats", "framework_op_stats"),
)
