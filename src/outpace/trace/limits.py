# SPDX-License-Identifier: Apache-2.0
"""Limits of reading: the part of a profile to decode, and the memory that its events may take."""

from __future__ import annotations

import re
from dataclasses import field

from outpace._dataclass import dataclass
from outpace._lazy import compile_lazily
from outpace.model import TooLargeError, Unit, UsageError, humanize
from outpace.model.arrays import Mask, Picoseconds
from outpace.model.units import format_count
from outpace.trace import columns

_PICOSECONDS = {"s": 10**12, "ms": 10**9, "us": 10**6, "µs": 10**6, "ns": 10**3}
_TIME = compile_lazily(r"(\d{1,12}(?:\.\d*)?|\.\d+)\s*(s|ms|us|µs|ns)")
_BYTES = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
    "TIB": 1 << 40,
}
_SIZE = compile_lazily(r"(\d{1,12}(?:\.\d*)?|\.\d+)\s*([KMGT]?I?B)", re.IGNORECASE)
_BEYOND = (1 << 63) - 1  # upper limit of all times, ps
_EVENT_BYTES = 75  # memory per event until all tools have run, bytes (measured: 68 to 72)
_OF_MANY = (
    64  # memory per event where columns are packed, bytes (measured: 51 to 56; 4 more where times are sparse picoseconds)
)
_MOMENT = 2_000_000  # number of events that are decoded quickly enough to ignore an optional window
_ROOM = 0.9  # share of the memory limit that a suggested window should fill


@dataclass(frozen=True)
class Window:
    """Part of a capture's time, [begin, end) in ps after the earliest event of its host.

    begin, end: None for no bound.
    include_overlapping: whether events count that only reach into the window, as a viewer shows
        them; by default an event must lie inside of it, as in a capture of that time.
    optional: whether the window applies only where the whole profile has many events, or more than
        the memory limit allows.
    """

    begin: int | None = None
    end: int | None = None
    include_overlapping: bool = False
    optional: bool = False

    def can_skip(self, events: int) -> bool:
        """Whether an optional window is ignored because the profile has few events."""
        return self.optional and events <= _MOMENT

    def __str__(self) -> str:
        """Return the window in the format of `parse_window`."""
        return ":".join("" if time_ps is None else _format_exact(time_ps) for time_ps in (self.begin, self.end))

    def bounds(self, earliest_ps: int) -> tuple[int, int]:
        """Return (begin, end) as times of the trace, ps, for an earliest event at `earliest_ps`; a
        missing bound is a limit beyond all times.
        """
        begin = -_BEYOND - 1 if self.begin is None else min(earliest_ps + self.begin, _BEYOND)
        return begin, _BEYOND if self.end is None else min(earliest_ps + self.end, _BEYOND)

    def event_mask(self, start: Picoseconds, duration: Picoseconds, earliest_ps: int) -> Mask:
        """Return a boolean per event: whether it counts, for an earliest event at `earliest_ps`."""
        begin, end = self.bounds(earliest_ps)
        if self.include_overlapping:
            return overlap_mask(start, duration, (begin, end))
        return (start >= begin) & (start < end) & (start + duration <= end)

    def empty_error(self, source: str, length_ps: int) -> UsageError:
        """Return the error for a window without events; `length_ps` is the duration of the source's
        events.
        """
        return UsageError(f"{source} has no event that lies in the window {self}: it is {humanize(length_ps, Unit.PS)} long.")


