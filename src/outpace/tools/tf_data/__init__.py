# SPDX-License-Identifier: Apache-2.0
"""The tf.data bottleneck analysis: which stage of the input pipeline limits it."""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="tf.data pipelines",
    question="Which stage of the input pipeline limits it, and which stages only wait?",
    order=40,
    aliases=("tf_data_bottleneck_analysis",),
)
