# SPDX-License-Identifier: Apache-2.0
"""The steps of a loop by the marks in its text: a step is a pass, from the end of the one before,
or from the beginning of the loop.

What lies between two runs of the loop, evaluations for instance, is no step. The outermost loop
begins again where it ends: a race needs as many steps as its budget has time for.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from outpace.tune.texts import marks
from outpace.tune.texts.edition import Edition
from outpace.tune.trial.turns import WARMUP, RaceSession

MODEL, INPUT = "model", "input"  # limits


class RacedPasses:
    """Counts the passes of the loop of an edition, and hands them to the race's session."""

    def __init__(self, session: RaceSession, loaded: Edition, first_epoch: float) -> None:
        """first_epoch: seconds that the loop gets to be left once before it is timed: caches fill
        until then.
        """
        self._session, self._turns, self._grouped = session, session.turns, loaded.grouped
        self._limit = loaded.limit
        self._key = ".".join(map(str, loaded.place.path))
        self._place = str(loaded.place)
        self._first_epoch, self._began, self._last = first_epoch, 0.0, 0.0
        self._seen, self._runs, self._ready = 0, 0, False
        self._conditions: set[str] = set()

    def install(self) -> None:
        """Let every module see what the marks mean."""
        marks.install(pass_=self._pass, more=self._more, enter=self._enter, left=self._left, ran=lambda file, line: None)

    def _enter(self, key: str) -> None:
        self._conditions.discard(key)
        self._last = time.perf_counter()

    def _left(self, key: str) -> None:
        self._runs += key == self._key

    def _pass(self, key: str, make: Callable[[], Iterable[Any]]) -> Iterator[Any]:
        if self._limit and key == self._key:
            yield from self._alone(make)
        while True:
            empty = True
            for item in make():
                empty = False
                yield item
                if key == self._key:
                    self._made(len(item[0]) if self._grouped else 1)
            if empty or "." in key:  # a loop inside of another one is run again by that
                return
            self._runs += 1

    def _alone(self, make: Callable[[], Iterable[Any]]) -> Iterator[Any]:
        """The model alone: the second item (a number that counts is 1 then) again and again. The
        input alone: no item at all.
        """
        if self._limit == MODEL:
            item = next(itertools.islice(make(), 1, None))
            while True:
                yield item
                self._made(1)
        while True:
            for _ in make():
                self._made(1)

    def _more(self, key: str) -> bool:
        """Asked before each pass of a loop with a condition; it ends by that."""
        if key in self._conditions and key == self._key:
            self._made(1)
        self._conditions.add(key)
        return True

    def _made(self, passes: int) -> None:
        now = time.perf_counter()
        seconds = now - self._last
        self._seen += passes
        self._began = self._began or now
        if self._ready:
            self._turns.step(seconds, passes)
        elif self._seen >= WARMUP and (self._runs > 0 or now - self._began >= self._first_epoch):
            self._ready = True
            self._session.sync()
            self._turns.ready(f"pass of {self._place}", None, self._seen, whole=self._runs > 0)
        self._last = time.perf_counter()

    @property
    def seen(self) -> dict[str, int]:
        """Passes so far; for messages."""
        return {f"passes of {self._place}": self._seen} if self._seen else {}


def frameworks(session: RaceSession) -> dict[str, Callable[[ModuleType], None]]:
    """What is to be done when a framework is imported: its devices are waited for at the ends of
    blocks.
    """
    return {name: functools.partial(session.add_framework, name) for name in ("tensorflow", "jax")}
