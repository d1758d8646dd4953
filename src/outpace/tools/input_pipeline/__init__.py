# SPDX-License-Identifier: Apache-2.0
"""Input pipeline analysis: whether the program waits for data, and where input processing spends
its time.
"""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="Input pipeline",
    question="Is the program waiting for input data, and where does input processing spend its time?",
    order=20,
    aliases=("input_pipeline_analyzer",),
)
