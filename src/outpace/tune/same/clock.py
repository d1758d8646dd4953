# SPDX-License-Identifier: Apache-2.0
"""A clock of the script's own, by which runs of one text read the same times: each reading is a
tick later than the one before, and what the script sleeps passes, too.

A run with another tick shows what a script makes of its time.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

CLOCKS = tuple(f"{name}{unit}" for name in ("time", "monotonic", "perf_counter", "process_time") for unit in ("", "_ns"))
TICKS = 10_000_000, 7_000_000  # ns; long enough for a script that waits until a time has passed
_SECOND = 1_000_000_000


class Clock:
    """The clocks of `time`, for code of the user's files.

    users: whether a file is one of the user's
    begin: s since 1970, the same for runs that are compared
    tick: ns
    """

    def __init__(self, users: Callable[[str], bool], begin: float, tick: int) -> None:
        self._users, self._begin, self._tick = users, int(begin) * _SECOND, tick
        self._passed = 0

    def install(self) -> None:
        """Replace Python's clocks."""
        for name in CLOCKS:
            setattr(time, name, self._replacement(getattr(time, name), name.endswith("_ns")))
        sleep = time.sleep

        @functools.wraps(sleep)
        def slept(seconds: float) -> None:
            if self._users(sys._getframe(1).f_code.co_filename):
                self._passed += int(float(seconds) * _SECOND)
            sleep(seconds)

        setattr(time, "sleep", slept)  # noqa: B010 - a name of another signature

    def _replacement(self, clock: Callable[[], Any], is_whole: bool) -> Callable[[], Any]:
        @functools.wraps(clock)
        def reading() -> Any:
            if not self._users(sys._getframe(1).f_code.co_filename):
                return clock()
            self._passed += self._tick
            now = self._begin + self._passed
            return now if is_whole else now / _SECOND

        return reading
