"""What devices did for the compiler, which is no work of the training."""

from __future__ import annotations

import numpy as np

from outpace._once import derived
from outpace.model.arrays import Indices
from outpace.timeline import Timeline
from outpace.timeline.builds import launches_of_builds


@derived
def compiler_work(timeline: Timeline) -> Indices:
    """Event rows of what devices did for the compiler, sorted; none for a profile of TensorFlow."""
    return np.sort(launches_of_builds(timeline.trace)[1]).astype(np.int64)
