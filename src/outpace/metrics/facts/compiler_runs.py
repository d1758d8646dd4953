"""What devices did for the compiler, which is no work of the training."""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace.model.arrays import Indices
from outpace.timeline import Timeline
from outpace.timeline.builds import find_autotuning_launches


@memoize
def compiler_run_rows(timeline: Timeline) -> Indices:
    """Event rows of what devices did for the compiler, sorted; none for a profile of TensorFlow."""
    return np.sort(find_autotuning_launches(timeline.trace)[1]).astype(np.int64)
