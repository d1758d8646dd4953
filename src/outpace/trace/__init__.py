"""Decoding: from the bytes of an `*.xplane.pb` file to typed, immutable columns. The one door to the native core."""

from outpace.trace.reader import open_trace, read_trace
from outpace.trace.stats import StatColumn, Value
from outpace.trace.trace import Lines, Loss, Plane, Trace

__all__ = ["Lines", "Loss", "Plane", "StatColumn", "Trace", "Value", "open_trace", "read_trace"]
