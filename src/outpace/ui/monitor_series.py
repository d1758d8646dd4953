# SPDX-License-Identifier: Apache-2.0
"""The curves and events of one monitor file, updated as lines are appended. Memory is bounded by
what a page shows, however long the file is.
"""

from __future__ import annotations

import contextlib
import io
from collections import deque
from collections.abc import Mapping
from operator import add
from typing import Any

from outpace.model import Unit
from outpace.model.files import parse_json
from outpace.model.text import ELLIPSIS, clean_prose, format_cell
from outpace.model.units import format_count
from outpace.ui.runs import path_id

MAX_LINE_BYTES = 1 << 16  # maximum length of a line in bytes; the monitor writes no longer ones
_MOST_POINTS = 600  # maximum number of points of a curve: more than a picture has columns
_MOST_EVENTS = 100
_MOST_CHARACTERS = 500  # maximum length of a text or a path
# maximum of a number (steps, ms or MB); a larger value, or one that is no number, counts as not
# measured
_MOST = 1e15
# number of bytes of the last lines by which a file is recognised; each line contains its time
_REMEMBERED = 1024

# (number of intervals, step of the last one, sum of each number, count of each number)
_Group = tuple[int, float, tuple[float, ...], tuple[int, ...]]


class Curve:
    """Numbers of the monitor's intervals over training steps. Once the maximum number of points is
    reached, neighbouring groups are merged in pairs, and later intervals are grouped in the same
    way.
    """

    def __init__(self) -> None:
        self._groups: list[_Group] = []
        self._group_size = 1  # number of intervals in each group except the last

    def add(self, step: float, values: tuple[float | None, ...]) -> None:
        """Append the numbers of one interval."""
        one = (1, step, tuple(number or 0.0 for number in values), tuple(int(number is not None) for number in values))
        if self._groups and self._groups[-1][0] < self._group_size:
            self._groups[-1] = _merge_groups(self._groups[-1], one)
            return
        if len(self._groups) == _MOST_POINTS:
            self._groups = [_merge_groups(*pair) for pair in zip(self._groups[::2], self._groups[1::2], strict=True)]
            self._group_size *= 2
        self._groups.append(one)

    def steps(self) -> list[float]:
        """Return the last training step of each group."""
        return [group[1] for group in self._groups]

    def column_means(self, index: int) -> list[float | None]:
        """Return the mean of one number in each group; None where it was not measured."""
        return [sums[index] / counts[index] if counts[index] else None for _, _, sums, counts in self._groups]


def _merge_groups(one: _Group, other: _Group) -> _Group:
    """Return two neighbouring groups merged into one."""
    return one[0] + other[0], other[1], tuple(map(add, one[2], other[2])), tuple(map(add, one[3], other[3]))


