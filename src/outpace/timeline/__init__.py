"""From columns to meaning: which events are steps, what belongs to each, and what an event's name says."""

from outpace.timeline.names import Op, OpKind, iterator_type, parse_op
from outpace.timeline.run import Run
from outpace.timeline.steps import Confidence, Steps, StepSource
from outpace.timeline.timeline import Timeline

__all__ = ["Confidence", "Op", "OpKind", "Run", "StepSource", "Steps", "Timeline", "iterator_type", "parse_op"]
