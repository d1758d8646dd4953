"""Calls of jitted functions, each once: JAX records a call by two events of one name, one in the other."""

from __future__ import annotations

import numpy as np

from outpace._once import derived
from outpace.model.arrays import Indices
from outpace.timeline.names import Is, names
from outpace.trace import Trace


@derived
def jitted_calls(trace: Trace) -> Indices:
    """Event rows of the calls of jitted functions, sorted; of an event in one of the same name, the outer one."""
    rows = names(trace).rows(Is.JITTED)
    parent, _ = trace.nested(rows)
    again = (parent >= 0) & (trace.name[np.maximum(parent, 0)] == trace.name[rows])
    return np.asarray(rows[~again])
