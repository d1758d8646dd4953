"""What of a profile is wanted, and how much memory it may take."""

from __future__ import annotations

import re
from dataclasses import field

from outpace._dataclass import dataclass
from outpace.model import TooLargeError, Unit, UsageError, humanize
from outpace.model.arrays import Mask, Picoseconds
from outpace.model.units import format_count
from outpace.trace import columns

_PICOSECONDS = {"s": 10**12, "ms": 10**9, "us": 10**6, "µs": 10**6, "ns": 10**3}
_TIME = re.compile(r"(\d{1,12}(?:\.\d*)?|\.\d+)\s*(s|ms|us|µs|ns)")
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
_SIZE = re.compile(r"(\d{1,12}(?:\.\d*)?|\.\d+)\s*([KMGT]?I?B)", re.IGNORECASE)
_BEYOND = (1 << 63) - 1  # ps: no event ends later
_EVENT_BYTES = 75  # what an event takes until all tools have run (measured: 68 to 72)
_OF_MANY = 64  # the same where columns are packed (measured: 51 to 56; 4 more where times are sparse picoseconds)
_MOMENT = 2_000_000  # events, which are decoded in one
_ROOM = 0.9  # of the memory, for the stretch of time that is offered instead


@dataclass(frozen=True)
class Window:
    """A part of a capture's time: ps from its host's earliest event, [begin, end), None for no
    bound.

    An event counts that lies in it, as a capture of that time would hold it, or
    (`include_overlapping`) that reaches into it, as a viewer shows it. `optional`: it is taken only
    where the whole has many events, or more than memory holds.
    """

    begin: int | None = None
    end: int | None = None
    include_overlapping: bool = False
    optional: bool = False

    def can_skip(self, events: int) -> bool:
        """Whether all of so many events count nevertheless."""
        return self.optional and events <= _MOMENT

    def __str__(self) -> str:
        """As `parse_window` reads it."""
        return ":".join("" if at is None else _exact(at) for at in (self.begin, self.end))

    def bounds(self, earliest_ps: int) -> tuple[int, int]:
        """Begin and end, where the earliest event starts at `earliest_ps`; without a bound, one
        beyond all times.
        """
        begin = -_BEYOND - 1 if self.begin is None else min(earliest_ps + self.begin, _BEYOND)
        return begin, _BEYOND if self.end is None else min(earliest_ps + self.end, _BEYOND)

    def event_mask(self, start: Picoseconds, duration: Picoseconds, earliest_ps: int) -> Mask:
        """Which of these events count, where the earliest of all starts at `earliest_ps`."""
        begin, end = self.bounds(earliest_ps)
        if self.include_overlapping:
            return overlap_mask(start, duration, (begin, end))
        return (start >= begin) & (start < end) & (start + duration <= end)

    def empty_error(self, source: str, length_ps: int) -> UsageError:
        """The sentence for a window without an event of a source whose events take
        `length_ps` ps.
        """
        return UsageError(f"{source} has no event that lies in the window {self}: it is {humanize(length_ps, Unit.PS)} long.")


class MemoryLimit:
    """What the events of all hosts of a run may take together, in bytes beside those of their
    files; without a limit, anything.
    """

    def __init__(self, limit: int | None = None, hosts: int = 1) -> None:
        if limit is not None and limit <= 0:
            raise UsageError(f"{limit} bytes are no amount of memory.")
        self._limit, self._hosts, self._taken = limit, hosts, 0

    def reserve(self, events: int) -> bool:
        """Whether there is room for so many events, which is then taken."""
        if self._limit is not None and self._taken + _needed(events) > self._limit:
            return False
        self._taken += _needed(events)
        return True

    def exceeded_error(self, source: str, events: int, begin: int, length: int) -> TooLargeError:
        """The sentence for a source whose events, of the `length_ps` ps from `begin` on, find no
        room. A window that fits is offered as if events came evenly, and all hosts had as many.
        """
        limit, needed = self._limit or 0, _needed(events)
        most = max(self._taken + needed, needed * self._hosts)
        part = _written(begin, int(length * _ROOM * limit / most * needed / (events * _EVENT_BYTES)))  # of few each takes more
        held = f"; all {self._hosts} hosts, if they are like it, about {humanize(most, Unit.BYTES)}" if self._hosts > 1 else ""
        return TooLargeError(
            f"{source} holds {format_count(events, 'event')} in {humanize(length, Unit.PS)}: all of them need about "
            f"{humanize(needed, Unit.BYTES)} of memory{held}. "
            f"{humanize(limit, Unit.BYTES)} may be used. Ask for a part of the time (--window {part}), or allow more "
            f"(--memory {_amount(most)})."
        )


def _needed(events: int) -> int:
    """Bytes that so many events of a host take."""
    return events * (_OF_MANY if events >= columns.MIN_PACKED_ROWS else _EVENT_BYTES)


@dataclass(frozen=True, eq=False)
class ReadLimits:
    """What of a profile is wanted: all of it, or what a window holds, in a given memory."""

    window: Window | None = None
    memory: MemoryLimit = field(default_factory=MemoryLimit)


def overlap_mask(start: Picoseconds, duration: Picoseconds, span: tuple[int, int]) -> Mask:
    """Whether each slice reaches into the half-open span; one without duration belongs to the
    instant at which it stands.
    """
    return (start < span[1]) & ((start + duration > span[0]) | (start >= span[0]))


def parse_window(text: str, name: str = "--window") -> Window:
    """The window of `1.2s:1.5s`, `800ms:` or `:2s`. Raises UsageError for anything else; `name`:
    what the user calls it.
    """

    def moment(given: str) -> int | None:
        if not given.strip():
            return None
        match = _TIME.fullmatch(given.strip())
        if match is None:
            raise UsageError(f"{name} {text!r}: {given!r} is no time: write a number and s, ms, us or ns, as in 1.2s:1.5s.")
        return round(float(match[1]) * _PICOSECONDS[match[2]])

    begin, colon, end = text.partition(":")
    low, high = moment(begin), moment(end)
    if not colon or low is high is None or (low is not None and high is not None and low >= high):
        raise UsageError(f"{name} {text!r} is no stretch of time: write begin:end, as in 1.2s:1.5s, 800ms: or :2s.")
    return Window(low, high)


def parse_size(text: str, name: str = "--memory") -> int:
    """The number of bytes of `4GB`, `500MB` or `2GiB`. Raises UsageError for anything else; `name`:
    what the user calls it.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or not (size := int(float(match[1]) * _BYTES[match[2].upper()])):
        raise UsageError(f"{name} {text!r} is no amount of memory: write a number and MB or GB, as in 4GB.")
    return size


def _exact(at: int) -> str:
    """A moment as `parse_window` reads it."""
    unit, size = next((unit, size) for unit, size in _PICOSECONDS.items() if at % size == 0 or unit == "ns")
    return f"{at // size}{unit}"


def _written(begin: int, length: int) -> str:
    """A window as `parse_window` reads it, begin and length cut off behind the third digit of the
    length.
    """
    unit, size = next((unit, size) for unit, size in _PICOSECONDS.items() if length >= 100 * size or unit == "ns")
    first = begin // size
    return f"{first}{unit}:{first + max(length // size, 1)}{unit}"


def _amount(size: int) -> str:
    """An amount of memory as `parse_size` reads it, rounded up."""
    unit = "GB" if size >= _BYTES["GB"] else "MB"
    return f"{-(-10 * size // _BYTES[unit]) / 10:g}{unit}"
