"""The input pipeline analyzer: is the program waiting for data, and where does input processing
spend its time?
"""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="Input pipeline",
    question="Is the program waiting for input data, and where does input processing spend its time?",
    order=20,
    aliases=("input_pipeline_analyzer",),
)