class MonitorSeries:
    """A monitor file, up to the last line that was read.

    offset: byte offset of the next line.
    tail: the bytes before `offset`, by which the file is recognised.
    file_state: size and modification time of the file when all of it was read.
    step, step_ps, input_share: values of the last interval.
    slowdown_count: number of slowdowns.
    has_ended: whether the training has ended.
    curve: numbers of the intervals.
    """

    def __init__(self) -> None:
        self.offset, self.tail, self.file_state = 0, b"", (-1, 0.0)
        self.step: float | None = None
        self.step_ps: float | None = None
        self.input_share: float | None = None
        self.slowdown_count, self.has_ended = 0, False
        self.curve = Curve()
        self._events: deque[dict[str, Any]] = deque(maxlen=_MOST_EVENTS)
        self._count = 0  # number of all events, including those that are no longer stored

    def feed(self, data: bytes) -> None:
        """Add the lines of `data`, which begins with `tail`. An incomplete last line is left for
        the next call; lines that are not the monitor's are skipped.
        """
        lines = io.BytesIO(data)  # read one at a time, because there may be millions
        end = lines.seek(len(self.tail))
        for line in lines:
            if not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
                break
            end += len(line)
            if b'"event"' in line and len(line) < MAX_LINE_BYTES:
                with contextlib.suppress(ValueError, RecursionError):
                    event = parse_json(line.decode())
                    if isinstance(event, dict):
                        self._add(event)
        self.offset += end - len(self.tail)
        self.tail = data[max(0, end - _REMEMBERED) : end]

    def format_last(self) -> str:
        """Return the last interval in words."""
        waits = f", {self.input_share:.0%} of it waiting for input" if self.input_share is not None else ""
        return f"{format_cell(self.step_ps, Unit.PS)} per step{waits}" if self.step_ps is not None else ""

    def find_last_capture(self) -> str:
        """Return the id of the run that was captured last; "" where none was."""
        return next((path_id(event["run"]) for event in reversed(self._events) if event.get("run")), "")

    def events(self) -> list[dict[str, Any]]:
        """Return the last events, each with its step, its text and the run of its capture, after
        an entry with the number of earlier events.
        """
        events = [{**event, "run": path_id(event["run"])} if "run" in event else event for event in self._events]
        before = self._count - len(events)
        text = f"{format_count(before, 'earlier event')} are not shown"
        return [*([{"step": events[0]["step"], "kind": "note", "text": text}] if before else []), *events]

    def _add(self, event: Mapping[str, Any]) -> None:
        """Add one line of the file."""
        if event.get("event") == "interval":
            self.step, self.step_ps, self.input_share = (
                _number(event.get("step")),
                _time(_inner(event, "step_ms", "p50")),
                _share(event),
            )
            wait, memory = _number(event.get("input_wait_ms")), _number(_inner(event, "memory", "rss_mb"))
            p95 = _time(_inner(event, "step_ms", "p95"))
            self.curve.add(
                self.step or 0,
                (self.step_ps, p95, None if wait is None else wait * 1e9, None if memory is None else memory * 1e6),
            )
        elif (annotation := _annotation(event)) is not None:
            self._events.append(annotation)
            self._count += 1
            self.slowdown_count += annotation["kind"] == "slowdown"
            self.has_ended |= annotation["kind"] == "end"


def _annotation(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the text of an event for the list beside the curves; None for an event that the
    curves show.
    """
    kind = event.get("event")
    if kind not in ("slowdown", "capture", "note", "end"):
        return None
    entry = {"step": _number(event.get("step")) or 0, "kind": kind}
    if kind == "slowdown":
        now, before, since = _time(event.get("now_ms")), _time(event.get("before_ms")), _number(event.get("since"))
        if now is None or before is None or since is None:
            return {**entry, "text": "steps take longer than before"}
        times = f"{format_cell(now, Unit.PS)} instead of {format_cell(before, Unit.PS)}"
        return {**entry, "text": f"steps take {times} since step {since:,}"}
    if kind == "capture":
        steps = _number(event.get("steps"))
        text = "captured some steps" if steps is None else f"captured {format_count(steps, 'step')}"
        return {**entry, "text": text, "run": str(event.get("run", ""))[:_MOST_CHARACTERS]}
    note = str(event.get("text", "the training has ended"))
    return {**entry, "text": clean_prose(note if len(note) <= _MOST_CHARACTERS else note[:_MOST_CHARACTERS] + ELLIPSIS)}


def _inner(event: Mapping[str, Any], outer: str, name: str) -> Any:
    """Return the value `name` of the object `outer` in an event; None without one."""
    inner = event.get(outer)
    return inner.get(name) if isinstance(inner, dict) else None


def _number(value: Any, most: float = _MOST) -> Any:
    """Return the value unchanged where it is a finite number that is not negative; else None."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most else None


def _time(milliseconds: Any) -> float | None:
    """Return a step time in ps; None for a value that no step time can have."""
    number = _number(milliseconds)
    return number * 1e9 if number else None


def _share(event: Mapping[str, Any]) -> float | None:
    """Return the share of a step that waits for input; None for a value outside of a share's
    range.
    """
    share: float | None = _number(event.get("input_share"), 1.0)
    return share
