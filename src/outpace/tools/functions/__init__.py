# SPDX-License-Identifier: Apache-2.0
"""tf.function calls and jitted functions: which are traced or compiled again, why, and at what
cost.
"""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="Functions and compilation",
    question="Which functions are traced or compiled again and again, and because of which argument?",
    order=70,
)
