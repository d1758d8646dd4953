# SPDX-License-Identifier: Apache-2.0
"""A trace of events that are Python objects: for formats without a core of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from outpace.model.units import format_count
from outpace.trace.columns import IMPOSSIBLE_PS, store_column
from outpace.trace.source import InMemorySource
from outpace.trace.stats import StatColumn, Value
from outpace.trace.trace import Damage, LineTable, Plane, Trace

_PS_PER_NS = 1000


class Event(NamedTuple):
    """One event.

    plane, line: process or device, and its thread or stream, by the names of `trace/dialect.py`.
        Events of equal names are on one line: threads of one name need a number.
    start_ps, duration_ps: ps; the start from any moment, such as that of 1970.
    stats: values by the name of the stat: int of 64 bits, float, str or bytes.
    """

    plane: str
    line: str
    name: str
    start_ps: int
    duration_ps: int
    stats: Mapping[str, Value] = {}


def build_trace(
    events: Iterable[Event],
    *,
    host: str,
    source: str,
    size: int = 0,
    damages: Sequence[Damage] = (),
    is_truncated: bool = False,
) -> Trace:
    """Return the trace of events in any order.

    host, source, size: name of the host, path of the file, and its uncompressed size in bytes.
    damages: what could not be read.
    is_truncated: whether the end of the file is missing; a report says that it is of a part.

    Events of impossible times (20 hours from the others, or a duration below 0 or above that) are
    left out, and become a `Damage`.

    >>> mark = {dialect.STEP_NUM: 0, dialect.IS_ROOT: 1}
    >>> step = Event(dialect.HOST_PLANE, "python", "train", 0, 1000, mark)
    >>> build_trace([step], host="a", source="a.csv")
    """
    possible, impossible = _drop_impossible(list(events))
    ordered = sorted(possible, key=lambda event: (event.plane, event.line, event.start_ps, -event.duration_ps))
    origin_ns = min((event.start_ps for event in ordered), default=0) // _PS_PER_NS
    lines = {place: number for number, place in enumerate(dict.fromkeys((event.plane, event.line) for event in ordered))}
    planes = {name: number for number, name in enumerate(dict.fromkeys(plane for plane, _ in lines))}
    names = {name: number for number, name in enumerate(dict.fromkeys(event.name for event in ordered))}
    line = np.array([lines[event.plane, event.line] for event in ordered], np.int64)
    plane = np.array([planes[name] for name, _ in lines], np.uint32)
    first_line = np.searchsorted(plane, np.arange(len(planes) + 1)).tolist()
    stats = _stat_columns(ordered)
    return Trace(
        host=host,
        source=source,
        size=size,
        planes=tuple(Plane(i, i, name, range(first_line[i], first_line[i + 1]), {}) for name, i in planes.items()),
        lines=LineTable(
            plane,
            np.arange(len(lines)),
            np.zeros(len(lines), np.int64),
            np.searchsorted(line, np.arange(len(lines) + 1)),
            tuple(name for _, name in lines),
        ),
        name=store_column(np.array([names[event.name] for event in ordered], np.int32)),
        start=store_column(np.array([event.start_ps - origin_ns * _PS_PER_NS for event in ordered], np.int64)),
        duration=store_column(np.array([event.duration_ps for event in ordered], np.int64)),
        names=(*names, ""),  # the last is the name of events that have none
        display_names={},
        name_plane=np.array([planes[event.plane] for event in {e.name: e for e in ordered}.values()], np.uint32),
        name_stats={},
        stat_names=tuple(stats),
        origin_ns=origin_ns,
        occurrences={},
        hostnames=(host,),
        messages=(),
        damages=(*damages, *impossible),
        is_truncated=is_truncated,
        _source=InMemorySource(stats),
    )


def _drop_impossible(events: Sequence[Event]) -> tuple[Sequence[Event], tuple[Damage, ...]]:
    """Return (events of possible times, the damage that the others are)."""
    middle = sorted(event.start_ps for event in events)[len(events) // 2] if events else 0
    possible = [e for e in events if abs(e.start_ps - middle) < IMPOSSIBLE_PS and 0 <= e.duration_ps < IMPOSSIBLE_PS]
    left_out = len(events) - len(possible)
    told = f"{format_count(left_out, 'event')} of impossible times, left out"
    return possible, (Damage(told, None, 0, ""),) if left_out else ()


def _stat_columns(events: Sequence[Event]) -> dict[str, StatColumn]:
    """Return the events' stats as columns, by the name of the stat."""
    rows: dict[str, list[int]] = {}
    for row, event in enumerate(events):
        for stat in event.stats:
            rows.setdefault(stat, []).append(row)
    return {name: StatColumn.from_values(name, of, [events[row].stats[name] for row in of]) for name, of in rows.items()}
