# SPDX-License-Identifier: Apache-2.0
"""Calls of jitted functions, one event per call: JAX records a call as two nested events of one
name.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace.model.arrays import Indices
from outpace.timeline.event_names import EventFlag, event_names
from outpace.trace import Trace


@memoize
def find_jitted_calls(trace: Trace) -> Indices:
    """Return the sorted event rows of the calls of jitted functions. Of two nested events of one
    name, the outer one is the call.
    """
    rows = event_names(trace).rows(EventFlag.JIT_CALL)
    parent, _ = trace.compute_nesting(rows)
    again = (parent >= 0) & (trace.name[np.maximum(parent, 0)] == trace.name[rows])
    return np.asarray(rows[~again])
