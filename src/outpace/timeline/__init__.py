# SPDX-License-Identifier: Apache-2.0
"""Interpretation of a trace: which events are steps, which events belong to each step, and what an
event's name means.
"""

from outpace.timeline.op_names import Op, OpKind, parse_iterator_type, parse_op
from outpace.timeline.run import Run
from outpace.timeline.steps import Confidence, Steps, StepSource
from outpace.timeline.timeline import Timeline

__all__ = ["Confidence", "Op", "OpKind", "Run", "StepSource", "Steps", "Timeline", "parse_iterator_type", "parse_op"]
