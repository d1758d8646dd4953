# SPDX-License-Identifier: Apache-2.0
"""Work of devices for the compiler (autotuning), which is no work of the training."""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace.model.arrays import Indices
from outpace.timeline import Timeline
from outpace.timeline.builds import find_autotuning_launches


@memoize
def compiler_run_rows(timeline: Timeline) -> Indices:
    """Return the rows of the devices' events that ran for the compiler, sorted.

    The result is empty for a profile of TensorFlow.
    """
    return np.sort(find_autotuning_launches(timeline.trace)[1]).astype(np.int64)
