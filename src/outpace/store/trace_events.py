# SPDX-License-Identifier: Apache-2.0
"""Conversion of the trace-viewer events that TensorFlow's profiler session returns to an XSpace, as
far as their content allows.

`ProfilerSession().stop()` of TensorFlow serialises a `Trace` (trace_events.proto): planes and
threads by name, events with their times, stats as text. It leaves out the links between events of
several threads, step marks and compiled programs. A warning in the profile says so.
"""

from __future__ import annotations

from typing import Any

from outpace._lazy import compile_lazily
from outpace.model.protobuf_wire import iter_fields
from outpace.model.space_builder import Inline, LineBuilder, SpaceBuilder, StatValue

_DEVICES, _EVENTS = 1, 4  # field numbers of Trace
_NAME, _RESOURCES = 1, 3  # field numbers of Device; a resource has its name at 1, too
_DEVICE, _RESOURCE, _TITLE, _START, _DURATION, _ARGUMENTS = 1, 2, 3, 9, 10, 11  # field numbers of TraceEvent
_KEY, _VALUE = 1, 2  # field numbers of a map entry
_LESS = (
    "read from what TensorFlow's ProfilerSession.stop() returns, which leaves out the marks of steps and what links events of several "
    "threads; for all of it capture into a file"
)
_NUMBER = compile_lazily(r"-?\d{1,19}")


def convert_to_xspace(data: bytes) -> bytes | None:
    """Return the bytes of an XSpace with the events of a serialised `Trace`; None for bytes that
    are no `Trace`.
    """
    try:
        first = next(iter_fields(memoryview(data)[: 1 << 20]), (0, b""))
        if first[0] != _DEVICES or not _device(first[1])[1]:
            return None
        return _space(data).to_bytes()
    except (ValueError, TypeError, KeyError):  # the bytes are another message, or none at all
        return None


def _space(data: bytes) -> SpaceBuilder:
    """Build the XSpace of a serialised `Trace`. Raises ValueError, TypeError or KeyError where the
    bytes are something else.
    """
    space, lines = SpaceBuilder(""), dict[tuple[int, int], LineBuilder]()
    events: list[Any] = []
    space.errors.append(_LESS)
    for number, value in iter_fields(memoryview(data)):
        if number == _DEVICES:
            identity, name, resources = _device(value)
            plane = space.plane(name, identity)
            lines.update({(identity, thread_id): plane.line(thread, thread_id) for thread_id, thread in resources})
        elif number == _EVENTS:
            events.append(value)  # devices may follow the events
    for event in events:
        _add(lines, list(iter_fields(event)))
    return space


def _add(lines: dict[tuple[int, int], LineBuilder], event: list[tuple[int, Any]]) -> None:
    only = {number: value for number, value in event if number != _ARGUMENTS}
    arguments = (_entry(value) for number, value in event if number == _ARGUMENTS)
    stats = {_text(key): _value(_text(value)) for key, value in arguments}
    line = lines[only.get(_DEVICE, 0), only.get(_RESOURCE, 0)]
    line.event(_text(only[_TITLE]), only.get(_START, 0), only.get(_DURATION, 0), num_occurrences=None, **stats)


def _device(entry: Any) -> tuple[int, str, list[tuple[int, str]]]:
    """Return (number, name, [(number, name) of each thread]) of a device, which is an entry of the
    map.
    """
    identity, device = _entry(entry)
    named = list(iter_fields(device))
    resources = (_entry(value) for number, value in named if number == _RESOURCES)
    name = next(_text(value) for number, value in named if number == _NAME)
    return identity, name, [(thread_id, _text(dict(iter_fields(thread)).get(_NAME, b""))) for thread_id, thread in resources]


def _entry(entry: Any) -> tuple[Any, Any]:
    both = dict(iter_fields(entry))
    return both.get(_KEY, 0), both.get(_VALUE, b"")


def _text(value: Any) -> str:
    return bytes(value).decode("utf-8", "replace")


def _value(text: str) -> StatValue:
    """Return a stat as a number where its text is one that fits into 64 bits, else as
    inline text.
    """
    return int(text) if _NUMBER.fullmatch(text) and abs(int(text)) < 1 << 63 else Inline(text)
