"""From columns to meaning: which events are steps, what belongs to each, and what an event's name
says.
"""

from outpace.timeline.event_names import Op, OpKind, parse_iterator_type, parse_op
from outpace.timeline.run import Run
from outpace.timeline.steps import Confidence, Steps, StepSource
from outpace.timeline.timeline import Timeline

__all__ = ["Confidence", "Op", "OpKind", "Run", "StepSource", "Steps", "Timeline", "parse_iterator_type", "parse_op"]
