# SPDX-License-Identifier: Apache-2.0
"""Builders of XSpace files: planes, lines, events and stats, encoded here without protobuf.
Standard library only.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from outpace.model.protobuf_wire import encode_bytes, encode_double, encode_integer

Name = str | bytes


class Inline(str):
    """A text stat that is written in place (`str_value`) rather than as a reference to an interned
    name (`ref_value`).
    """

    __slots__ = ()


class Unsigned(int):
    """A number that is written as `uint64_value` even where `int64_value` could hold it."""

    __slots__ = ()


StatValue = int | float | str | bytes


class SpaceBuilder:
    """Builder of an XSpace file.

    >>> space = SpaceBuilder()
    >>> space.plane("/host:CPU").line("main").event("work", 0, 5_000, id=7)
    >>> data = space.to_bytes()
    """

    def __init__(self, hostname: str = "vm") -> None:
        self.hostname = hostname
        self.errors: list[str] = []
        self._planes: list[PlaneBuilder] = []

    def plane(self, name: Name, id: int = 0) -> PlaneBuilder:
        """Add a plane (`/host:CPU`, `/device:GPU:0`, `Task Environment`) and return its builder.
        Ids may repeat: TensorFlow writes id 0 for all planes of a host.
        """
        self._planes.append(PlaneBuilder(id, name))
        return self._planes[-1]

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        planes = b"".join(encode_bytes(1, plane.to_bytes()) for plane in self._planes)
        errors = b"".join(encode_bytes(2, error) for error in self.errors)
        return planes + errors + (encode_bytes(4, self.hostname) if self.hostname else b"")

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the file and return its path. It is gzipped where the name ends in `.gz`; in a
        folder the file is called `<hostname>.xplane.pb`.
        """
        target = Path(path)
        if target.is_dir():
            target = target / f"{self.hostname}.xplane.pb"
        data = self.to_bytes()
        target.write_bytes(gzip.compress(data, mtime=0) if target.suffix == ".gz" else data)
        return target


class PlaneBuilder:
    """Builder of one plane, which interns the names of its events and stats."""

    def __init__(self, plane_id: int, name: Name) -> None:
        self.id = plane_id
        self.name = name
        self._lines: list[LineBuilder] = []
        self._stats: list[bytes] = []
        self._events: dict[Name, int] = {}
        self._details: dict[Name, bytes] = {}
        self._names: dict[Name, int] = {}

    def stat(self, name: Name, value: StatValue) -> PlaneBuilder:
        """Add a stat of the plane itself; return the plane."""
        self._stats.append(self.encode_stat(name, value))
        return self

    def describe(self, event: Name, /, display_name: str = "", **stats: StatValue) -> PlaneBuilder:
        """Set the display name and stats of all events called `event`, which are stored once with
        the name; return the plane.
        """
        self.event_id(event)
        title = encode_bytes(4, display_name) if display_name else b""
        self._details[event] = title + b"".join(encode_bytes(5, self.encode_stat(key, value)) for key, value in stats.items())
        return self

    def line(self, name: Name, id: int | None = None, timestamp_ns: int = 0) -> LineBuilder:
        """Add a line (a thread or stream) and return its builder. `id` is by default the line's
        number in the plane, from 1.
        """
        self._lines.append(LineBuilder(self, len(self._lines) + 1 if id is None else id, name, timestamp_ns))
        return self._lines[-1]

    def event_id(self, name: Name) -> int:
        """Return the metadata id of an event name."""
        return self._events.setdefault(name, len(self._events) + 1)

    def encode_stat(self, name: Name, value: StatValue) -> bytes:
        """Return one XStat message: an int as int64 (as uint64 from 2^63 on, or if `Unsigned`),
        text as a reference unless `Inline`.
        """
        return encode_integer(1, self._intern(name)) + self._encode_value(value)

    def _encode_value(self, value: StatValue) -> bytes:
        if isinstance(value, float):
            return encode_double(2, value)
        if isinstance(value, int):
            return encode_integer(3 if value >= 1 << 63 or isinstance(value, Unsigned) else 4, value)
        if isinstance(value, Inline):
            return encode_bytes(5, value)
        return encode_bytes(6, value) if isinstance(value, bytes) else encode_integer(7, self._intern(value))

    def _intern(self, name: Name) -> int:
        return self._names.setdefault(name, len(self._names) + 1)

    def to_bytes(self) -> bytes:
        """Return the XPlane message."""
        lines = b"".join(encode_bytes(3, line.to_bytes()) for line in self._lines)
        events = b"".join(_entry(4, i, name, self._details.get(name, b"")) for name, i in self._events.items())
        names = b"".join(_entry(5, i, name) for name, i in self._names.items())
        stats = b"".join(encode_bytes(6, stat) for stat in self._stats)
        return encode_integer(1, self.id) + encode_bytes(2, self.name) + lines + events + names + stats


class LineBuilder:
    """Builder of one line. Events may be added in any order; they are written by start, longer ones
    first.
    """

    def __init__(self, plane: PlaneBuilder, line_id: int, name: Name, timestamp_ns: int) -> None:
        self.id = line_id
        self.name = name
        self.timestamp_ns = timestamp_ns
        self._plane = plane
        self._events: list[tuple[int, int, bytes]] = []

    def event(
        self, name: Name, start_ps: int, duration_ps: int, /, *, num_occurrences: int | None = None, **stats: StatValue
    ) -> LineBuilder:
        """Add an event that starts `start_ps` after the line's timestamp; return the line.

        With `num_occurrences` it is an aggregated event, which has no start of its own. Raises
        ValueError where `start_ps` is not 0 then.
        """
        if num_occurrences is not None and start_ps:
            raise ValueError(f"event {name!r} is aggregated: it has a number of occurrences instead of a start")
        when = encode_integer(2, start_ps) if num_occurrences is None else encode_integer(5, num_occurrences)
        values = b"".join(encode_bytes(4, self._plane.encode_stat(key, value)) for key, value in stats.items())
        body = encode_integer(1, self._plane.event_id(name)) + when + encode_integer(3, duration_ps) + values
        self._events.append((start_ps, -duration_ps, body))
        return self

    def to_bytes(self) -> bytes:
        """Return the XLine message."""
        events = b"".join(encode_bytes(4, body) for _, _, body in sorted(self._events, key=lambda event: event[:2]))
        return encode_integer(1, self.id) + encode_bytes(2, self.name) + encode_integer(3, self.timestamp_ns) + events


def _entry(field: int, key: int, name: Name, details: bytes = b"") -> bytes:
    """Return one entry of a plane's map from id to event or stat metadata."""
    return encode_bytes(
        field, encode_integer(1, key) + encode_bytes(2, encode_integer(1, key) + encode_bytes(2, name) + details)
    )
