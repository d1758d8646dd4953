# SPDX-License-Identifier: Apache-2.0
"""Arrangement of a profile in the viewer: one section per device and per host, each with the lines
that recorded events.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from outpace._dataclass import dataclass
from outpace.timeline import Run, Timeline
from outpace.trace import Plane, dialect

_LARGEST_ID = 10**9  # of a thread, on any system; a larger number is an address
_FIRST_LINES = (
    "Steps",
    "XLA Modules",
    "TensorFlow Name Scope",
    "TensorFlow Ops",
    "XLA Ops",
)  # order of the profiler's guide, from coarse to fine


@dataclass(frozen=True, eq=False)
class Section:
    """A plane with events.

    timeline: timeline of the plane's host
    title: title of the section
    is_host: whether the plane has threads of a host
    lines: (line, name), in display order
    """

    timeline: Timeline
    title: str
    is_host: bool
    lines: tuple[tuple[int, str], ...]


def build_plane_sections(run: Run) -> list[Section]:
    """Return all sections: devices of all hosts first, then hosts, then any other planes with
    events.
    """
    ordered = [(_class(plane), _section(run, t, plane)) for t in run.hosts for plane in t.trace.planes]
    drawn = [(order, section) for order, section in ordered if section.lines or section.is_host]
    return [section for _, section in sorted(drawn, key=lambda entry: entry[0])]


def _class(plane: Plane) -> int:
    return 0 if plane.name.startswith(dialect.DEVICE_PREFIX) else 1 if plane.name == dialect.HOST_PLANE else 2


def _section(run: Run, timeline: Timeline, plane: Plane) -> Section:
    is_host = plane.name == dialect.HOST_PLANE
    lines = sorted(_lines(timeline, plane, is_host), key=lambda entry: _rank(timeline, entry[0], entry[1], is_host))
    title = "Host Threads" if is_host else plane.name
    where = f" of {timeline.host}" if is_host or len(run.hosts) > 1 else ""
    return Section(timeline, title + where, is_host, tuple(lines))


def _lines(timeline: Timeline, plane: Plane, is_host: bool) -> Iterator[tuple[int, str]]:
    """Yield (line, name) of the lines with events. A thread's name is extended by its id, unless
    the title contains the id already, or the id is an address and no other thread has the name.
    """
    lines = timeline.trace.lines
    count = Counter(lines.names[line] for line in plane.lines)
    for line in plane.lines:
        rows = lines.row_slice(line)
        if rows.stop == rows.start:
            continue
        if lines.titles[line] != lines.names[line]:
            yield line, lines.titles[line]
            continue
        name, identity = lines.names[line], int(lines.id[line])
        # older files store ids as signed 32-bit numbers
        has_id = str(identity) in name or str(identity - (1 << 32)) in name
        is_plain = count[name] == 1 and abs(identity) > _LARGEST_ID
        if not name or (is_host and not has_id and not is_plain):
            name = f"{name or 'thread'}/{identity}"
        yield line, name


def _rank(timeline: Timeline, line: int, name: str, is_host: bool) -> tuple[object, ...]:
    """Return the sort key of a line: threads that train come first, other threads by name (numbers
    in it by value); lines of a device from coarse to fine, then as in the file.
    """
    if not is_host:
        return (_FIRST_LINES.index(name) if name in _FIRST_LINES else len(_FIRST_LINES), line)
    parts = tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name))
    return (not bool((timeline.steps.line == line).any()), parts)
