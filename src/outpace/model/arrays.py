"""What an array holds: names for annotations, each with its meaning, unit and dtype.

NumPy and the native core make row numbers and codes of several widths, which mix freely: their
names allow all of them. Where a width matters, the docstring of the class or function says it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Picoseconds = npt.NDArray[np.int64]
"""Points of time since the trace's beginning, or lengths; int64, ps."""

Indices = npt.NDArray[np.signedinteger[Any]]
"""Row numbers of events, or places in another array; -1 for none. int32 from the core, int64 from
NumPy.
"""

Codes = npt.NDArray[np.integer[Any]]
"""Which one each row is, or belongs to: its name, kind, thread, step, group. An integer of any
width; -1 for none where it is signed.
"""

Numbers = npt.NDArray[np.int64]
"""Whole numbers that count or measure: executions, bytes, numbers of steps; int64."""

Ids = npt.NDArray[np.uint64]
"""What the file links events by (a run, an iterator, a correlation); also the core's bits of
values, and its offsets; uint64.
"""

Key = Ids | tuple[Ids, Ids]
"""What events are linked by: one id each, or two that count together."""

Values = npt.NDArray[np.float64]
"""Numbers with a fraction: shares, means, times that were divided (ps); float64, NaN for a missing
one.
"""

Mask = npt.NDArray[np.bool_]
"""Yes or no for each row; bool."""

Bytes = npt.NDArray[np.uint8]
"""Bytes of a file or for one; uint8."""

Column = npt.NDArray[Any]
"""Any of these, or texts (`str` in an object array): what a column of a table may be."""
