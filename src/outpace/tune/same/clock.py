# SPDX-License-Identifier: Apache-2.0
"""A clock of the script's own, by which runs of one text read the same times: each reading is a
tick later than the one before, and what the script sleeps passes, too.

A run with another clock, which begins at another time of another day and goes on unevenly, shows
what a script makes of its time: a pause that is long, a budget that lasts for more steps.
"""

from __future__ import annotations

import datetime
import dis
import functools
import sys
import time
import timeit
from collections.abc import Callable
from types import ModuleType
from typing import Any

from outpace._dataclass import dataclass

CLOCKS = tuple(f"{name}{unit}" for name in ("time", "monotonic", "perf_counter", "process_time") for unit in ("", "_ns"))
CALENDAR = ("localtime", "gmtime", "ctime")  # functions of seconds since 1970, by default of now
_SECOND = 1_000_000_000  # ns
_NAMED_BY = ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")  # instructions of code that takes a name of a module
_MIXED = 2_654_435_761  # odd, and far from every power of two
_SHIFT = 40 * 86_400 + 41_567  # s: the month, the weekday, half of the day, the minute and the second are others
_UNEVEN = 1_000  # ns of the shortest tick
_LONG = 1.5  # s of the longest tick at least


@dataclass(frozen=True)
class ClockSetting:
    """begin: s since 1970. tick: ns, long enough for a script that waits for a time; 0 for ticks
    that differ: from 1 µs to 1 ms, and at readings 1, 2, 3, 5, 8, 13, ... one of seconds. longest:
    s of the first two of these; each later one, the n-th, is as long as that divided by n - 1.
    """

    begin: float = 0.0
    tick: int = 10_000_000
    longest: float = _LONG

    def other(self, seconds: float) -> ClockSetting:
        """A clock of which all readings are others. Between the first and the second one it passes
        at least so many seconds.
        """
        return ClockSetting(self.begin - _SHIFT, 0, max(_LONG, seconds))


class Clock:
    """The clocks of `time` and `datetime`, for code of the user's files. users: whether a file is
    one of the user's. readings: how often it read one. is_tracing: whether a function is being
    traced; `traced` is whether a clock was read meanwhile.
    """

    def __init__(self, users: Callable[[str], bool], setting: ClockSetting, is_tracing: Callable[[], bool] = bool) -> None:
        self._is_tracing, self.traced = is_tracing, False
        self._users, self._begin, self._setting = users, int(setting.begin) * _SECOND, setting
        self._passed = self.readings = self._long = 0
        self._next, self._after = 1, 2  # readings with a long tick

    def install(self) -> None:
        """Replace Python's clocks."""
        for name in CLOCKS:
            setattr(time, name, self._clock(getattr(time, name), name.endswith("_ns")))
        for name in CALENDAR:
            setattr(time, name, self._calendar(getattr(time, name)))
        for name, own in (("strftime", self._strftime(time.strftime, time.localtime)), ("sleep", self._sleep(time.sleep))):
            setattr(time, name, own)
        timeit.default_timer = time.perf_counter
        sys.modules["datetime"] = _Dates(datetime, self._is_named_by_user, self._now)

    def _is_users(self, depth: int = 2) -> bool:
        """Whether the code is the user's that called what calls this."""
        return self._users(sys._getframe(depth).f_code.co_filename)

    def _is_named_by_user(self) -> bool:
        """Whether the user's code takes a name of a module, as written there: `pickle` looks names
        up, too, on its behalf.
        """
        frame = sys._getframe(2)
        return self._users(frame.f_code.co_filename) and dis.opname[frame.f_code.co_code[frame.f_lasti]] in _NAMED_BY

    def _now(self) -> float:
        """Return the next reading, s since 1970."""
        self.readings += 1
        self.traced = self.traced or self._is_tracing()
        self._passed += self._setting.tick or self._uneven_tick()
        return (self._begin + self._passed) / _SECOND

    def _uneven_tick(self) -> int:
        if self.readings < self._next:
            return _UNEVEN << (self.readings * _MIXED >> 16) % 11
        self._next, self._after = self._after, self._next + self._after
        self._long += 1
        return int(self._setting.longest * _SECOND / max(1, self._long - 1))

    def _clock(self, clock: Callable[[], Any], is_whole: bool) -> Callable[[], Any]:
        @functools.wraps(clock)
        def reading() -> Any:
            if not self._is_users():
                return clock()
            now = self._now()
            return self._begin + self._passed if is_whole else now

        return reading

    def _calendar(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def reading(seconds: float | None = None) -> Any:
            return plain(self._now() if seconds is None and self._is_users() else seconds)

        return reading

    def _strftime(self, plain: Callable[..., str], local: Callable[..., Any]) -> Callable[..., str]:
        @functools.wraps(plain)
        def strftime(form: str, *given: Any) -> str:
            return plain(form, *given) if given or not self._is_users() else plain(form, local(self._now()))

        return strftime

    def _sleep(self, plain: Callable[[float], None]) -> Callable[[float], None]:
        @functools.wraps(plain)
        def sleep(seconds: float) -> None:
            if self._is_users():
                self._passed += int(float(seconds) * _SECOND)
            plain(seconds)

        return sleep


class _Dates(ModuleType):
    """The module `datetime`, whose classes give the user's code its own time. Their instances are
    those of the module itself.
    """

    def __init__(self, plain: Any, is_named_by_user: Callable[[], bool], now: Callable[[], float]) -> None:
        super().__init__(plain.__name__, plain.__doc__)
        for name, value in vars(plain).items():
            if name not in ("datetime", "date"):
                self.__dict__[name] = value
        self.__dict__.update(_plain=plain, _is_named_by_user=is_named_by_user, _own=_own_classes(plain, now))

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__["_own"].get(name)
        return own if own is not None and self.__dict__["_is_named_by_user"]() else getattr(self.__dict__["_plain"], name)


def _own_classes(plain: Any, now: Callable[[], float]) -> dict[str, type]:
    """Return the classes `datetime` and `date` by name, with another now."""

    class _Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, cls.__mro__[1])

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, cls.__mro__[1])

    class DateTime(plain.datetime, metaclass=_Kind):  # type: ignore[misc]
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return plain.datetime(*args, **kwargs)

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return plain.datetime.fromtimestamp(now(), tz)

        @classmethod
        def utcnow(cls) -> Any:
            return plain.datetime.fromtimestamp(now(), plain.timezone.utc).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return plain.datetime.fromtimestamp(now())

    class Date(plain.date, metaclass=_Kind):  # type: ignore[misc]
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return plain.date(*args, **kwargs)

        @classmethod
        def today(cls) -> Any:
            return plain.date.fromtimestamp(now())

    for kind, name in ((DateTime, "datetime"), (Date, "date")):
        kind.__name__, kind.__qualname__, kind.__module__ = name, name, "datetime"
    return {"datetime": DateTime, "date": Date}
