"""Calls of jitted functions, each once: JAX records a call by two events of one name, one in the
other.
"""

from __future__ import annotations

import numpy as np

from outpace._caching import memoize
from outpace.model.arrays import Indices
from outpace.timeline.event_names import EventFlag, event_names
from outpace.trace import Trace


@memoize
def find_jitted_calls(trace: Trace) -> Indices:
    """Event rows of the calls of jitted functions, sorted; of an event in one of the same name, the
    outer one.
    """
    rows = event_names(trace).rows(EventFlag.JIT_CALL)
    parent, _ = trace.compute_nesting(rows)
    again = (parent >= 0) & (trace.name[np.maximum(parent, 0)] == trace.name[rows])
    return np.asarray(rows[~again])
