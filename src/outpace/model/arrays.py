# SPDX-License-Identifier: Apache-2.0
"""Names of array types for annotations, each with its meaning, unit and dtype.

NumPy and the native core return row numbers and codes of several widths, which can be mixed freely:
`Indices` and `Codes` allow all of them. Where a width matters, the docstring of the class or
function states it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Picoseconds = npt.NDArray[np.int64]
"""Points of time since the trace's beginning, or durations; int64, ps."""

Indices = npt.NDArray[np.signedinteger[Any]]
"""Row numbers of events, or positions in another array; -1 for none. int32 from the core, int64
from NumPy.
"""

Codes = npt.NDArray[np.integer[Any]]
"""Codes of what each row is or belongs to: its name, kind, thread, step, group. Integers of any
width; -1 for none where they are signed.
"""

Numbers = npt.NDArray[np.int64]
"""Whole numbers that count or measure: executions, bytes, step numbers; int64."""

Ids = npt.NDArray[np.uint64]
"""Ids by which the file links events (a run, an iterator, a correlation); also the core's raw bits
of values and its offsets; uint64.
"""

Key = Ids | tuple[Ids, Ids]
"""Keys that link events: one id per event, or two ids that must both match."""

Values = npt.NDArray[np.float64]
"""Numbers with a fraction: shares, means, times after a division (ps); float64, NaN for a missing
value.
"""

Mask = npt.NDArray[np.bool_]
"""One boolean per row; bool."""

Bytes = npt.NDArray[np.uint8]
"""Bytes of a file; uint8."""

Column = npt.NDArray[Any]
"""Any of these types, or texts (`str` in an object array): the possible columns of a table."""
