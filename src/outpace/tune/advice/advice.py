"""`Advice`: a practice that is explained for a program, and not tried."""

from __future__ import annotations

from outpace._dataclass import dataclass


@dataclass(frozen=True)
class Advice:
    """One practice that fits a program.

    sentence: what it would mean here, with numbers of this program. reason: why it is advice and no trial. source: the text that names it.
    """

    id: str
    title: str
    sentence: str
    reason: str
    source: str


SPEED = "How can I speed up TensorFlow training? (2025)"
PROFILER = "TensorFlow's guide: Optimize TensorFlow performance using the Profiler"
EFFICIENT = "How can TensorFlow programs be efficiently optimized? (2025)"
KERAS = "Keras, keras/src/backend/tensorflow/trainer.py"


def listed(names: list[str], shown: int = 4) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")
