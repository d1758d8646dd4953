"""What the marks of a text mean where it is compared: passes are counted, a loop is over after some, and states are read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from types import FrameType
from typing import Any

from outpace._dataclass import dataclass
from outpace.tune.texts import marks

END = -1  # instead of a pass: behind the loop
OUTER_PASSES = 2  # of loops around, where the loop is cut
MOST_ENTRIES = 64  # of a loop that are read, of them those whose number is a power of two


def due(made: int, every: int) -> bool:
    """Whether the state is read after so many passes: a power of two, or so many groups."""
    groups, rest = divmod(made, every)
    return made & (made - 1) == 0 or (not rest and groups & (groups - 1) == 0)


@dataclass(eq=False)
class Passes:
    """What the marks call. cut: passes after which the loop is over, 0 for its own end. every: passes of a group, which are read at its ends.
    grouped: an item of the edited loop begins with a list of the items of so
    many passes. began: told when a loop begins for the first time, with the user's frame. passed: told of each pass to be read: the loop, how
    often it was entered, the number of passes, and the user's frame."""

    cut: int
    every: int
    grouped: bool
    began: Callable[[FrameType], None]
    passed: Callable[[str, int, int, FrameType], None]
    innermost: str = ""
    ran: dict[str, set[int]] = field(default_factory=dict)
    passes: dict[str, int] = field(default_factory=dict)
    _entries: dict[str, int] = field(default_factory=dict)

    def install(self) -> None:
        """Let every module see the names."""
        marks.install(
            pass_=self._pass, cut=self._cut, more=self._more, enter=self._enter, left=self._left,
            ran=lambda file, line: self.ran.setdefault(file, set()).add(line),
        )  # fmt: skip

    def _most(self, key: str) -> int:
        if not self.cut:
            return sys.maxsize
        return self.cut if key == self.innermost else OUTER_PASSES

    def _read(self, key: str) -> bool:
        """Whether this run of a loop is one that is read."""
        entry = self._entries[key]
        return entry & (entry - 1) == 0 and entry <= MOST_ENTRIES

    def _enter(self, key: str) -> None:
        if not self._entries:
            self.began(sys._getframe(1))
        self._entries[key] = self._entries.get(key, 0) + 1
        self.passes[key] = 0

    def _cut(self, key: str, items: Iterable[Any]) -> Iterable[Any]:
        """The first items."""
        return _First(items, self._most(key))

    def _pass(self, key: str, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            yield item
            self._made(key, len(item[0]) if self.grouped and key == self.innermost else 1, sys._getframe(1))

    def _more(self, key: str) -> bool:
        """Asked before each pass of a loop with a condition."""
        if (made := self.passes[key]) >= 0 and f"{key}?" in self._entries and self._entries[f"{key}?"] == self._entries[key]:
            self._made(key, 1, sys._getframe(1))
            made += 1
        self._entries[f"{key}?"] = self._entries[key]
        return made < self._most(key)

    def _made(self, key: str, passes: int, frame: FrameType) -> None:
        self.passes[key] = made = self.passes[key] + passes
        if self._read(key) and (due(made, self.every) or made == self._most(key)):
            self.passed(key, self._entries[key], made, frame)

    def _left(self, key: str) -> None:
        if self._read(key):
            self.passed(key, self._entries[key], END, sys._getframe(1))


class _First:
    """The first items of something, which otherwise is what it was."""

    def __init__(self, items: Iterable[Any], most: int) -> None:
        self._items, self._most = items, most

    def __iter__(self) -> Iterator[Any]:
        at = 0
        if at < self._most:
            for item in self._items:
                yield item
                at += 1
                if at >= self._most:
                    return

    def __len__(self) -> int:
        return min(len(self._items), self._most)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._items, name)
