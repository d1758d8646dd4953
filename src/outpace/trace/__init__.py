"""Decoding: from the bytes of a profile to typed columns that nobody can write to. The one door to the native core.

The names load on first use: `outpace.trace.formats` is asked for in training processes too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outpace._lazy import lazy

if TYPE_CHECKING:
    from outpace.trace.by_row import ByRow, Computed, Kept, kept
    from outpace.trace.formats.xspace.reader import read_trace
    from outpace.trace.limits import Limits, Memory, Window, bytes_of, overlaps, window_of
    from outpace.trace.open import open_trace
    from outpace.trace.part import part_of
    from outpace.trace.source import InMemory, Source
    from outpace.trace.stand_ins import TERMS, learn, redact
    from outpace.trace.stats import StatColumn, Value
    from outpace.trace.trace import Lines, Loss, Plane, Trace

__all__ = [
    "TERMS",
    "ByRow",
    "Computed",
    "InMemory",
    "Kept",
    "Limits",
    "Lines",
    "Loss",
    "Memory",
    "Plane",
    "Source",
    "StatColumn",
    "Trace",
    "Value",
    "Window",
    "bytes_of",
    "kept",
    "learn",
    "open_trace",
    "overlaps",
    "part_of",
    "read_trace",
    "redact",
    "window_of",
]
__getattr__ = lazy(
    __name__,
    {
        "by_row": "ByRow Computed Kept kept",
        "formats.xspace.reader": "read_trace",
        "limits": "Limits Memory Window bytes_of overlaps window_of",
        "open": "open_trace",
        "part": "part_of",
        "stand_ins": "TERMS learn redact",
        "source": "InMemory Source",
        "stats": "StatColumn Value",
        "trace": "Lines Loss Plane Trace",
    },
)
