# SPDX-License-Identifier: Apache-2.0
"""Decoding: from the bytes of a profile to read-only typed columns. No other package may call the
native core.

The names load on first use, because training processes import `outpace.trace.formats` too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outpace._lazy import lazy_getattr

if TYPE_CHECKING:
    from outpace.trace.columns import ComputedColumn, EventColumn, StoredColumn, store_column
    from outpace.trace.events import Event, build_trace
    from outpace.trace.formats.xspace.reader import read_trace
    from outpace.trace.limits import MemoryLimit, ReadLimits, Window, overlap_mask, parse_size, parse_window
    from outpace.trace.open import open_trace
    from outpace.trace.redaction import DIALECT_WORDS, learn_names, redact_trace
    from outpace.trace.selection import select_rows
    from outpace.trace.source import InMemorySource, TraceSource
    from outpace.trace.stats import StatColumn, Value
    from outpace.trace.trace import Damage, LineTable, Plane, Trace

__all__ = [
    "DIALECT_WORDS",
    "ComputedColumn",
    "Damage",
    "Event",
    "EventColumn",
    "InMemorySource",
    "LineTable",
    "MemoryLimit",
    "Plane",
    "ReadLimits",
    "StatColumn",
    "StoredColumn",
    "Trace",
    "TraceSource",
    "Value",
    "Window",
    "build_trace",
    "learn_names",
    "open_trace",
    "overlap_mask",
    "parse_size",
    "parse_window",
    "read_trace",
    "redact_trace",
    "select_rows",
    "store_column",
]
__getattr__ = lazy_getattr(
    __name__,
    {
        "columns": "EventColumn ComputedColumn StoredColumn store_column",
        "events": "Event build_trace",
        "formats.xspace.reader": "read_trace",
        "limits": "ReadLimits MemoryLimit Window parse_size overlap_mask parse_window",
        "open": "open_trace",
        "selection": "select_rows",
        "redaction": "DIALECT_WORDS learn_names redact_trace",
        "source": "InMemorySource TraceSource",
        "stats": "StatColumn Value",
        "trace": "LineTable Damage Plane Trace",
    },
)