class MemoryLimit:
    """Memory that the events of all hosts of a run may take together.

    limit: bytes, without those of the files; None for no limit. `hosts`: number of hosts. Raises
    UsageError for a limit that is not positive.
    """

    def __init__(self, limit: int | None = None, hosts: int = 1) -> None:
        if limit is not None and limit <= 0:
            raise UsageError(f"{limit} bytes are no amount of memory.")
        self._limit, self._hosts, self._reserved = limit, hosts, 0

    def reserve(self, events: int) -> bool:
        """Reserve memory for `events` events; False, without reserving, where it does not
        suffice.
        """
        if self._limit is not None and self._reserved + _required_bytes(events) > self._limit:
            return False
        self._reserved += _required_bytes(events)
        return True

    def exceeded_error(self, source: str, events: int, begin: int, length: int) -> TooLargeError:
        """Return the error for a source whose events, in the `length` ps from `begin` on, exceed
        the limit. It suggests a window that fits if events are spread evenly and hosts have equally
        many.
        """
        limit, needed = self._limit or 0, _required_bytes(events)
        most = max(self._reserved + needed, needed * self._hosts)
        # A window with few events takes more memory per event: the suggested length is scaled down
        part = _format_window(begin, int(length * _ROOM * limit / most * needed / (events * _EVENT_BYTES)))
        for_hosts = (
            f"; all {self._hosts} hosts, if they are like it, about {humanize(most, Unit.BYTES)}" if self._hosts > 1 else ""
        )
        return TooLargeError(
            f"{source} holds {format_count(events, 'event')} in {humanize(length, Unit.PS)}: all of them need about "
            f"{humanize(needed, Unit.BYTES)} of memory{for_hosts}. "
            f"{humanize(limit, Unit.BYTES)} may be used. Ask for a part of the time (--window {part}), or allow more "
            f"(--memory {_amount(most)})."
        )


def _required_bytes(events: int) -> int:
    """Return the bytes that `events` events of one host take."""
    return events * (_OF_MANY if events >= columns.MIN_PACKED_ROWS else _EVENT_BYTES)


@dataclass(frozen=True, eq=False)
class ReadLimits:
    """Limits of reading a profile: the window to decode (None: all of it), and the memory limit."""

    window: Window | None = None
    memory: MemoryLimit = field(default_factory=MemoryLimit)


def overlap_mask(start: Picoseconds, duration: Picoseconds, span: tuple[int, int]) -> Mask:
    """Return a boolean per slice: whether it reaches into the half-open `span`. A slice without
    duration belongs to the instant of its start.
    """
    return (start < span[1]) & ((start + duration > span[0]) | (start >= span[0]))


def parse_window(text: str, name: str = "--window") -> Window:
    """Return the window of a text such as `1.2s:1.5s`, `800ms:` or `:2s`. Raises UsageError for
    anything else; `name` is the option's name in its message.
    """

    def moment(value: str) -> int | None:
        if not value.strip():
            return None
        match = _TIME.fullmatch(value.strip())
        if match is None:
            raise UsageError(f"{name} {text!r}: {value!r} is no time: write a number and s, ms, us or ns, as in 1.2s:1.5s.")
        return round(float(match[1]) * _PICOSECONDS[match[2]])

    begin, colon, end = text.partition(":")
    low, high = moment(begin), moment(end)
    if not colon or low is high is None or (low is not None and high is not None and low >= high):
        raise UsageError(f"{name} {text!r} is no stretch of time: write begin:end, as in 1.2s:1.5s, 800ms: or :2s.")
    return Window(low, high)


def parse_size(text: str, name: str = "--memory") -> int:
    """Return the number of bytes of a text such as `4GB`, `500MB` or `2GiB`. Raises UsageError for
    anything else; `name` is the option's name in its message.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or not (size := int(float(match[1]) * _BYTES[match[2].upper()])):
        raise UsageError(f"{name} {text!r} is no amount of memory: write a number and MB or GB, as in 4GB.")
    return size


def _format_exact(time_ps: int) -> str:
    """Return a time (ps) in the format of `parse_window`, without rounding."""
    unit, size = next((unit, size) for unit, size in _PICOSECONDS.items() if time_ps % size == 0 or unit == "ns")
    return f"{time_ps // size}{unit}"


def _format_window(begin: int, length: int) -> str:
    """Return a window in the format of `parse_window`; begin and length are truncated to about
    three digits of the length.
    """
    unit, size = next((unit, size) for unit, size in _PICOSECONDS.items() if length >= 100 * size or unit == "ns")
    first = begin // size
    return f"{first}{unit}:{first + max(length // size, 1)}{unit}"


def _amount(size: int) -> str:
    """Return an amount of memory in the format of `parse_size`, rounded up."""
    unit = "GB" if size >= _BYTES["GB"] else "MB"
    return f"{-(-10 * size // _BYTES[unit]) / 10:g}{unit}"
