# SPDX-License-Identifier: Apache-2.0
"""Reader of XSpace files: from a path or bytes to a `Trace`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from outpace.model import ProfileError
from outpace.model.units import format_count
from outpace.trace import dialect
from outpace.trace.columns import IMPOSSIBLE_PS, store_column
from outpace.trace.content import Content
from outpace.trace.content_reader import read_content
from outpace.trace.formats.in_memory import InMemoryProfile
from outpace.trace.formats.xspace.index import XSpaceIndex
from outpace.trace.formats.xspace.refusal import PLANE_PREFIXES, format_refusal
from outpace.trace.limits import ReadLimits, Window
from outpace.trace.stats import Value, decode_value
from outpace.trace.trace import Damage, LineTable, Plane, Trace

_ERROR, _WARNING, _HOSTNAME = 2, 3, 4  # field numbers of XSpace
_TRUNCATED, _MALFORMED = 1, 2  # OX_DAMAGE_* of native/include/outpace.h
_TEXT = (np.uint64, np.uint32)  # dtypes of a text's offset and length
UNNAMED = "(name lost)"


def open_trace(source: Path | InMemoryProfile, host: str, limits: ReadLimits) -> Trace:
    """Decode a profile (`*.xplane.pb`, gzipped or not).

    Damage raises no error: all that precedes it is decoded, and `Trace.damages` lists it. Raises
    NotFoundError, ProfileError for a file that is empty or no XSpace at all, UsageError for a
    window without events, and TooLargeError where the events exceed the memory limit.
    """
    data, remark = read_content(source)
    return _from_bytes(data, str(source), host, remark, limits)


def read_trace(data: bytes, host: str = "host") -> Trace:
    """Decode a serialized XSpace that is already in memory (uncompressed)."""
    return _from_bytes(Content.from_bytes(np.frombuffer(data, np.uint8)), "<memory>", host, "", ReadLimits())


def _from_bytes(data: Content, source: str, host: str, remark: str, limits: ReadLimits) -> Trace:
    space = XSpaceIndex(data, source, has_window=limits.window is not None)
    planes = _planes(space, data)
    _require_profile(planes, space, source, remark)
    window, first = _apply_limits(space, source, limits)
    lines = _lines(space, data)
    space.merge_stat_names()
    name, start, duration = space.read_events()
    sizes = space.sizes
    clamped = max(sizes.clamped, _clamp(start, duration))
    names, display, name_plane = _event_names(space, data)
    name_stats, repeated = _owner_stats(space, data, planes)
    strings = _strings(space, data)
    aggregated_row, aggregated_count = space.read_table("aggregated", np.uint64, np.int64)
    return Trace(
        host=host,
        source=source,
        size=len(data),
        planes=planes,
        lines=lines,
        name=store_column(name),
        start=store_column(start),
        duration=store_column(duration),
        names=(*names, UNNAMED),
        display_names=display,
        name_plane=name_plane,
        name_stats=name_stats,
        stat_names=space.stat_names,
        origin_ns=sizes.origin_ns,
        occurrences=dict(zip(aggregated_row.tolist(), aggregated_count.tolist(), strict=True)),
        hostnames=tuple(t for f, t in strings if f == _HOSTNAME),
        messages=tuple(t for f, t in strings if f in (_ERROR, _WARNING)),
        damages=(*_losses(space, planes, remark, data), *_oddities(clamped, repeated)),
        is_truncated=_is_cut(space),
        unnamed_stats=sizes.nameless_stats,
        window=window,
        earliest_ps=first,
        _source=space,
    )


def _clamp(start: np.ndarray, duration: np.ndarray) -> int:
    """Move impossible times, in place, into the range of the other events, so that lines stay
    sorted; return the number of events changed.

    Otherwise sums would overflow, and the capture would seem to last for weeks.
    """
    away = (start >= IMPOSSIBLE_PS) | (start <= -IMPOSSIBLE_PS)
    impossible = away | (duration >= IMPOSSIBLE_PS)
    if not impossible.any():
        return 0
    possible = np.flatnonzero(~impossible)
    first, last = (int(start[possible].min()), int((start + duration)[possible].max())) if len(possible) else (0, 0)
    np.clip(start, first, last, out=start)
    np.minimum(duration, np.where(away, 0, last - start), out=duration, where=impossible)
    return int(impossible.sum())


def _apply_limits(space: XSpaceIndex, source: str, limits: ReadLimits) -> tuple[Window | None, int | None]:
    """Restrict the index to the requested events. Return (window, start of the earliest event of
    the whole profile in ps), or (None, None) where all events are used.
    """
    window, events = limits.window, space.sizes.events
    fits = (window is None or window.can_skip(events)) and limits.memory.reserve(events)
    if fits:
        return None, None
    first, last = space.span_ps()
    if window is None:
        raise limits.memory.exceeded_error(source, events, 0, last - first)
    space.apply_window(window, first)
    if not space.sizes.events:
        raise window.empty_error(source, last - first)
    if not limits.memory.reserve(space.sizes.events):
        begin, end = max(window.begin or 0, 0), last - first if window.end is None else min(window.end, last - first)
        raise limits.memory.exceeded_error(f"The window {window} of {source}", space.sizes.events, begin, end - begin)
    return window, first


def _planes(space: XSpaceIndex, data: Content) -> tuple[Plane, ...]:
    identity, at, length, first = space.read_table("planes", np.int64, *_TEXT, np.uint32)
    bounds = [*first.tolist(), space.sizes.lines]
    names = zip(identity.tolist(), data.texts_at(at, length), strict=True)
    return tuple(Plane(i, plane, name, range(bounds[i], bounds[i + 1]), {}) for i, (plane, name) in enumerate(names))


def _lines(space: XSpaceIndex, data: Content) -> LineTable:
    first_event = np.empty(space.sizes.lines + 1, np.uint64)
    owner, line_id, stamp, at, length = space.read_table("lines", np.uint32, np.int64, np.int64, *_TEXT, more=(first_event,))
    return LineTable(owner, line_id, stamp, first_event.astype(np.int64), tuple(data.texts_at(at, length)))


def _require_profile(planes: tuple[Plane, ...], space: XSpaceIndex, source: str, remark: str) -> None:
    has_known_plane = any(p.name.startswith(PLANE_PREFIXES) for p in planes)
    whole = bool(planes) and space.sizes.damages_total == 0
    if (whole and (has_known_plane or space.sizes.events)) or (has_known_plane and space.sizes.events):
        return
    raise ProfileError(format_refusal(source, space.data, _missing(space), remark))


def _missing(space: XSpaceIndex) -> int:
    """Return how many bytes the file lacks by its own lengths: those of the outermost message that
    is cut by its end.
    """
    _, lost, _, why = _damages(space)
    return int(max(lost[why == _TRUNCATED], default=0))


def _is_cut(space: XSpaceIndex) -> bool:
    """Whether bytes are missing, the end of the file is unreadable, or there is more damage than
    the core lists.
    """
    at, lost, _, why = _damages(space)
    return bool(((why == _TRUNCATED) | (at + lost >= len(space.data))).any()) or space.sizes.damages_total > len(at)


def _damages(space: XSpaceIndex) -> tuple[np.ndarray, ...]:
    """Return offset, lost bytes, plane and reason of every damaged place."""
    return space.read_table("damages", np.uint64, np.uint64, np.int32, np.uint8)


def _event_names(space: XSpaceIndex, data: Content) -> tuple[list[str], dict[int, str], np.ndarray]:
    plane, _, at, length, display_at, display_length = space.read_table("event_names", np.uint32, np.int64, *_TEXT, *_TEXT)
    rows = np.flatnonzero(display_length)
    display = dict(zip(rows.tolist(), data.texts_at(display_at[rows], display_length[rows]), strict=True))
    return data.texts_at(at, length), display, plane


def _owner_stats(
    space: XSpaceIndex, data: Content, planes: tuple[Plane, ...]
) -> tuple[dict[int, dict[str, Value]], Counter[str]]:
    """Fill in the planes' own stats. Return the stats of event metadata by name row, and the number
    of ignored values by stat name: events, planes and names count only the first of several values.
    """
    names, counts, repeated = space.stat_names, space.count_repeated_stats(), Counter[str]()
    for row in np.flatnonzero(counts).tolist():
        repeated[names[row]] += int(counts[row])
    columns = space.read_table("owner_stats", np.uint32, np.int32, np.int32, np.uint8, np.uint64, np.uint32)
    by_name: dict[int, dict[str, Value]] = {}
    for plane_row, name_row, stat_row, kind, bits, length in zip(*(c.tolist() for c in columns), strict=True):
        if stat_row < 0:
            continue
        target, name = planes[plane_row].stats if name_row < 0 else by_name.setdefault(name_row, {}), names[stat_row]
        if name in target:
            repeated[name] += 1
        else:
            target[name] = decode_value(kind, bits, length, data, names)
    return by_name, repeated


def _strings(space: XSpaceIndex, data: Content) -> list[tuple[int, str]]:
    which, at, length = space.read_table("strings", np.uint8, *_TEXT)
    return list(zip(which.tolist(), data.texts_at(at, length), strict=True))


def _losses(space: XSpaceIndex, planes: tuple[Plane, ...], remark: str, data: Content) -> tuple[Damage, ...]:
    sizes = space.sizes
    at, lost, plane, why = _damages(space)
    losses = [Damage(remark, len(data), 0, "")] if remark else []
    for offset, size, owner, reason in zip(at.tolist(), lost.tolist(), plane.tolist(), why.tolist(), strict=True):
        name = planes[owner].name if 0 <= owner < len(planes) else ""
        if reason == _MALFORMED:
            what = "malformed data was skipped"
        elif offset >= len(data):
            what = "the file ends too early"
        else:
            what = "the last event or name is cut"
        losses.append(Damage(what, offset, size, name))
    if sizes.damages_total > sizes.damages:
        losses.append(Damage(f"{format_count(sizes.damages_total - sizes.damages, 'more damaged place')}", None, 0, ""))
    return tuple(losses)


def _oddities(clamped: int, repeated: Counter[str]) -> Iterator[Damage]:
    """Yield damage that has no place in the file and that no profiler writes. Repeated stats that
    Outpace never reads are ignored (JAX writes `_src` twice).
    """
    if clamped:
        yield Damage(f"{format_count(clamped, 'event')} with impossible times: they were clamped", None, 0, "")
    for name in sorted(repeated.keys() & dialect.KNOWN_NAMES):
        yield Damage(
            f"{format_count(repeated[name], 'surplus value')} of {name}: of several that one event has, the first counts. "
            "The file is damaged, or what wrote it is at fault",
            *(None, 0, ""),
        )
