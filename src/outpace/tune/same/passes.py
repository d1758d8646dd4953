# SPDX-License-Identifier: Apache-2.0
"""What the marks of a text mean where it is compared: passes are counted, a loop is over after
some, and states are read.
"""

from __future__ import annotations

import functools
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from types import FrameType
from typing import Any

from outpace._dataclass import dataclass
from outpace.tune.same.shown import Items, Shown, Span, number_of
from outpace.tune.texts import marks

END = -1  # instead of a pass: behind the loop
MOST_ENTRIES = 64  # of a loop that are read, of them those whose number is a power of two
DRAWN = 15.0  # seconds in which items are drawn to see how many there are
_NONE = object()
_MORE = 4  # items behind the last that a loop had where that was looked up


def due(made: int, every: int, ends: Iterable[int]) -> bool:
    """Whether the state is read after so many passes: where a power of two of groups ends, or a
    span does with a group.
    """
    groups, rest = divmod(made, every)
    return not rest and (groups & (groups - 1) == 0 or made in ends)


@dataclass(eq=False)
class Passes:
    """What the marks call. shown: which passes are made. grouped: an item of the edited loop begins
    with a list of the items of so many passes. began: told when a loop begins for the first time,
    with the user's frame. passed: told of each pass to be read: the loop, how often it was entered,
    the pass's number, and the user's frame. surveyed: whether items are drawn behind the first
    passes, to know how many there are. ran: lines of branches that ran, by file. passes: how
    many each loop made when it ran last. items: by loop, what its runs were seen to give.
    over: told when the outermost loop begins (false) and when it is over (true). between: told of
    every pass, once it was read, with the user's frame. made: passes of the innermost loop, in all.
    skipped: whether passes were left out, or may have been: how many there are, a loop may decide
    while it runs.
    """

    shown: Shown
    grouped: bool
    began: Callable[[FrameType], None]
    passed: Callable[[str, int, int, FrameType], None]
    innermost: str = ""
    surveyed: bool = False
    ran: dict[str, set[int]] = field(default_factory=dict)
    passes: dict[str, int] = field(default_factory=dict)
    items: dict[str, list[Items]] = field(default_factory=dict)
    over: Callable[[bool], None] = lambda over: None
    between: Callable[[FrameType], None] = lambda frame: None
    made: int = 0
    skipped: bool = False
    _entries: dict[str, int] = field(default_factory=dict)
    _spans: tuple[Span, ...] | None = None
    _spans_of: tuple[str, int] = ("", 0)

    def install(self) -> None:
        """Let every module see the names."""
        marks.install(
            pass_=self._pass, cut=self._cut, more=self._more, enter=self._enter, left=self._left, returned=self._returned,
            ran=self._ran,
        )  # fmt: skip

    def _ran(self, file: str, line: int) -> None:
        self.ran.setdefault(file, set()).add(line)

    def spans(self, key: str) -> tuple[Span, ...] | None:
        """The passes that this run of a loop makes; None for all."""
        if not self.shown.first:
            return None
        if self._spans_of != (key, self._entries[key]):
            self._spans_of = key, self._entries[key]
            self._spans = self.shown.run(*self._spans_of, key == self.innermost)
        return self._spans

    def _end(self, key: str, spans: Sequence[Span]) -> int | None:
        """How many items a run of a loop has, where it is seen to the last of them."""
        end = self.shown.end(key, self._entries[key])
        return end if end == spans[-1][1] else None

    def _read(self, key: str) -> bool:
        """Whether this run of a loop is one that is read."""
        entry = self._entries[key]
        return entry & (entry - 1) == 0 and entry <= MOST_ENTRIES

    def _enter(self, key: str) -> None:
        if not self._entries:
            self.began(sys._getframe(1))
        if "." not in key:
            self.over(False)
        self._entries[key] = self._entries.get(key, 0) + 1
        self.passes[key] = 0

    def _cut(self, key: str, items: Iterable[Any]) -> Iterable[Any]:
        """The items of the passes that are made."""
        spans = self.spans(key)
        if spans is None:
            return items
        told = functools.partial(self.items.setdefault(key, []).append) if self.surveyed else None
        return _Some(items, spans, self._end(key, spans), told, self._skip)

    def _skip(self) -> None:
        self.skipped = True

    def _pass(self, key: str, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            yield item
            self._made(key, len(item[0]) if self.grouped and key == self.innermost else 1, sys._getframe(1))

    def _more(self, key: str) -> bool:
        """Asked before each pass of a loop with a condition, of which none can be left out."""
        if (made := self.passes[key]) >= 0 and f"{key}?" in self._entries and self._entries[f"{key}?"] == self._entries[key]:
            self._made(key, 1, sys._getframe(1))
            made += 1
        self._entries[f"{key}?"] = self._entries[key]
        spans = self.spans(key)
        goes_on = spans is None or made < spans[0][1]
        self.skipped = self.skipped or not goes_on
        return goes_on

    def _made(self, key: str, passes: int, frame: FrameType) -> None:
        self.passes[key] = made = self.passes[key] + passes
        self.made += passes if key == self.innermost else 0
        if self._read(key):
            spans = self.spans(key) or ()
            number, ends = number_of(spans, made), itertools.accumulate(end - start for start, end in spans)
            if due(made, self.shown.every, ends) or self.shown.near(number):
                self.passed(key, self._entries[key], number, frame)
        self.between(frame)

    def _left(self, key: str) -> None:
        if "." not in key:
            self.over(True)
        if self._read(key):
            self.passed(key, self._entries[key], END, sys._getframe(1))

    def _returned(self, key: str) -> None:
        """The function that holds the loop is over."""
        self.over(True)
        if key in self._entries and self._read(key):
            self.passed(f"{key} returned", self._entries[key], END, sys._getframe(1))


class _Some:
    """Some items of something, which otherwise is what it was. end: how many it has. told: of how
    many there were. skip: called where one is left out, or where nobody knows whether there is
    another one.
    """

    def __init__(
        self,
        items: Iterable[Any],
        spans: tuple[Span, ...],
        end: int | None,
        told: Callable[[Items], None] | None,
        skip: Callable[[], None],
    ) -> None:
        self._items, self._spans, self._end, self._told, self._skip = items, spans, end, told, skip

    def __iter__(self) -> Iterator[Any]:
        last = self._spans[-1][1]
        until = last if self._end is None else self._end + _MORE
        items = iter(self._items)
        drawn, took = 0, 0.0
        while drawn < until:
            began = time.monotonic()
            item = next(items, _NONE)
            took += time.monotonic() - began
            if item is _NONE:
                break
            drawn += 1
            if drawn > last or any(start < drawn <= end for start, end in self._spans):
                yield item
            else:
                self._skip()
        else:
            self._skip()
        if self._told is not None:  # it was not left before
            self._told(Items(drawn, True, took) if drawn < until else counted_in(items, drawn, took))

    def __len__(self) -> int:
        shown = sum(end - start for start, end in self._spans)
        return min(len(self._items), shown)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._items, name)


def counted_in(items: Iterator[Any], drawn: int = 0, took: float = 0.0) -> Items:
    """How many items there are in all, of which some are drawn in some seconds, as far as there is
    time.
    """
    began = time.monotonic()
    for _ in items:
        drawn += 1
        if time.monotonic() - began > DRAWN:
            return Items(drawn, False)
    return Items(drawn, True, took + time.monotonic() - began)
