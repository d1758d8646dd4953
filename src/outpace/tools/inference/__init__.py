# SPDX-License-Identifier: Apache-2.0
"""Inference: the latency of predictions, and why the slow ones were slow."""

from outpace.tools.tool import Tool

TOOL = Tool(
    __name__,
    title="Inference latency",
    question="How long do predictions take, and where did the slowest ones spend their time?",
    order=80,
    aliases=("inference_profile",),
)
